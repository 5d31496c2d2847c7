// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The guards and adjustments beside the planner, with numbers worked out by hand.
#include "subbyte/snip/control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "subbyte/core/error.h"
#include "tests/refuses.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::snip {
namespace {

using plan::LayerTable;
using plan::Plan;
using plan::Slot;

// Four layers of equal work, "a" to "d".
LayerTable four_layers() {
    LayerTable table;
    for (const char* name : {"a", "b", "c", "d"}) {
        table.push_back(plan::make_layer(name, 8, 8, 8));
    }
    return table;
}

std::string slots_of(const Plan& plan, const std::string& layer) {
    return plan.recipe(layer, Slot::kFprop) + "/" + plan.recipe(layer, Slot::kDgrad) + "/" +
           plan.recipe(layer, Slot::kWgrad);
}

// A guard refuses each of the options and names the value.
template <typename Guard, typename Options, std::size_t kCount>
void expect_refused(const std::pair<Options, const char*> (&bad)[kCount]) {
    for (const auto& [options, part] : bad) {
        const auto make = [&options = options] { Guard guard(options); };
        EXPECT_TRUE(refuses(ErrorCode::kUsage, make, part));
    }
}

TEST(PrecisionLadder, StepsThroughWhatTheRunKnows) {
    const PrecisionLadder ladder({"fp8", "fp4"}, "bf16");
    EXPECT_EQ(ladder.above("fp4", Slot::kWgrad), "fp8");
    EXPECT_EQ(ladder.above("mxfp4", Slot::kFprop), "fp8");
    EXPECT_EQ(ladder.above("fp8", Slot::kDgrad), "bf16");
    EXPECT_EQ(ladder.above("bf16", Slot::kDgrad), "bf16");
    EXPECT_EQ(PrecisionLadder({"fp4"}, "fp32").above("fp4", Slot::kFprop), "fp32");
}

// Decay 0.5, ratios 2, 1.5, 1.4: means 2, (0.5 * 0.5 * 2 + 0.5 * 1.5) / 0.75 = 1.6667, then
// (0.25 * 0.5 * 2 + 0.25 * 1.5 + 0.5 * 1.4) / 0.875 = 1.5143.
TEST(NoiseGuard, RaisesTheWgradWhoseRunningRatioFallsBelowTheBound) {
    NoiseGuard guard(1.6, 0.5);
    const PrecisionLadder ladder({"fp8", "fp4"}, "bf16");
    const LayerTable table = four_layers();
    const Plan plan = plan::uniform_plan(table, "fp4");
    const auto observe = [&](double a, double b, const Plan& in_force) {
        return guard.observe({{"a", a, 1.0}, {"b", 2 * b, 2.0}}, in_force, ladder);
    };
    EXPECT_TRUE(observe(2.0, 9.0, plan).empty());
    EXPECT_TRUE(observe(1.5, 9.0, plan).empty());
    Plan raised = plan;
    guard.apply(raised);
    EXPECT_EQ(raised, plan);
    const auto events = observe(1.4, 9.0, plan);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].control, "noise-guard");
    EXPECT_EQ(events[0].slots, std::vector<std::string>{"a.wgrad"});
    EXPECT_NE(events[0].reason.find("a fp4 -> fp8: |g| / |g_q - g| = 1.514 (below 1.600)"),
              std::string::npos)
        << events[0].reason;
    guard.apply(raised);
    EXPECT_EQ(slots_of(raised, "a"), "fp4/fp4/fp8");
    EXPECT_EQ(slots_of(raised, "b"), "fp4/fp4/fp4");
    // Under the new recipe the mean starts anew, and what is low there goes one step further.
    EXPECT_TRUE(observe(3.0, 9.0, raised).empty());
    ASSERT_EQ(observe(0.1, 9.0, raised).size(), 1u);  // (0.25 * 3 + 0.5 * 0.1) / 0.75 = 1.067
    guard.apply(raised);
    EXPECT_EQ(slots_of(raised, "a"), "fp4/fp4/bf16");
    // It stays raised whatever plan comes, and never lowers anything.
    Plan next = plan::uniform_plan(table, "fp8");
    next.set("a", "fp32");
    guard.apply(next);
    EXPECT_EQ(slots_of(next, "a"), "fp32/fp32/fp32");

    NoiseGuard copy(1.6, 0.5);
    copy.load_state(nlohmann::json::parse(guard.state().dump()));
    EXPECT_EQ(copy.state(), guard.state());
}

