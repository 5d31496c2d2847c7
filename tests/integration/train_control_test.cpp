// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Every control of the precision in a real run: it does what it says, tells it, and a run that is
// stopped with a re-planning in flight goes on with the bits of one that never stopped.
#include <nlohmann/json.hpp>

#include "subbyte/io/jsonl.h"
#include "subbyte/train/inspect_run.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

struct Control {
    std::string name;
    std::function<void(Config&)> set;
    std::string expected;  // control and action that must be told; empty: none
};

std::vector<std::string> told(const std::vector<ControlEvent>& events) {
    std::vector<std::string> lines;
    for (const ControlEvent& e : events)
        lines.push_back(std::to_string(e.step) + " " + e.control + " " + e.action + " " + e.reason);
    return lines;
}

class TrainControl : public ::testing::TestWithParam<Control> {};

TEST_P(TrainControl, ResumesWithTheBitsOfTheStraightRun) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.train.steps = 32;
    config.precision.snip.freeze_fraction = 0;
    config.train.eval_every = 0;
    config.model.layers = 1;
    GetParam().set(config);

    Config straight = config;
    straight.run.dir = folder / "straight";
    Recorder whole;
    run(straight, whole);

    // In flight at 25: measured in iteration 24, in force from 26.
    Recorder first, second;
    ASSERT_TRUE(run(config, first, 25).interrupted);
    const auto saved =
        nlohmann::json::parse(read_file(checkpoint_of(config, 25) + "/precision.json"));
    EXPECT_TRUE(saved.contains("in_flight"));
    run(config, second);
    expect_same_checkpoint(checkpoint_of(config, 32), checkpoint_of(straight, 32));
    std::vector<double> losses = first.losses();
    for (const double loss : second.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.losses());
    std::vector<std::string> events = told(first.controls);
    for (const std::string& line : told(second.controls)) events.push_back(line);
    EXPECT_EQ(events, told(whole.controls));
    const bool found = std::any_of(events.begin(), events.end(), [](const std::string& line) {
        return line.find(GetParam().expected) != std::string::npos;
    });
    EXPECT_EQ(found, !GetParam().expected.empty());

    // The report of the run knows them all, but for those that a roll-back took back.
    const RunView view = read_run(straight.run.dir);
    EXPECT_LE(view.decisions.size(), whole.controls.size());
    EXPECT_EQ(view.decisions.empty(), whole.controls.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Controls, TrainControl,
    ::testing::Values(
        Control{"nothing", [](Config&) {}, ""},
        Control{"hysteresis", [](Config& c) { c.precision.snip.hysteresis = 0.9; }, ""},
        Control{"article",
                [](Config& c) {
                    c.precision.snip.schedule = "article";
                    c.precision.snip.target_increment = 0.1;
                    c.precision.snip.increment_every = 8;
                },
                ""},
        Control{"quality_held",
                [](Config& c) {
                    c.precision.snip.schedule = "quality-held";
                    c.precision.snip.damage_bound = 1e-3;
                },
                ""},
        Control{"slot_rule",
                [](Config& c) {
                    c.precision.snip.hysteresis = 0.05;
                    c.precision.control.spike_sigma = 0.01;
                    c.precision.control.spike_hold = 3;
                    c.precision.control.noise_ratio = 5;
                    c.precision.rules = {{"*.down_proj", "int8", "dgrad"},
                                         {"*.up_proj", "bf16", "wgrad"}};
                },
                "spike-guard promote"},
        Control{"gemm_stages_head",
                [](Config& c) {
                    c.precision.snip.granularity = "gemm";
                    c.precision.snip.hysteresis = 0.05;
                    c.precision.snip.stages = {0, 1};
                    c.precision.head = "snip";
                    c.model.layers = 2;
                },
                ""},
        Control{"sampled_labels",
                [](Config& c) {
                    c.precision.snip.estimator = "fisher";
                    c.precision.snip.labels = "sampled";
                },
                ""},
        // Any noise is too much: every measured layer goes up, fp4 -> fp8 -> bf16.
        Control{"noise_guard", [](Config& c) { c.precision.control.noise_ratio = 1e5; },
                "noise-guard raise"},
        // Nearly everything above the mean is a spike.
        Control{"spike_guard",
                [](Config& c) {
                    c.precision.control.spike_sigma = 0.01;
                    c.precision.control.spike_hold = 3;
                    c.precision.control.spike_share = 0.5;
                },
                "spike-guard promote"},
        Control{"roll_back",
                [](Config& c) {
                    c.precision.control.spike_sigma = 0.01;
                    c.precision.control.spike_hold = 4;
                    c.precision.control.spike_roll_back = true;
                    c.checkpoint.every = 6;
                },
                "spike-guard roll-back"},
        Control{"loss_adjust",
                [](Config& c) {
                    c.precision.control.adjust_step = 0.1;
                    c.precision.control.adjust_window = 3;
                    c.precision.control.adjust_progress = 0.02;
                },
                "loss-adjust"},
        Control{"ramp",
                [](Config& c) {
                    c.precision.control.ramp_steps = {28, -1};
                },
                "ramp end"},
        Control{"tail",
                [](Config& c) {
                    c.precision.control.tail_steps = {5, -1};
                },
                "tail raise"},
        Control{"everything",
                [](Config& c) {
                    c.precision.snip.hysteresis = 0.05;
                    c.precision.control.noise_ratio = 5;
                    c.precision.control.spike_sigma = 0.5;
                    c.precision.control.spike_hold = 4;
                    c.precision.control.spike_roll_back = true;
                    c.checkpoint.every = 6;
                    c.precision.control.adjust_step = 0.1;
                    c.precision.control.adjust_window = 3;
                    c.precision.control.ramp_steps = {10, -1};
                    c.precision.control.tail_steps = {5, -1};
                    c.train.grad_accum = 2;
                },
                "tail raise"}),
    [](const auto& test) { return test.param.name; });

