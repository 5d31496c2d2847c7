// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory plan that `subbyte train` prints before the first step, against what the process took.
#include <tuple>

#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

class Memory : public Program {
protected:
    // Trains a preset, llama-9m for three steps unless the settings say otherwise; gives the last
    // record of the run.
    nlohmann::json train(const std::string& name, const std::string& settings,
                         const std::string& preset = "llama-9m") {
        std::string text;
        for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
        write("text.txt", text);
        write(name + ".toml",
              "[model]\npreset = \"" + preset +
                  "\"\nvocab_size = 8192\n[data]\npath = \"text.txt\"\n"
                  "tokenizer = \"bytes\"\n[train]\nsteps = 3\nbatch_size = 8\nseq_len = 256\n"
                  "eval_every = 0\n[checkpoint]\nevery = 0\n[run]\ndir = \"" +
                  name + "\"\n");
        const Call call = run("train " + name + ".toml " + settings);
        EXPECT_EQ(call.exit_code, 0) << call.err;
        EXPECT_NE(call.out.find("peak about"), std::string::npos) << call.out;
        return nlohmann::json::parse(read_file(path(name + "/summary.json")));
    }
};

TEST_F(Memory, PlannedPeakIsWithinTenPercentOfTheMeasuredOne) {
    const std::pair<const char*, const char*> runs[] = {
        {"fp4", "--set precision.recipe=fp4"},
        {"bf16", "--set precision.recipe=bf16"},
        {"fp32", "--set precision.recipe=fp32 --set precision.head=fp32"},
        {"int8", "--set precision.recipe=fp4 --set train.activations=int8"},
        {"recomputed", "--set precision.recipe=fp8 --set train.recompute=true"},
    };
    for (const auto& [name, settings] : runs) {
        const nlohmann::json end = train(name, settings);
        const double planned = end["planned_peak_bytes"], measured = end["peak_memory_bytes"];
        EXPECT_NEAR(planned / measured, 1.0, 0.1)
            << name << ": planned " << planned / 1e6 << " MB, measured " << measured / 1e6;
    }
}

TEST_F(Memory, RecomputingTakesLessAndGivesTheSameLoss) {
    const nlohmann::json kept = train("kept", "--set precision.recipe=fp8");
    const nlohmann::json again =
        train("again", "--set precision.recipe=fp8 --set train.recompute=true");
    EXPECT_EQ(kept["loss"], again["loss"]);
    EXPECT_LT(again["peak_memory_bytes"], kept["peak_memory_bytes"]);
}

TEST_F(Memory, ActivationsInInt8TakeLessAndHardlyChangeTheLoss) {
    const nlohmann::json plain = train("plain", "--set precision.recipe=fp8");
    const nlohmann::json int8 =
        train("int8", "--set precision.recipe=fp8 --set train.activations=int8");
    EXPECT_LT(int8["peak_memory_bytes"], plain["peak_memory_bytes"]);
    EXPECT_NE(int8["loss"], plain["loss"]);  // it does round
    EXPECT_NEAR(int8["loss"].get<double>(), plain["loss"].get<double>(), 0.01);
}

// Measured again and again under plans that change; llama-60m with fewer tokens, which makes the
// passes of the measurement larger beside the step.
const std::string kMeasuring =
    " --set precision.recipe=snip --set train.steps=7 --set precision.snip.update_interval=2"
    " --set precision.snip.swap_delay=1 --set precision.snip.warmup_steps=1"
    " --set precision.snip.hysteresis=0 --set precision.snip.freeze_fraction=0";
const std::string kFewer = " --set train.batch_size=4 --set train.seq_len=128";

TEST_F(Memory, MeasuringIsInThePlan) {
    const std::tuple<const char*, const char*, std::string> runs[] = {
        {"snip", "llama-9m", kMeasuring},
        {"block", "llama-9m", kMeasuring + kFewer + " --set precision.snip.probes=block"},
        {"taylor", "llama-9m",
         kMeasuring + " --set precision.snip.estimator=taylor --set precision.snip.labels=sampled"},
        {"larger", "llama-60m", kMeasuring + kFewer},
    };
    for (const auto& [name, preset, settings] : runs) {
        const nlohmann::json end = train(name, settings, preset);
        const double planned = end["planned_peak_bytes"], measured = end["peak_memory_bytes"];
        EXPECT_NEAR(planned / measured, 1.0, 0.1)
            << name << ": planned " << planned / 1e6 << " MB, measured " << measured / 1e6;
    }
}

// With blocks that are computed again the step itself is small.
TEST_F(Memory, MeasuringTakesAtMostATenthMoreThanAStep) {
    for (const std::string preset : {"llama-9m", "llama-60m"}) {
        const std::string settings = preset == "llama-60m" ? kFewer : "";
        const std::string again = settings + " --set train.recompute=true";
        const nlohmann::json plain = train(
            preset + "-bf16", again + " --set precision.recipe=bf16 --set train.steps=7", preset);
        const nlohmann::json measured = train(preset + "-snip", again + kMeasuring, preset);
        const double step = plain["peak_memory_bytes"], snip = measured["peak_memory_bytes"];
        EXPECT_LT(snip, 1.1 * step) << preset << ": " << snip / 1e6 << " MB, a step " << step / 1e6;
        const double planned = measured["planned_peak_bytes"];
        EXPECT_NEAR(planned / snip, 1.0, 0.1)
            << preset << ": planned " << planned / 1e6 << " MB, measured " << snip / 1e6;
    }
}

}  // namespace
}  // namespace subbyte::testing
