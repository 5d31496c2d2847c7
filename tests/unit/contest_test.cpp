// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The timing of `subbyte bench`: who runs when, and what the figures are.
#include "subbyte/bench/contest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace subbyte::bench {
namespace {

TEST(Contest, MedianOfOddAndEvenCounts) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({}), 0);
}

TEST(Contest, ContendersTakeTurnsAfterOneRoundThatDoesNotCount) {
    std::string order;
    const auto timings =
        contest({{"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}}, 3, 0);
    EXPECT_EQ(order, "abababab");
    ASSERT_EQ(timings.size(), 2u);
    EXPECT_EQ(timings[1].name, "b");
    EXPECT_EQ(timings[0].ratio, 1.0);
}

TEST(Contest, RatioSaysHowMuchLongerThanTheFirst) {
    const auto wait = [](int ms) {
        return [ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    };
    const auto timings = contest({{"short", wait(5)}, {"long", wait(50)}}, 3, 0);
    EXPECT_GT(timings[1].ratio, 2.0);
    EXPECT_LE(timings[1].lowest_seconds, timings[1].median_seconds);
    EXPECT_LE(timings[1].median_seconds, timings[1].highest_seconds);
    EXPECT_GE(timings[1].lowest_seconds, 0.05);
}

TEST(Contest, GoesOnUntilTheTimeIsUp) {
    int runs = 0;
    contest({{"a",
              [&] {
                  ++runs;
                  std::this_thread::sleep_for(std::chrono::milliseconds(2));
              }}},
            1, 0.05);
    EXPECT_GT(runs, 3);
}

}  // namespace
}  // namespace subbyte::bench
