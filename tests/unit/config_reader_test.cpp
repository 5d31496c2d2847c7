// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "subbyte/core/error.h"
#include "subbyte/train/config_presets.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

namespace subbyte::train {
namespace {

using Sets = std::vector<std::string>;

const std::string kModel = "[model]\npreset = \"llama-9m\"\n";  // two lines

Config read(const std::string& text, const Sets& sets = {}) {
    return parse_config(text, "run.toml", sets).config;
}

// The whole error text; fails the test when there is no error of kind kUsage.
std::string mistakes(const std::string& text, const Sets& sets = {}) {
    return error_of(ErrorCode::kUsage, [&] { parse_config(text, "run.toml", sets); });
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "in: " << (text)

TEST(ConfigReader, KeyInAnotherSectionIsNamedWithItsPath) {
    const std::string text = mistakes(kModel + "[train]\nlr = 5e-5\n");
    EXPECT_SAYS(text, "run.toml:4:1: unknown key lr in [train]");
    EXPECT_SAYS(text, "did you mean optim.lr?");
}

TEST(ConfigReader, KeyAtTopLevelIsNamedWithItsPath) {
    const std::string text = mistakes("lr = 5e-5\n" + kModel);
    EXPECT_SAYS(text, "run.toml:1:1: unknown key lr outside of any section");
    EXPECT_SAYS(text, "optim.lr");
}

TEST(ConfigReader, UnknownSectionIsNamedAndItsKeysAreStillChecked) {
    const std::string text = mistakes(kModel + "[optimizer]\nlr = 1e-3\nnonsense_key = 1\n");
    EXPECT_SAYS(text, "run.toml:3:2: unknown section [optimizer]; did you mean [optim]?");
    EXPECT_SAYS(text, "run.toml:5:1: unknown key nonsense_key in [optim]");
}

TEST(ConfigReader, NamesOfOtherProgramsAreTranslated) {
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlearning_rate = 1e-3\n"), "optim.lr");
    EXPECT_SAYS(mistakes(kModel + "[train]\ngradient_accumulation_steps = 2\n"),
                "train.grad_accum");
    EXPECT_SAYS(mistakes(kModel + "[train]\nmax_steps = 2\n"), "train.steps");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nmax_grad_norm = 1.0\n"), "optim.grad_clip");
    EXPECT_SAYS(mistakes(kModel + "[model2]\nx = 1\n"), "[model]");
}

TEST(ConfigReader, MisspelledKeyIsCorrected) {
    EXPECT_SAYS(mistakes(kModel + "[train]\nstesp = 2\n"), "did you mean train.steps?");
    EXPECT_SAYS(mistakes(kModel + "[optim.stable_spam]\ngama1 = 0.7\n"),
                "did you mean optim.stable_spam.gamma1?");
}

TEST(ConfigReader, WrongTypesAreRefused) {
    std::string text = mistakes(kModel + "[optim]\nlr = \"1e-3\"\n");
    EXPECT_SAYS(text, "run.toml:4:6: optim.lr must be a number, found \"1e-3\" (text)");
    EXPECT_SAYS(text, "without quotes");

    text = mistakes(kModel + "[train]\nsteps = 1e3\n");
    EXPECT_SAYS(text, "run.toml:4:9: train.steps must be an integer, found 1e3 (float)");
    EXPECT_SAYS(text, "write 1000");

    EXPECT_SAYS(mistakes(kModel + "[log]\nstats = 1\n"),
                "log.stats must be true or false, found 1");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nname = 3\n"), "optim.name must be text, found 3");
    EXPECT_SAYS(mistakes(kModel + "[data]\npath = [1]\n"),
                "data.path must be text or list of texts");
    EXPECT_SAYS(mistakes("model = 3\n"), "model is a section, found 3 (integer)");
    EXPECT_SAYS(mistakes(kModel + "[optim.lr]\nx = 1\n"), "optim.lr is a value, not a section");
    EXPECT_SAYS(mistakes(kModel + "[train]\nsteps = 2024-01-01\n"), "date or time");
}

TEST(ConfigReader, IntegerIsAcceptedForNumber) {
    EXPECT_EQ(read(kModel + "[optim]\nlr = 1\n").optim.lr, 1.0);
}

TEST(ConfigReader, ValuesOutOfRangeAreRefused) {
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = -1e-3\n"),
                "run.toml:4:6: optim.lr must be > 0, found -1e-3");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = 0\n"), "optim.lr must be > 0, found 0");
    EXPECT_EQ(read(kModel + "[precision]\nrecipe = \"fp4.w=1x16\"\n").precision.recipe,
              "fp4.w=1x16");
    EXPECT_SAYS(mistakes(kModel + "[precision]\nrecipe = \"fp4.w=1y16\"\n"), "'fp4.w=1y16'");
    EXPECT_SAYS(mistakes(kModel + "[precision.snip]\noptions = [\"fp8\", \"fp44\"]\n"),
                "a variant like fp4.w=1x16, found \"fp44\"");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = nan\n"), "optim.lr must be finite, found nan");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = inf\n"), "optim.lr must be finite, found inf");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nbetas = [0.9]\n"),
                "must be a list of 2 numbers, found 1");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nbetas = [0.9, 1.0]\n"), "optim.betas must be 0 .. 1");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nbetas = [0.9, nan]\n"), "must be finite");
    EXPECT_SAYS(mistakes(kModel + "[train]\ngrad_accum = 0\n"), "train.grad_accum must be 1 ..");
    EXPECT_SAYS(mistakes(kModel + "[train]\nseq_len = 0\n"), "train.seq_len must be 1 ..");
    EXPECT_SAYS(mistakes(kModel + "[data]\nval_fraction = 0.6\n"), "must be 0 .. 0.5, found 0.6");
    EXPECT_SAYS(mistakes(kModel + "[precision.snip]\ntarget = 1.01\n"), "must be 0 .. 1");
    EXPECT_SAYS(mistakes(kModel + "[precision.snip]\nupdate_interval = 0\n"), "must be >= 1");
    EXPECT_SAYS(mistakes(kModel + "[precision]\nrecipe = \"fp9\"\n"), "did you mean \"fp");
    EXPECT_SAYS(mistakes(kModel + "[precision.snip]\noptions = [\"fp4\", \"no\"]\n"),
                "found \"no\"");
}