TEST(NoiseGuard, IsSilentWhenOffWithoutNoiseAndAtTheTop) {
    const PrecisionLadder ladder({"fp4"}, "bf16");
    const Plan plan = plan::uniform_plan(four_layers(), "bf16");
    NoiseGuard off(0, 0.5), on(1.732, 0.5);
    EXPECT_TRUE(off.observe({{"a", 1, 10}}, plan, ladder).empty());
    EXPECT_TRUE(on.observe({{"a", 1, 0}, {"b", 1, 10}}, plan, ladder).empty());
    EXPECT_TRUE(refuses(
        ErrorCode::kUsage, [] { NoiseGuard(-1, 0.5); }, "ratio -1"));
    EXPECT_TRUE(refuses(
        ErrorCode::kUsage, [] { NoiseGuard(1, 1.0); }, "decay 1"));
}

TEST(SpikeDetector, FindsWhatLiesAboveMeanPlusDeviations) {
    // After a constant the deviation counts as a thousandth of the mean: 4 deviations end at 2.008.
    for (const auto& [value, spike] : {std::pair(2.0079, false), std::pair(2.0081, true)}) {
        SpikeDetector detector(4);
        for (int i = 0; i < 30; ++i) EXPECT_FALSE(detector.observe(2.0));
        EXPECT_EQ(detector.observe(value).has_value(), spike) << value;
    }
    // +-0.1 around 1 in turn: the deviation is close to 0.1.
    for (const auto& [value, spike] : {std::pair(1.25, false), std::pair(1.35, true)}) {
        SpikeDetector detector(3);
        for (int i = 0; i < 200; ++i) EXPECT_FALSE(detector.observe(i % 2 == 0 ? 0.9 : 1.1)) << i;
        EXPECT_EQ(detector.observe(value).has_value(), spike) << value;
    }
    // Learning comes first; falls and values that are not finite are no spikes.
    SpikeDetector detector(3);
    for (int i = 0; i < SpikeDetector::kLearning; ++i) {
        EXPECT_FALSE(detector.observe(i == 10 ? 100.0 : 1.0));
    }
    SpikeDetector calm(3);
    for (int i = 0; i < 40; ++i) EXPECT_FALSE(calm.observe(1.0));
    EXPECT_FALSE(calm.observe(0.01));
    EXPECT_FALSE(calm.observe(std::numeric_limits<double>::quiet_NaN()));
    // A lasting change of level is accepted after a while.
    SpikeDetector step(3);
    for (int i = 0; i < 40; ++i) step.observe(1.0);
    int spikes = 0;
    for (int i = 0; i < 400; ++i) spikes += step.observe(2.0) ? 1 : 0;
    EXPECT_GT(spikes, 1);
    EXPECT_LT(spikes, 400);
    EXPECT_FALSE(step.observe(2.0));
}

// Feeds calm steps, then one spike of the loss at `step`.
std::vector<ControlEvent> spike_at(SpikeGuard& guard, std::int64_t step, const Plan& plan,
                                   const LayerTable& table, const std::vector<double>& damage) {
    for (std::int64_t s = step - 40; s < step; ++s) {
        EXPECT_TRUE(guard.end_step(s, 1.0, 1.0, plan, table, damage).empty()) << s;
    }
    return guard.end_step(step, 5.0, 1.0, plan, table, damage);
}

