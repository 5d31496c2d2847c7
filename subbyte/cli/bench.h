// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/measured_times.h"

namespace CLI {
class App;
}

namespace subbyte::cli {

// bench --profile FILE: options of the verb itself.
void add_bench_profile(CLI::App& bench);

// Measured times as a table: what a recipe takes, how much of it is quantising, and whether it
// pays.
std::string times_text(const std::vector<plan::MeasuredTime>& times);

}  // namespace subbyte::cli