TEST(ConfigReader, StepCountsMayBeShares) {
    const Config config = read(kModel +
                               "[train]\nsteps = 250\n[optim]\nwarmup_steps = \"5%\"\n"
                               "[precision.snip]\nwarmup_steps = 7\n");
    EXPECT_EQ(config.optim.warmup_steps.of(250), 12);
    EXPECT_EQ(config.precision.snip.warmup_steps.of(250), 7);
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = \"101%\"\n"), "must be 0% .. 100%");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = \"5\"\n"), "integer or \"N%\"");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = -1\n"), "must be >= 0");
}

TEST(ConfigReader, ContradictionsBetweenKeysAreRefused) {
    EXPECT_SAYS(mistakes(kModel + "[train]\nbatch_size = 10\ngrad_accum = 3\n"),
                "run.toml:5:1: train.batch_size 10 is no multiple of train.grad_accum 3");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = 1001\n"),
                "optim.warmup_steps 1001 is more than train.steps 1000");
    EXPECT_EQ(read(kModel + "[optim]\nwarmup_steps = 1000\n").optim.warmup_steps.steps, 1000);
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = 60\nschedule_steps = 50\n"),
                "is more than optim.schedule_steps 50");
    // A run that is to end earlier than planned keeps its curve.
    EXPECT_SAYS(mistakes(kModel + "[optim]\nwarmup_steps = 60\n", {"train.steps=50"}),
                "optim.schedule_steps = (the old train.steps)");
    EXPECT_EQ(
        read(kModel + "[optim]\nwarmup_steps = 60\nschedule_steps = 1000\n", {"train.steps=50"})
            .train.steps,
        50);
    EXPECT_SAYS(mistakes(kModel + "[train]\nbatch_size = 8192\ngrad_accum = 8192\n"),
                "train.grad_accum must be 1 .. 4096");
    EXPECT_SAYS(mistakes(kModel + "heads = 7\n"),
                "hidden_size 256 is no multiple of model.heads 7");
    EXPECT_SAYS(mistakes(kModel + "heads = 256\n"), "an odd number");
    EXPECT_SAYS(mistakes(kModel + "kv_heads = 3\n"), "heads 8 is no multiple of model.kv_heads 3");
    EXPECT_SAYS(mistakes(kModel + "[train]\nseq_len = 4096\n"),
                "longer than model.max_position 1024");
    EXPECT_SAYS(mistakes(kModel + "path = \"folder\"\n"), "exclude each other");
    EXPECT_SAYS(mistakes("[model]\nheads = 4\n"), "the model has no size");
    EXPECT_SAYS(mistakes(""), "run.toml: the model has no size");
    EXPECT_SAYS(mistakes(kModel + "[data]\nval_fraction = 0.0\n"), "nothing to evaluate on");
    EXPECT_SAYS(mistakes(kModel + "[data]\ntokenizer = \"bpe\"\n"), "ends in .model");
    EXPECT_SAYS(mistakes(kModel + "[data]\npath = []\n"), "data.path names no file");
    const std::string snip = "[precision]\nrecipe = \"snip\"\n[precision.snip]\n";
    EXPECT_SAYS(mistakes(kModel + snip + "update_interval = 5\nswap_delay = 6\n"),
                "swap_delay 6 is longer than update_interval 5");
    EXPECT_EQ(read(kModel + snip + "update_interval = 5\nswap_delay = 5\n").precision.recipe,
              "snip");
    EXPECT_EQ(read(kModel + snip + "update_interval = 2\n").precision.snip.swap_delay, 0);
    EXPECT_SAYS(mistakes(kModel + snip + "target = 0.9\n"), "target 0.9 is above max_target 0.8");
    EXPECT_SAYS(mistakes(kModel + snip + "options = [\"bf16\", \"fp8\"]\n"), "cannot be reached");
    const std::string timed = snip + "efficiency = \"time-saved\"\n";
    EXPECT_EQ(read(kModel + timed + "options = [\"bf16\", \"fp8\"]\n").precision.snip.efficiency,
              "time-saved");
    EXPECT_SAYS(mistakes(kModel + timed + "options = [\"bf16\"]\n"), "is 8-bit, so the target");
    EXPECT_SAYS(mistakes(kModel + snip + "efficiency = \"time\"\n"), "precision.snip.efficiency");
    EXPECT_EQ(read(kModel).precision.snip.options, (std::vector<std::string>{"fp8", "fp4"}));
    EXPECT_EQ(read(kModel).precision.snip.efficiency, "fp4-share");
    EXPECT_SAYS(mistakes(kModel + snip + "options = [\"fp4\", \"fp4\"]\n"), "names a recipe twice");
    EXPECT_SAYS(mistakes(kModel + snip + "loss_weight = 0\nweight_weight = 0\n"), "are both 0");
    EXPECT_SAYS(mistakes(kModel + snip + "labels = \"sampled\"\n"), "means nothing to the estim");
    EXPECT_EQ(read(kModel + snip + "labels = \"sampled\"\nestimator = \"fisher\"\n")
                  .precision.snip.labels,
              "sampled");
    using Stages = std::vector<std::int64_t>;
    EXPECT_EQ(read(kModel + snip + "stages = 2\n").precision.snip.stages, Stages{2});
    EXPECT_EQ(read(kModel + snip + "stages = [0, 1]\n").precision.snip.stages, (Stages{0, 1}));
    EXPECT_SAYS(mistakes(kModel + snip + "stages = 1000\n"), "1000 pipeline stages for ");
    EXPECT_SAYS(mistakes(kModel + snip + "stages = [1, 2]\n"), "stage 0 begins with block 1 of ");
    EXPECT_SAYS(mistakes(kModel + snip + "stages = []\n"), "no pipeline stages");
    EXPECT_SAYS(mistakes(kModel + snip + "stages = -1\n"), "stages must be 0 .. 10000, found -1");
    EXPECT_SAYS(mistakes(kModel + snip + "stages = \"2\"\n"), "stages");
    EXPECT_SAYS(mistakes(kModel + snip + "warmup_steps = 2000\n"), "is more than train.steps 1000");
}

