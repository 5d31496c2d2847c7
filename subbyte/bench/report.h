// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/bench/benchmarks.h"
#include "subbyte/bench/contest.h"

namespace subbyte::bench {

// Sets the number of threads for the life of the object, as Effort says.
class ThreadScope {
public:
    explicit ThreadScope(std::int64_t threads);
    ~ThreadScope();
    ThreadScope(const ThreadScope&) = delete;
    ThreadScope& operator=(const ThreadScope&) = delete;

private:
    int before_;
};

// Error kUsage "<what> is <value>" for a size below 1.
void check_sizes(const std::vector<std::pair<std::string, std::int64_t>>& sizes);

// The fields that all benchmarks share. timings[0] is ours; the others are named "fp32", "bf16",
// ... and give <name>_seconds and vs_<name>.
nlohmann::json report(const std::string& benchmark, const std::vector<Timing>& timings);

}  // namespace subbyte::bench