// The plan in force at the end, as the folder tells it.
plan::Plan last_plan(const Config& config) { return read_run(config.run.dir).plan; }

TEST(Tail, EndsWithFpropInHighPrecisionAndTheRestAsPlanned) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.precision.snip.target = 1.0;
    config.precision.snip.max_target = 1.0;
    config.precision.control.tail_steps = {3, -1};
    config.precision.control.tail_recipe = "fp8";
    Recorder recorder;
    run(config, recorder);
    const plan::Plan plan = last_plan(config);
    ASSERT_EQ(plan.layers.size(), 14u);
    for (const auto& [layer, slots] : plan.layers) {
        EXPECT_EQ(slots, (std::array<std::string, 3>{"fp8", "fp4", "fp4"})) << layer;
    }
    // A record tells the share after its step: step 10 is the first of three.
    EXPECT_NEAR(recorder.steps[7].fp4_share, 1.0, 1e-12);
    EXPECT_NEAR(recorder.steps[8].fp4_share, 2.0 / 3, 1e-12);
}

TEST(Hysteresis, KeepsThePlanAndSaysWhy) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.precision.snip.hysteresis = 0.9;
    Recorder recorder;
    run(config, recorder);
    ASSERT_EQ(recorder.plans.size(), 3u);
    EXPECT_TRUE(recorder.plans[0].applied);  // BF16 before it is no option
    int kept = 0;
    for (const SnipEvent& event : recorder.plans) {
        EXPECT_NE(event.applied, event.kept);
        if (!event.kept) continue;
        ++kept;
        EXPECT_GE(event.cost, 0.1 * event.cost_in_force);
        EXPECT_NE(event.result.notes.back().find("the plan in force stays"), std::string::npos);
    }
    const RunView view = read_run(config.run.dir);
    EXPECT_EQ(view.plans.size(), 3u);
    int noted = 0;
    for (const RunView::PlanChange& change : view.plans) noted += change.notes.empty() ? 0 : 1;
    EXPECT_GE(noted, kept);
}

TEST(RollBack, GoesToTheLastRegularCheckpointAndTrainsThatStretchAgain) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.train.steps = 32;
    config.checkpoint.every = 6;
    config.precision.control.spike_sigma = 0.01;
    config.precision.control.spike_hold = 100;
    config.precision.control.spike_roll_back = true;
    Recorder recorder;
    run(config, recorder);
    std::vector<ControlEvent> returns;
    for (const ControlEvent& e : recorder.controls) {
        if (e.action == "roll-back") returns.push_back(e);
    }
    ASSERT_EQ(returns.size(), 1u);  // the hold lasts to the end
    const std::int64_t to = returns[0].step;
    EXPECT_EQ(to % 6, 0);
    EXPECT_GE(to, 18);
    std::size_t spike = 0;  // the step after which the numbers go back
    while (recorder.steps[spike + 1].step == recorder.steps[spike].step + 1) ++spike;
    EXPECT_EQ(recorder.steps[spike + 1].step, to + 1);
    EXPECT_GT(recorder.steps[spike].step, to);
    EXPECT_LE(recorder.steps[spike].step, to + 6);
    EXPECT_EQ(recorder.steps.back().step, 32);
    EXPECT_GT(recorder.steps[spike - 1].fp4_share, 0.4);
    EXPECT_EQ(recorder.steps[spike + 1].fp4_share, 0.0);  // promoted
    // The same data again: the first loss differs by precision alone.
    const double again = recorder.steps[spike + 1].loss;
    for (const StepRecord& step : recorder.steps) {
        if (step.step != to + 1) continue;
        EXPECT_NEAR(step.loss, again, 0.05 * again);
    }
    // The log counts every step once.
    std::vector<std::int64_t> steps;
    for (const auto& record : io::read_jsonl(config.run.dir + "/log.jsonl").records) {
        if (!record.superseded && record.value.at("type") == "step")
            steps.push_back(record.value.at("step").get<std::int64_t>());
    }
    ASSERT_EQ(steps.size(), 32u);
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(steps[i], static_cast<std::int64_t>(i) + 1);
}