TEST(SpikeGuard, PromotesTheMostDamagingLayersForAWhile) {
    const LayerTable table = four_layers();
    Plan plan = plan::uniform_plan(table, "fp4");
    plan.set("b", "fp8");
    plan.set("d", "bf16");  // has nothing to promote
    const PrecisionLadder ladder({"fp8", "fp4"}, "bf16");
    SpikeGuard guard({.sigma = 4, .hold = 10, .share = 0.6});
    // Quantised: a, b, c. 60 % of them are two: those with the largest damage.
    const auto events = spike_at(guard, 100, plan, table, {1.0, 3.0, 2.0, 9.0});
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].action, "promote");
    EXPECT_EQ(events[0].slots, (std::vector<std::string>{"b", "c"}));
    EXPECT_NE(events[0].reason.find("loss 5 is"), std::string::npos) << events[0].reason;
    EXPECT_NE(events[0].reason.find("until step 110"), std::string::npos) << events[0].reason;
    EXPECT_FALSE(guard.wants_roll_back());
    Plan up = plan;
    guard.apply(100, ladder, up);
    EXPECT_EQ(slots_of(up, "a"), "fp4/fp4/fp4");
    EXPECT_EQ(slots_of(up, "b"), "bf16/bf16/bf16");
    EXPECT_EQ(slots_of(up, "c"), "fp8/fp8/fp8");
    EXPECT_EQ(slots_of(up, "d"), "bf16/bf16/bf16");
    SpikeGuard copy({.sigma = 4, .hold = 10, .share = 0.6});
    copy.load_state(nlohmann::json::parse(guard.state().dump()));
    EXPECT_EQ(copy.state(), guard.state());
    // A second spike, of the norm, starts the time anew with the same layers.
    const auto second = guard.end_step(105, 1.0, 50.0, up, table, {});
    ASSERT_EQ(second.size(), 1u);
    EXPECT_NE(second[0].reason.find("gradient norm 50 is"), std::string::npos) << second[0].reason;
    EXPECT_EQ(second[0].slots, events[0].slots);
    for (std::int64_t s = 106; s < 115; ++s) {
        EXPECT_TRUE(guard.end_step(s, 1.0, 1.0, up, table, {}).empty()) << s;
        Plan now = plan;
        guard.apply(s, ladder, now);
        EXPECT_EQ(now, up) << s;
    }
    const auto release = guard.end_step(115, 1.0, 1.0, up, table, {});
    ASSERT_EQ(release.size(), 1u);
    EXPECT_EQ(release[0].action, "release");
    Plan now = plan;
    guard.apply(115, ladder, now);
    EXPECT_EQ(now, plan);
}

TEST(SpikeGuard, AsksForOneRollBackPerSpike) {
    const LayerTable table = four_layers();
    const Plan plan = plan::uniform_plan(table, "fp4");
    const PrecisionLadder ladder({"fp8", "fp4"}, "bf16");
    SpikeGuard guard({.sigma = 4, .hold = 10, .roll_back = true});
    const nlohmann::json before = guard.state();
    ASSERT_EQ(spike_at(guard, 100, plan, table, {}).at(0).slots.size(), 4u);
    EXPECT_TRUE(guard.wants_roll_back());
    const SpikeGuard spiked = guard;
    guard.load_state(before);
    guard.roll_back(spiked);
    EXPECT_FALSE(guard.wants_roll_back());
    Plan up = plan;
    guard.apply(60, ladder, up);
    EXPECT_EQ(slots_of(up, "a"), "fp8/fp8/fp8");  // from the step gone back to
    // The same spike again: more time, no second return.
    EXPECT_EQ(spike_at(guard, 100, plan, table, {}).at(0).action, "promote");
    EXPECT_FALSE(guard.wants_roll_back());
    // A later one asks again.
    EXPECT_EQ(spike_at(guard, 111 + 40, plan, table, {}).size(), 1u);
    EXPECT_TRUE(guard.wants_roll_back());
    guard.decline();
    EXPECT_FALSE(guard.wants_roll_back());
}