TEST(ConfigReader, TheHeadIsInFp32WithTheRestAndPlannedByAPlanOnly) {
    const auto head = [](const std::string& keys) {
        return read(kModel + "[precision]\n" + keys).precision.head;
    };
    EXPECT_EQ(head(""), "bf16");
    EXPECT_EQ(head("recipe = \"fp32\"\n"), "fp32");
    EXPECT_EQ(head("recipe = \"fp32\"\nhead = \"bf16\"\n"), "bf16");
    EXPECT_EQ(head("recipe = \"snip\"\nhead = \"snip\"\n"), "snip");
    EXPECT_EQ(head("plan = \"p.json\"\nhead = \"snip\"\n"), "snip");
    EXPECT_SAYS(mistakes(kModel + "[precision]\nhead = \"snip\"\n"), "nobody plans");
}

TEST(ConfigReader, TheScheduleOfTheTargetSetsDefaultsOfOthers) {
    const std::string snip = kModel + "[precision]\nrecipe = \"snip\"\n[precision.snip]\n";
    const auto read_snip = [&](const std::string& keys) {
        return read(snip + keys).precision.snip;
    };
    EXPECT_EQ(read_snip("").schedule, "constant");
    EXPECT_EQ(read_snip("target_increment = 0.2\n").schedule, "article");
    const std::string article = "schedule = \"article\"\n";
    Config::Snip seen =
        parse_config(snip + article, "run.toml", {"train.steps=5000"}).config.precision.snip;
    EXPECT_EQ(seen.target_increment, 0.1);
    EXPECT_EQ(seen.warmup_steps.of(5000), 1000);
    EXPECT_EQ(seen.target, 0.3);
    EXPECT_EQ(seen.max_target, 0.8);
    EXPECT_EQ(seen.increment_every, 5000);
    EXPECT_EQ(seen.freeze_fraction, 0.1);
    seen = read_snip(article + "target_increment = 0.2\nwarmup_steps = 7\n");
    EXPECT_EQ(seen.target_increment, 0.2);
    EXPECT_EQ(seen.warmup_steps.of(1000), 7);
    EXPECT_SAYS(mistakes(snip + "schedule = \"constant\"\ntarget_increment = 0.1\n"),
                "target_increment 0.1 has no effect with schedule = \"constant\"");
    EXPECT_SAYS(mistakes(snip + "schedule = \"articel\"\n"), "did you mean \"article\"");
    EXPECT_SAYS(mistakes(snip + "damage_bound = -1\n"), "damage_bound must be >= 0, found -1");
    EXPECT_SAYS(mistakes(snip + "hysteresis = 1.0\n"), "hysteresis must be 0 .. 1 (excluded)");
}

