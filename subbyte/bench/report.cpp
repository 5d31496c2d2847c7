// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/bench/report.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "subbyte/core/cpu.h"
#include "subbyte/core/error.h"

namespace subbyte::bench {

ThreadScope::ThreadScope(std::int64_t threads) : before_(at::get_num_threads()) {
    if (threads < 0) {
        throw Error(ErrorCode::kUsage, fmt::format("threads is {}", threads),
                    "a number of threads, or 0 for all cores");
    }
    if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

ThreadScope::~ThreadScope() { at::set_num_threads(before_); }

void check_sizes(const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
    for (const auto& [name, value] : sizes) {
        if (value < 1) {
            throw Error(ErrorCode::kUsage, fmt::format("{} is {}", name, value),
                        "sizes are 1 and more");
        }
    }
}

nlohmann::json report(const std::string& benchmark, const std::vector<Timing>& timings) {
    nlohmann::json json{{"benchmark", benchmark},
                        {"cpu", cpu_model_name()},
                        {"isa", isa_name(max_isa())},
                        {"threads", at::get_num_threads()},
                        {"seconds", timings.at(0).median_seconds},
                        {"lowest_seconds", timings[0].lowest_seconds},
                        {"highest_seconds", timings[0].highest_seconds}};
    for (std::size_t i = 1; i < timings.size(); ++i) {
        json[timings[i].name + "_seconds"] = timings[i].median_seconds;
        json["vs_" + timings[i].name] = timings[i].ratio;
    }
    return json;
}

}  // namespace subbyte::bench