TEST(RollBack, WithoutACheckpointItSaysSoAndPromotes) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.train.steps = 28;
    config.checkpoint.every = 100;
    config.precision.control.spike_sigma = 0.01;
    config.precision.control.spike_roll_back = true;
    Recorder recorder;
    run(config, recorder);
    const std::string events = nlohmann::json(told(recorder.controls)).dump();
    EXPECT_NE(events.find("no-roll-back there is no checkpoint of a regular step"),
              std::string::npos)
        << events;
    EXPECT_NE(events.find("promote"), std::string::npos);
}

TEST(GivenPlan, OfAnotherRunStaysWhenFrozenAndIsTheStartWhenNot) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    Recorder first;
    run(config, first);
    const plan::Plan made = last_plan(config);
    EXPECT_NE(made.layers.begin()->second[0], "bf16");

    Config frozen = config;
    frozen.run.dir = folder / "frozen";
    frozen.precision.plan = config.run.dir;
    frozen.precision.freeze_plan = true;
    Recorder still;
    run(frozen, still);
    EXPECT_TRUE(still.plans.empty());
    EXPECT_EQ(last_plan(frozen).layers, made.layers);
    for (const StepRecord& step : still.steps)
        EXPECT_EQ(step.fp4_share, first.steps.back().fp4_share);

    // Files of that run, and a checkpoint, say the same.
    for (const std::string& path : {config.run.dir + "/summary.json", checkpoint_of(config, 12),
                                    checkpoint_of(config, 12) + "/precision.json",
                                    config.run.dir + "/plans/step_00000010.json"}) {
        Config again = frozen;
        again.run.dir = folder / "again";
        again.precision.plan = path;
        again.train.steps = 1;
        again.optim.warmup_steps = {0, -1};
        std::filesystem::remove_all(again.run.dir);
        Recorder recorder;
        run(again, recorder);
        EXPECT_EQ(recorder.losses().front(), still.losses().front()) << path;
    }

    Config start = frozen;
    start.run.dir = folder / "start";
    start.precision.freeze_plan = false;
    Recorder going;
    run(start, going);
    EXPECT_EQ(going.plans.size(), 3u);
    EXPECT_EQ(going.losses().front(), still.losses().front());
}

TEST(GivenPlan, MistakesAreNamed) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    Recorder recorder;
    const auto message = [&](const std::string& path, const std::string& text) {
        if (!text.empty()) write_file(path, text);
        config.precision.plan = path;
        return error_of(ErrorCode::kData, [&] { Trainer(config, recorder); });
    };
    const std::string file = folder / "plan.json";
    const std::string head = R"({"version": 1, "method": "given", "fallback": "bf16", "layers": )";
    std::string said = message(file, head + R"({"model.layers.0.mlp.up_prj": "fp4"}})");
    EXPECT_NE(said.find("plan.json"), std::string::npos) << said;
    EXPECT_NE(said.find("model.layers.0.mlp.up_proj"), std::string::npos) << said;
    said = message(file, head + R"({"model.layers.0.mlp.up_proj": "fp5"}})");
    EXPECT_NE(said.find("unknown recipe 'fp5'"), std::string::npos) << said;
    said = message(folder.path().string(), "");
    EXPECT_NE(said.find("no plan in this folder"), std::string::npos) << said;
    message(folder / "absent.json", "");
}

TEST(Frozen, TheCheckpointsPlanStaysWithoutOneOfItsOwn) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    Recorder first, second;
    run(config, first, 7);  // plan in force since 6
    config.precision.freeze_plan = true;
    run(config, second);
    EXPECT_TRUE(second.plans.empty());
    for (const StepRecord& step : second.steps)
        EXPECT_EQ(step.fp4_share, first.steps.back().fp4_share);
}

}  // namespace
}  // namespace subbyte::train