TEST(ConfigReader, APlanThatIsGivenStaysUnlessItIsSaidOtherwise) {
    EXPECT_FALSE(read(kModel).precision.freeze_plan);
    EXPECT_TRUE(read(kModel + "[precision]\nplan = \"p.json\"\n").precision.freeze_plan);
    EXPECT_FALSE(read(kModel + "[precision]\nplan = \"p.json\"\nfreeze_plan = false\n")
                     .precision.freeze_plan);
    EXPECT_TRUE(read(kModel + "[precision]\nfreeze_plan = true\n").precision.freeze_plan);
}

TEST(ConfigReader, ControlsNeedWhatTheyWorkOn) {
    const std::string control = "[precision.control]\n";
    const std::string snip = kModel + "[precision]\nrecipe = \"snip\"\n";
    // With a fixed recipe they wait, as [precision.snip] does: `--set precision.recipe=bf16` is how
    // a run is compared with its baseline.
    for (const char* key : {"noise_ratio = 1.732", "spike_sigma = 6", "adjust_step = 0.1",
                            "ramp_steps = \"5%\"", "tail_steps = 10"}) {
        EXPECT_EQ(read(kModel + control + key + "\n").precision.recipe, "bf16");
        EXPECT_EQ(read(snip + control + key + "\n").precision.recipe, "snip");
    }
    EXPECT_SAYS(mistakes(snip + control + "spike_roll_back = true\n"), "needs spike_sigma");
    EXPECT_SAYS(mistakes(snip + control + "spike_roll_back = true\nspike_sigma = 6\n",
                         {"checkpoint.every=0"}),
                "nothing to go back to");
    EXPECT_SAYS(mistakes(snip + "[precision.snip]\nschedule = \"quality-held\"\n" + control +
                         "adjust_step = 0.1\n"),
                "moves a target");
    EXPECT_SAYS(mistakes(snip + control + "ramp_steps = 1001\n"),
                "ramp_steps 1001 is more than train.steps 1000");
    EXPECT_SAYS(mistakes(snip + control + "tail_steps = 1001\n"),
                "tail_steps 1001 is more than train.steps 1000");
    EXPECT_SAYS(mistakes(snip + control + "spike_share = 0\n"),
                "spike_share must be 0 (excluded) .. 1");
    EXPECT_SAYS(mistakes(snip + control + "spike_hold = 0\n"), "spike_hold must be >= 1");
    EXPECT_SAYS(mistakes(snip + control + "noise_decay = 1.0\n"), "noise_decay must be 0 .. 1");
    EXPECT_SAYS(mistakes(snip + control + "adjust_step = 1.5\n"), "adjust_step must be 0 .. 1");
    EXPECT_SAYS(mistakes(snip + control + "tail_recipe = \"fp9\"\n"), "precision.control.tail");
    EXPECT_SAYS(mistakes(snip + control + "spike_sgima = 6\n"),
                "did you mean precision.control.spike_sigma?");
}

