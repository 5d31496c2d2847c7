// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "subbyte/train/config_reader.h"

namespace subbyte::train {

// What no single key can tell: contradictions between keys (warm-up longer than the schedule, heads
// that do not divide the width, no model at all ...). Each mistake is placed at the first of its
// keys that was given. Checks that touch a key in `unusable` (its value was refused already) are
// left out.
std::vector<Mistake> check_config(const LoadedConfig& loaded,
                                  const std::set<std::string, std::less<>>& unusable = {});

}  // namespace subbyte::train
