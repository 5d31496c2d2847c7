// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "subbyte/optim/lr_schedule.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

TEST(LrSchedule, CosineTable) {
    // Cosine from 1e-3 to 1e-4 over 100 steps: the values of a report on jumping rates.
    const LrSchedule curve({.shape = "cosine", .peak = 1e-3, .min_ratio = 0.1, .total_steps = 100});
    EXPECT_DOUBLE_EQ(curve.lr_at(0), 1e-3);
    EXPECT_NEAR(curve.lr_at(25), 1e-4 + 9e-4 * (2 + std::sqrt(2.0)) / 4, 1e-18);
    EXPECT_NEAR(curve.lr_at(50), 5.5e-4, 1e-18);
    EXPECT_NEAR(curve.lr_at(51), 5.5e-4 - 4.5e-4 * std::sin(M_PI / 100), 1e-18);
    EXPECT_NEAR(curve.lr_at(51), 5.36e-4, 5e-7);
    EXPECT_GT(curve.lr_at(99), 1e-4);
    EXPECT_DOUBLE_EQ(curve.lr_at(100), 1e-4);
    EXPECT_DOUBLE_EQ(curve.lr_at(1'000'000), 1e-4);
}

TEST(LrSchedule, LinearTable) {
    const LrSchedule curve(
        {.shape = "linear", .peak = 2.0, .min_ratio = 0.25, .warmup_steps = 4, .total_steps = 10});
    const double expected[] = {0.5, 1, 1.5, 2, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.5};
    for (int i = 0; i < 12; ++i) EXPECT_DOUBLE_EQ(curve.lr_at(i), expected[i]) << i;
}

TEST(LrSchedule, ConstantTable) {
    for (const std::int64_t total : {0, 10}) {
        const LrSchedule curve(
            {.shape = "constant", .peak = 3.0, .warmup_steps = 3, .total_steps = total});
        const double expected[] = {1, 2, 3, 3, 3};
        for (int i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(curve.lr_at(i), expected[i]) << i;
        EXPECT_EQ(curve.lr_at(1000), 3.0);
    }
}

// Warm-up of 0, 1, the whole curve: finite, reaches the peak, rises only during the warm-up and
// never after the end.
TEST(LrSchedule, WarmUpLengths) {
    for (const char* shape : {"constant", "linear", "cosine"}) {
        for (const std::int64_t total : {1, 2, 7, 1000}) {
            for (const std::int64_t warmup : {std::int64_t{0}, std::int64_t{1}, total / 2, total}) {
                SCOPED_TRACE(std::string(shape) + " " + std::to_string(warmup) + "/" +
                             std::to_string(total));
                const LrSchedule curve({.shape = shape,
                                        .peak = 1e-3,
                                        .min_ratio = 0,
                                        .warmup_steps = warmup,
                                        .total_steps = total});
                double top = 0;
                for (std::int64_t step = 0; step < total + 50; ++step) {
                    const double lr = curve.lr_at(step);
                    ASSERT_TRUE(std::isfinite(lr) && lr >= 0) << step;
                    if (step > 0) {
                        ASSERT_EQ(lr > curve.lr_at(step - 1), step < warmup) << step;
                    }
                    top = std::max(top, lr);
                }
                EXPECT_EQ(top, 1e-3);
                EXPECT_EQ(curve.lr_at(total + 50), curve.lr_at(total));
            }
        }
    }
}

TEST(LrSchedule, RefusesBadOptions) {
    const LrScheduleOptions good{.total_steps = 10};
    const auto refuse = [&](const std::string& part, auto change) {
        LrScheduleOptions bad = good;
        change(bad);
        expect_error(ErrorCode::kUsage, part, [&] { LrSchedule schedule(bad); });
    };
    EXPECT_EQ(LrSchedule(good).lr_at(10), 1e-4);
    refuse("'cosin' is unknown", [](auto& o) { o.shape = "cosin"; });
    refuse("peak is -1", [](auto& o) { o.peak = -1; });
    refuse("peak is nan", [](auto& o) { o.peak = std::nan(""); });
    refuse("min_ratio is 1.5, must be in [0, 1]", [](auto& o) { o.min_ratio = 1.5; });
    refuse("total_steps is 0, must be at least 1", [](auto& o) { o.total_steps = 0; });
    refuse("warmup_steps is 11, must be in 0 .. 10", [](auto& o) { o.warmup_steps = 11; });
    refuse("warmup_steps is -1", [](auto& o) { o.warmup_steps = -1; });
    refuse("warmup_steps is 11", [](auto& o) { o.shape = "constant", o.warmup_steps = 11; });
    expect_error(ErrorCode::kUsage, "step is -1", [&] { LrSchedule(good).lr_at(-1); });
    EXPECT_EQ(error_of([] { LrSchedule({.shape = "cosin", .total_steps = 1}); }).hint(),
              "did you mean 'cosine'?");
}

TEST(LrSchedule, SurvivesACheckpoint) {
    const LrSchedule curve({.shape = "cosine",
                            .peak = 0.1 + 0.2,
                            .min_ratio = 1.0 / 3,
                            .warmup_steps = 7,
                            .total_steps = 100});
    const LrSchedule back = LrSchedule::from_json(nlohmann::json::parse(curve.to_json().dump()));
    EXPECT_TRUE(back == curve);
    for (int step = 0; step < 110; ++step) EXPECT_EQ(back.lr_at(step), curve.lr_at(step)) << step;
    EXPECT_EQ(LrSchedule({.peak = 1e-3, .warmup_steps = 5, .total_steps = 100}).describe(),
              "cosine 0.001 -> 0.0001 over 100 steps, warm-up 5");

    nlohmann::json broken = curve.to_json();
    broken["total_steps"] = 3;
    expect_error(ErrorCode::kData, "warmup_steps is 7", [&] { LrSchedule::from_json(broken); });
    broken = curve.to_json();
    broken.erase("peak");
    expect_error(ErrorCode::kData, "'peak' is missing", [&] { LrSchedule::from_json(broken); });
    broken = curve.to_json();
    broken["gamma"] = 1;
    expect_error(ErrorCode::kData, "unknown key 'gamma'", [&] { LrSchedule::from_json(broken); });
}

// A resume with another length must see that the curve is another one.
TEST(LrSchedule, EqualityIsTheSameCurve) {
    const LrScheduleOptions base{.shape = "cosine", .total_steps = 100};
    const auto differs = [&](auto change) {
        LrScheduleOptions other = base;
        change(other);
        return !(LrSchedule(other) == LrSchedule(base));
    };
    EXPECT_FALSE(differs([](auto&) {}));
    EXPECT_TRUE(differs([](auto& o) { o.total_steps = 200; }));
    EXPECT_TRUE(differs([](auto& o) { o.peak = 2e-3; }));
    EXPECT_TRUE(differs([](auto& o) { o.min_ratio = 0.2; }));
    EXPECT_TRUE(differs([](auto& o) { o.warmup_steps = 1; }));
    EXPECT_TRUE(differs([](auto& o) { o.shape = "linear"; }));
    EXPECT_TRUE(LrSchedule({.shape = "constant", .total_steps = 100}) ==
                LrSchedule({.shape = "constant", .min_ratio = 0.5, .total_steps = 200}));
}

}  // namespace
}  // namespace subbyte::optim