TEST(ConfigReader, RulesAreReadInOrderAndMustMatchALayer) {
    const Config config = read(kModel +
                               "[[precision.rule]]\nmatch = \"*.mlp.*\"\nrecipe = \"fp4\"\n"
                               "[[precision.rule]]\nmatch = \"model.layers.0.*\"\n"
                               "recipe = \"bf16\"\nslot = \"wgrad\"\n");
    ASSERT_EQ(config.precision.rules.size(), 2u);
    EXPECT_EQ(config.precision.rules[0], (Config::Rule{"*.mlp.*", "fp4", ""}));
    EXPECT_EQ(config.precision.rules[1], (Config::Rule{"model.layers.0.*", "bf16", "wgrad"}));
    // `layers` is another name of `match`.
    EXPECT_EQ(read(kModel + "[[precision.rule]]\nlayers = \"*.down_proj\"\nslot = \"wgrad\"\n"
                            "recipe = \"bf16\"\n")
                  .precision.rules.at(0),
              (Config::Rule{"*.down_proj", "bf16", "wgrad"}));

    std::string text = mistakes(kModel +
                                "[[precision.rule]]\nmatch = \"model.layer.0.*\"\n"
                                "recipe = \"fp4\"\n");
    EXPECT_SAYS(text, "run.toml:3:1: [[precision.rule]] \"model.layer.0.*\" matches no layer");
    text = mistakes(kModel + "[[precision.rule]]\nmatch = \"*\"\nrecipee = \"fp4\"\n");
    EXPECT_SAYS(text, "run.toml:5:1: unknown key recipee in [[precision.rule]]");
    EXPECT_SAYS(mistakes(kModel + "[[precision.rule]]\nmatch = \"*\"\n"), "lacks recipe");
    EXPECT_SAYS(mistakes(kModel + "[precision]\nrule = 3\n"), "must be a list of sections");
    EXPECT_SAYS(mistakes(kModel + "[[precision.rules]]\nmatch = \"*\"\n"), "precision.rule");
}

TEST(ConfigReader, RepeatedKeysAndSectionsAreRefused) {
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = 1e-3\nlr = 2e-3\n"),
                "run.toml:5:1: lr is given twice");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr = 1e-3\n[train]\n[optim]\neps = 1e-8\n"),
                "run.toml:6:1: section [optim] is given twice");
}

TEST(ConfigReader, AllMistakesAreListedAtOnceInOrder) {
    const std::string text = mistakes(kModel +
                                          "[train]\nlr = 1e-3\nsteps = 1e3\nseq_len = 0\n"
                                          "[optim]\nlr = 3x\nlr2 = 1\neps = 1e-8\neps = 1e-9\n"
                                          "[log]\nstats = 1\n",
                                      {"optim.lrr=1"});
    EXPECT_SAYS(text, "8 mistakes");
    std::size_t last = 0;
    for (const char* part :
         {"run.toml:4:", "run.toml:5:", "run.toml:6:", "run.toml:8:7: syntax error",
          "run.toml:9:", "run.toml:11:1: eps is given twice", "run.toml:13:"}) {
        const std::size_t at = text.find(part);
        ASSERT_NE(at, std::string::npos) << part << " in " << text;
        EXPECT_GT(at, last) << part;
        last = at;
    }
}

