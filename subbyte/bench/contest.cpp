// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/bench/contest.h"

#include <algorithm>

#include "subbyte/core/clock.h"

namespace subbyte::bench {

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

std::vector<Timing> contest(const std::vector<Contender>& contenders, int least_rounds,
                            double seconds) {
    for (const Contender& c : contenders) c.run();
    std::vector<std::vector<double>> times(contenders.size()), ratios(contenders.size());
    const Stopwatch whole;
    for (int round = 0; round < least_rounds || whole.seconds() < seconds; ++round) {
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            const Stopwatch watch;
            contenders[i].run();
            times[i].push_back(watch.seconds());
            ratios[i].push_back(times[i].back() / times[0].back());
        }
    }
    std::vector<Timing> result;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
        const auto [low, high] = std::minmax_element(times[i].begin(), times[i].end());
        result.push_back({contenders[i].name, median(times[i]), *low, *high, median(ratios[i])});
    }
    return result;
}

}  // namespace subbyte::bench
