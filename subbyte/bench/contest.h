// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace subbyte::bench {

// Somebody who does the same work as the others.
struct Contender {
    std::string name;
    std::function<void()> run;  // once through the work
};

struct Timing {
    std::string name;
    double median_seconds = 0;
    double lowest_seconds = 0, highest_seconds = 0;
    double ratio = 1;  // median over the rounds of: its time / time of the first contender
};

// Runs all contenders once per round, in turns, after one round that does not count: what disturbs
// the machine for a while disturbs all of them, and the ratios stay. At least `least_rounds`, then
// on until `seconds` have passed.
std::vector<Timing> contest(const std::vector<Contender>& contenders, int least_rounds,
                            double seconds);

double median(std::vector<double> values);

}  // namespace subbyte::bench