TEST(ConfigReader, RefusedValueCausesNoSecondMistake) {
    // The default of train.steps (1000) is below the warm-up, but the real mistake is the value of
    // steps.
    const std::string text =
        mistakes(kModel + "[train]\nsteps = 5e3\n[optim]\nwarmup_steps = 2000\n");
    EXPECT_EQ(text.find("mistakes"), std::string::npos) << text;
    EXPECT_EQ(text.find("warmup"), std::string::npos) << text;
}

TEST(ConfigReader, SyntaxErrorsHaveAPosition) {
    EXPECT_SAYS(mistakes("[model\npreset = \"llama-9m\"\n"), "run.toml:1:");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nlr 3\n"), "run.toml:4:");
    EXPECT_SAYS(mistakes(kModel + "[run]\nname = \"\"\"open\n"), "syntax error");
    EXPECT_SAYS(mistakes(std::string("\xff\xfe\x00\x01", 4)), "run.toml:1:");
    EXPECT_SAYS(mistakes(std::string(100000, '[')), "run.toml:1:");
}

TEST(ConfigReader, ByteOrderMarkAndCarriageReturnsAreAccepted) {
    const Config config =
        read("\xEF\xBB\xBF[model]\r\npreset = \"llama-9m\"\r\n[optim]\r\nlr = 2e-3\r\n");
    EXPECT_EQ(config.model.preset, "llama-9m");
    EXPECT_EQ(config.optim.lr, 2e-3);
    EXPECT_SAYS(
        mistakes("\xEF\xBB\xBF[model]\r\npreset = \"llama-9m\"\r\n[optim]\r\nlr = \"x\"\r\n"),
        "run.toml:4:6: optim.lr must be a number, found \"x\" (text)");
}

TEST(ConfigReader, SetOverridesTheFile) {
    const LoadedConfig loaded =
        parse_config(kModel + "[optim]\nlr = 1e-3\neps = 1e-6\n", "run.toml",
                     {"optim.lr=2e-3", "run.name=fp4-run", "run.dir=007", "optim.betas=[0.8, 0.9]",
                      "precision.snip.options=fp4", "optim.lr=3e-3", "optim.schedule=linear",
                      "optim.warmup_steps=10%", "log.stats=true",
                      "precision.rule=[{match = \"lm_head\", recipe = \"fp8\"}]"});
    EXPECT_EQ(loaded.config.optim.lr, 3e-3);
    EXPECT_EQ(loaded.config.run.name, "fp4-run");
    EXPECT_EQ(loaded.config.run.dir, "007");
    EXPECT_EQ(loaded.config.optim.betas[0], 0.8);
    EXPECT_EQ(loaded.config.precision.snip.options, std::vector<std::string>{"fp4"});
    EXPECT_EQ(loaded.config.optim.warmup_steps, StepCount::share(10));
    EXPECT_TRUE(loaded.config.log.stats);
    EXPECT_EQ(loaded.config.precision.rules.at(0).recipe, "fp8");
    const std::string rule = "[[precision.rule]]\nmatch = \"*\"\nrecipe = \"fp4\"\n";
    EXPECT_TRUE(read(kModel + rule, {"precision.rule=[]"}).precision.rules.empty());
    EXPECT_EQ(loaded.origin("optim.lr").text(), "--set optim.lr=3e-3");
    EXPECT_EQ(loaded.origin("optim.eps").text(), "run.toml:5");
    EXPECT_EQ(loaded.origin("optim.grad_clip").text(), "default");
}

TEST(ConfigReader, MalformedSetIsRefused) {
    EXPECT_SAYS(mistakes(kModel, {"optim.lr="}), "optim.lr has no value");
    EXPECT_SAYS(mistakes(kModel, {"optim.lr.x=1"}), "optim.lr is a value, not a section");
    EXPECT_SAYS(mistakes(kModel, {"optim.lr"}), "needs the form section.key=value");
    EXPECT_SAYS(mistakes(kModel, {"=3"}), "needs the form section.key=value");
    EXPECT_SAYS(mistakes(kModel, {"optim=3"}), "optim is a section");
    EXPECT_SAYS(mistakes(kModel, {"lr=3"}), "did you mean optim.lr?");
    EXPECT_SAYS(mistakes(kModel, {"optim.lr=abc"}), "optim.lr must be a number, found \"abc\"");
    EXPECT_SAYS(mistakes(kModel, {"optim.betas=[0.9, 0.99"}), "is not a TOML value");
    EXPECT_SAYS(mistakes(kModel, {"optim.lr=1\ntrain.steps=3"}), "is not a TOML value");
    EXPECT_SAYS(mistakes(kModel, {"run.name=\xff"}), "--set run.name=");
}