TEST(SpikeGuard, SaysWhenThereIsNothingToPromoteAndRefusesBadOptions) {
    const LayerTable table = four_layers();
    const Plan plan = plan::uniform_plan(table, "bf16");
    SpikeGuard guard({.sigma = 4, .hold = 10, .roll_back = true});
    const auto events = spike_at(guard, 100, plan, table, {});
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].action, "none");
    EXPECT_FALSE(guard.wants_roll_back());
    const std::pair<SpikeOptions, const char*> bad[] = {{{.sigma = -1}, "sigma -1"},
                                                        {{.hold = 0}, "hold 0"},
                                                        {{.share = 0}, "share 0"},
                                                        {{.share = 1.5}, "share 1.5"}};
    expect_refused<SpikeGuard>(bad);
}

TEST(LossAdjuster, MovesTheTargetByTheProgressOfTheLoss) {
    LossAdjuster adjuster({.step = 0.1, .window = 2, .progress = 0.01, .range = 0.2});
    const auto window = [&](double mean) {
        EXPECT_TRUE(adjuster.end_step(mean - 0.5).empty());
        return adjuster.end_step(mean + 0.5);
    };
    EXPECT_TRUE(window(4.0).empty());  // nothing to compare with
    auto events = window(3.99);        // 0.25 %: too little
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].action, "raise");
    EXPECT_NE(events[0].reason.find("loss 3.9900 after 4.0000"), std::string::npos);
    EXPECT_NEAR(adjuster.offset(), -0.1, 1e-15);
    EXPECT_NEAR(adjuster.adjusted(0.5, 0.8), 0.4, 1e-15);
    EXPECT_NEAR(adjuster.adjusted(0.05, 0.8), 0.0, 1e-15);
    EXPECT_EQ(window(4.5).size(), 1u);  // rises
    EXPECT_NEAR(adjuster.offset(), -0.2, 1e-15);
    EXPECT_TRUE(window(4.5).empty());  // the range ends here
    for (const double offset : {-0.1, 0.0, 0.1, 0.2}) {
        events = window(4.0 - 4 * offset);  // falls by 10 %
        ASSERT_EQ(events.size(), 1u);
        EXPECT_EQ(events[0].action, "lower");
        EXPECT_NEAR(adjuster.offset(), offset, 1e-15);
    }
    EXPECT_NEAR(adjuster.adjusted(0.5, 0.6), 0.6, 1e-15);
    adjuster.end_step(3.0);
    EXPECT_TRUE(adjuster.end_step(std::numeric_limits<double>::infinity()).empty());
    LossAdjuster copy({.step = 0.1, .window = 2, .progress = 0.01, .range = 0.2});
    copy.load_state(nlohmann::json::parse(adjuster.state().dump()));
    EXPECT_EQ(copy.state(), adjuster.state());

    LossAdjuster off({});
    for (int i = 0; i < 300; ++i) EXPECT_TRUE(off.end_step(1.0).empty());
    EXPECT_EQ(off.adjusted(0.5, 0.3), 0.5);
    const std::pair<LossAdjustOptions, const char*> bad[] = {{{.step = 2}, "step 2"},
                                                             {{.window = 0}, "window 0"},
                                                             {{.progress = 1}, "progress 1"},
                                                             {{.range = -1}, "range -1"}};
    expect_refused<LossAdjuster>(bad);
}