TEST(ConfigReader, ExtendsLaysAFileOverItsBase) {
    const TempFolder folder;
    folder.write("base.toml", kModel + "[optim]\nlr = 1e-3\neps = 1e-6\n[train]\nsteps = 7\n");
    const std::string file =
        folder.write("run.toml", "extends = \"base.toml\"\n[optim]\nlr = 2e-3\n");
    const LoadedConfig loaded = load_config(file, {"train.steps=9"});
    EXPECT_EQ(loaded.config.model.preset, "llama-9m");
    EXPECT_EQ(loaded.config.optim.lr, 2e-3);
    EXPECT_EQ(loaded.config.optim.eps, 1e-6);
    EXPECT_EQ(loaded.config.train.steps, 9);
    EXPECT_EQ(loaded.origin("optim.eps").text(), (folder / "base.toml").string() + ":5");
    EXPECT_EQ(loaded.origin("optim.lr").text(), file + ":3");
    EXPECT_EQ(loaded.files, (std::vector<std::string>{(folder / "base.toml").string(), file}));
    EXPECT_EQ(loaded.config.run.name, "run");
    EXPECT_EQ(loaded.config.run.dir, "runs/run");
}

TEST(ConfigReader, MistakesOfTheBaseNameTheBase) {
    const TempFolder folder;
    folder.write("base.toml", kModel + "[train]\nlr = 1e-3\n");
    const std::string file = folder.write("run.toml", "extends = \"base.toml\"\n[optim]\nlr = 0\n");
    try {
        load_config(file);
        FAIL();
    } catch (const Error& error) {
        EXPECT_SAYS(std::string(error.what()), "2 mistakes");
        EXPECT_SAYS(std::string(error.what()), "base.toml:4:1: unknown key lr in [train]");
        EXPECT_SAYS(std::string(error.what()), "run.toml:3:6: optim.lr must be > 0");
    }
}

TEST(ConfigReader, CirclesOfExtendsAreFound) {
    const TempFolder folder;
    const std::string file = folder.write("a.toml", "extends = \"b.toml\"\n" + kModel);
    folder.write("b.toml", "extends = \"a.toml\"\n");
    try {
        load_config(file);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_SAYS(std::string(error.what()), "b.toml:1:11: extends \"a.toml\" closes a circle");
        EXPECT_SAYS(std::string(error.what()), "a.toml -> ");
    }
}

TEST(ConfigReader, UnknownBaseIsAMistake) {
    EXPECT_SAYS(mistakes("extends = \"llama-9n\"\n"), "did you mean 'llama-9m'?");
    EXPECT_SAYS(mistakes("extends = 3\n"), "extends must be text");
    EXPECT_SAYS(mistakes(kModel + "[optim]\nextends = \"llama-9m\"\n"), "unknown key extends");
}

TEST(ConfigReader, PresetsAreReadByName) {
    const LoadedConfig loaded = load_config("llama-60m", {"train.steps=2000"});
    EXPECT_EQ(loaded.config.model.preset, "llama-60m");
    EXPECT_EQ(loaded.config.optim.name, "stable-spam");
    EXPECT_EQ(loaded.config.run.name, "llama-60m");
    EXPECT_EQ(read("extends = \"llama-60m\"\n").optim.name, "stable-spam");
}

TEST(ConfigReader, EveryPresetIsValid) {
    ASSERT_GE(config_presets().size(), 10u);
    for (const std::string& name : config_presets()) {
        EXPECT_NO_THROW(load_config(name)) << name;
    }
}

TEST(ConfigReader, UnreadableFileIsADataError) {
    const TempFolder folder;
    for (const std::string& path : {(folder / "missing.toml").string(), (folder / "").string()}) {
        try {
            load_config(path);
            FAIL() << path;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kData);
            EXPECT_SAYS(std::string(error.what()), path);
        }
    }
}

}  // namespace
}  // namespace subbyte::train