TEST(PrecisionRamp, LetsTheLayersFollowThePlanOneByOne) {
    const LayerTable table = four_layers();
    const Plan plan = plan::uniform_plan(table, "fp4");
    const PrecisionRamp ramp{.start = 100, .steps = 50, .high = "bf16"};
    const std::vector<double> damage{4, 1, 3, 2};  // b, d, c, a by damage
    // Part p begins at step 100 + 5 (p - 1) and allows p / 10 of the work; each layer has 1/4.
    const std::pair<std::int64_t, std::string> expected[] = {
        {100, "b"},   {104, "b"},   {119, "b"},    {120, "bd"},   {134, "bd"},
        {135, "bcd"}, {144, "bcd"}, {145, "abcd"}, {150, "abcd"}, {1000, "abcd"}};
    for (const auto& [step, names] : expected) {
        Plan now = plan;
        EXPECT_EQ(ramp.apply(step, table, damage, now), static_cast<int>(names.size())) << step;
        std::string low;
        for (const auto& layer : table) {
            if (slots_of(now, layer.name) == "fp4/fp4/fp4") {
                low += layer.name;
            } else {
                EXPECT_EQ(slots_of(now, layer.name), "bf16/bf16/bf16");
            }
        }
        EXPECT_EQ(low, names) << step;
    }
    EXPECT_EQ(ramp.phase(144), 9);
    EXPECT_EQ(ramp.phase(145), 10);
    Plan now = plan;
    EXPECT_EQ(PrecisionRamp{}.apply(0, table, damage, now), 4);
    EXPECT_EQ(now, plan);
}

TEST(ForwardTail, RaisesFpropAloneAndNeverLowers) {
    const LayerTable table = four_layers();
    Plan plan = plan::uniform_plan(table, "fp4");
    plan.set("d", "bf16");
    const ForwardTail tail{.start = 90, .recipe = "fp8"};
    Plan now = plan;
    tail.apply(89, table, now);
    EXPECT_EQ(now, plan);
    tail.apply(90, table, now);
    EXPECT_EQ(slots_of(now, "a"), "fp8/fp4/fp4");
    EXPECT_EQ(slots_of(now, "d"), "bf16/bf16/bf16");
    now = plan;
    ForwardTail{}.apply(1000000, table, now);
    EXPECT_EQ(now, plan);
}

TEST(Control, TellsWhenRampAndTailChangeAndSavesWhatItTold) {
    const LayerTable table = four_layers();
    const Plan plan = plan::uniform_plan(table, "fp4");
    ControlOptions options;
    options.ramp_steps = 20;
    options.tail_steps = 10;
    const auto make = [&] { return Control(options, {"fp8", "fp4"}, "bf16", 10, 100); };
    Control control = make();
    EXPECT_TRUE(control.active());
    EXPECT_FALSE(Control({}, {"fp8", "fp4"}, "bf16", 10, 100).active());
    std::vector<ControlEvent> events;
    for (std::int64_t step = 0; step < 100; ++step) {
        const Plan now = control.in_force(step, step + 3, table, plan, {}, events);
        if (step == 20) {  // a resume tells nothing twice
            Control resumed = make();
            resumed.load_state(nlohmann::json::parse(control.state().dump()));
            std::vector<ControlEvent> none;
            EXPECT_EQ(resumed.in_force(step, step + 3, table, plan, {}, none), now);
            EXPECT_TRUE(none.empty());
        }
    }
    ASSERT_EQ(events.size(), 11u);
    for (std::int64_t part = 0; part < 10; ++part) {
        const ControlEvent& event = events[static_cast<std::size_t>(part)];
        EXPECT_EQ(event.control, "ramp");
        EXPECT_EQ(event.step, 13 + 2 * part);
        EXPECT_EQ(event.action, part == 9 ? "end" : "lower");
    }
    EXPECT_EQ(events[10].control, "tail");
    EXPECT_EQ(events[10].step, 93);
    options.tail_steps = 101;
    EXPECT_TRUE(refuses(ErrorCode::kUsage, make, "tail_steps 101 of 100"));
    options.tail_steps = 0;
    options.ramp_steps = -1;
    EXPECT_TRUE(refuses(ErrorCode::kUsage, make, "ramp_steps -1"));
}

}  // namespace
}  // namespace subbyte::snip
