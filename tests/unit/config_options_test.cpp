// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the keys of a configuration become in the option structures of optimizer and planner.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/data/corpus.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/optim/lr_schedule.h"
#include "subbyte/optim/stable_spam.h"
#include "subbyte/plan/planner.h"
#include "subbyte/plan/schedule.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/optimizer_setup.h"
#include "subbyte/train/plan_checkpoint.h"
#include "subbyte/train/precision_setup.h"
#include "subbyte/train/run_folder.h"

namespace subbyte::train {
namespace {

Config read(const std::string& text) {
    return parse_config(
               "[model]\nhidden_size = 8\nintermediate_size = 8\nlayers = 1\nheads = 2\n"
               "vocab_size = 16\n" +
                   text,
               "run.toml")
        .config;
}

std::unique_ptr<optim::Optimizer> optimizer_of(const std::string& text) {
    const Config config = read(text);
    models::Llama model(model_config(config, 16));
    return set_up_optimizer(config, *model);
}

optim::StableSpamOptions stable_spam_options(const std::string& text) {
    const auto optimizer = optimizer_of("[optim]\nname = \"stable-spam\"\n" + text);
    return dynamic_cast<const optim::StableSpam&>(*optimizer).options();
}

TEST(ConfigOptions, ControllerAndConfigurationHaveTheSameDefaults) {
    Config config;
    config.precision.snip.warmup_steps = {0, -1};  // a share of a length that SnipOptions lacks
    const SnipOptions read = snip_options(config), own;
    EXPECT_EQ(read.initial_target, own.initial_target);
    EXPECT_EQ(read.update_interval, own.update_interval);
    EXPECT_EQ(read.target_increment, own.target_increment);
    EXPECT_EQ(read.increment_every, own.increment_every);
    EXPECT_EQ(read.max_target, own.max_target);
    EXPECT_EQ(read.warmup_steps, own.warmup_steps);
    EXPECT_EQ(read.freeze_fraction, own.freeze_fraction);
    EXPECT_EQ(read.swap_delay, own.swap_delay);
    EXPECT_EQ(read.damage_bound, own.damage_bound);
    EXPECT_EQ(read.hysteresis, own.hysteresis);
    EXPECT_EQ(read.frozen, own.frozen);
    const ControlOptions &c = read.control, &o = own.control;
    EXPECT_EQ(c.noise_ratio, o.noise_ratio);
    EXPECT_EQ(c.noise_decay, o.noise_decay);
    EXPECT_EQ(c.spike.sigma, o.spike.sigma);
    EXPECT_EQ(c.spike.hold, o.spike.hold);
    EXPECT_EQ(c.spike.share, o.spike.share);
    EXPECT_EQ(c.spike.roll_back, o.spike.roll_back);
    EXPECT_EQ(c.adjust.step, o.adjust.step);
    EXPECT_EQ(c.adjust.window, o.adjust.window);
    EXPECT_EQ(c.adjust.progress, o.adjust.progress);
    EXPECT_EQ(c.adjust.range, o.adjust.range);
    EXPECT_EQ(c.ramp_steps, o.ramp_steps);
    EXPECT_EQ(c.tail_steps, o.tail_steps);
    EXPECT_EQ(c.tail_recipe, o.tail_recipe);
    EXPECT_EQ(read.method, own.method);
    EXPECT_EQ(read.recipes, own.recipes);
    EXPECT_EQ(read.efficiency, own.efficiency);
    EXPECT_EQ(read.granularity, own.granularity);
    EXPECT_EQ(read.coupled, own.coupled);
    EXPECT_EQ(read.stages, own.stages);
    EXPECT_EQ(read.keep_high, own.keep_high);
    EXPECT_EQ(read.profile, own.profile);
    EXPECT_EQ(read.loss_weight, own.loss_weight);
    EXPECT_EQ(read.weight_weight, own.weight_weight);
    EXPECT_EQ(read.estimator, own.estimator);
    EXPECT_EQ(read.squared, own.squared);
    EXPECT_EQ(read.sampled_labels, own.sampled_labels);
    EXPECT_EQ(read.probes, own.probes);
    EXPECT_EQ(read.probe_scale, own.probe_scale);
    EXPECT_EQ(read.solve_seconds, own.solve_seconds);
    EXPECT_EQ(read.seed, own.seed);
}

TEST(ConfigOptions, PlannerAndConfigurationHaveTheSameDefaults) {
    const Config config;
    const SnipOptions snip;
    const plan::PlannerOptions planner;
    EXPECT_EQ(planner.method, snip.method);
    EXPECT_EQ(planner.recipes, snip.recipes);
    EXPECT_EQ(planner.target, snip.initial_target);
    EXPECT_EQ(planner.efficiency, snip.efficiency);
    EXPECT_EQ(planner.granularity, snip.granularity);
    EXPECT_EQ(planner.coupled, snip.coupled);
    EXPECT_EQ(planner.loss_weight, snip.loss_weight);
    EXPECT_EQ(planner.weight_weight, snip.weight_weight);
    EXPECT_EQ(planner.estimator, snip.estimator);
    EXPECT_EQ(planner.squared, snip.squared);
    EXPECT_EQ(planner.limits.seconds, snip.solve_seconds);
    const plan::PlanSchedule schedule;
    EXPECT_EQ(schedule.initial_target, snip.initial_target);
    EXPECT_EQ(schedule.target_increment, snip.target_increment);
    EXPECT_EQ(schedule.max_target, snip.max_target);
    EXPECT_EQ(schedule.increment_every, snip.increment_every);
    EXPECT_EQ(schedule.update_interval, snip.update_interval);
    EXPECT_EQ(schedule.freeze_fraction, snip.freeze_fraction);
    const CheckpointOptions checkpoint;
    EXPECT_EQ(checkpoint.recipes, snip.recipes);
    EXPECT_EQ(checkpoint.probes, snip.probes);
    EXPECT_EQ(checkpoint.probe_scale, snip.probe_scale);
    EXPECT_EQ(checkpoint.batch_size, config.train.batch_size);
    EXPECT_EQ(checkpoint.seq_len, config.train.seq_len);
    EXPECT_EQ(checkpoint.batches, config.train.eval_batches);
}

TEST(ConfigOptions, DataScheduleAndEvaluationHaveTheSameDefaults) {
    const Config config;
    const data::CorpusOptions corpus;
    EXPECT_EQ(corpus.val_fraction, config.data.val_fraction);
    EXPECT_EQ(corpus.tokenizer, config.data.tokenizer);
    EXPECT_EQ(corpus.vocab_size, config.data.vocab_size);
    EXPECT_EQ(corpus.cache_dir, config.data.cache_dir);
    const optim::LrScheduleOptions schedule;
    EXPECT_EQ(schedule.shape, config.optim.schedule);
    EXPECT_EQ(schedule.peak, config.optim.lr);
    EXPECT_EQ(schedule.min_ratio, config.optim.min_lr_ratio);
    const TextEvaluationOptions evaluation;
    EXPECT_EQ(evaluation.seq_len, config.train.seq_len);
    EXPECT_EQ(evaluation.batch_size, config.train.batch_size);
}

TEST(ConfigOptions, StableSpamHasItsOwnDefaults) {
    const optim::StableSpamOptions own, read = stable_spam_options("");
    EXPECT_EQ(read.gamma1, own.gamma1);
    EXPECT_EQ(read.gamma2, own.gamma2);
    EXPECT_EQ(read.gamma3, own.gamma3);
    EXPECT_EQ(read.update_gap, own.update_gap);
    EXPECT_EQ(read.total_steps, own.total_steps);
    EXPECT_EQ(read.eta_min, own.eta_min);
    EXPECT_EQ(read.compat, own.compat);
    EXPECT_EQ(read.adaclip, own.adaclip);
    EXPECT_EQ(read.adagn, own.adagn);
    EXPECT_EQ(read.amsgrad, own.amsgrad);
    EXPECT_EQ(read.max_grad_norm, own.max_grad_norm);
}

TEST(ConfigOptions, EveryPartOfStableSpamIsAKey) {
    const optim::StableSpamOptions read = stable_spam_options(
        "amsgrad = true\ngrad_clip = 0.25\n[optim.stable_spam]\nadaclip = false\nadagn = false\n"
        "gamma1 = 0.1\ngamma2 = 0.2\ngamma3 = 0.3\neta_min = 0.4\nreset_interval = 5\n"
        "total_steps = 6\ncompat = \"official\"\n");
    EXPECT_TRUE(read.amsgrad);
    EXPECT_EQ(read.max_grad_norm, 0.25);
    EXPECT_FALSE(read.adaclip);
    EXPECT_FALSE(read.adagn);
    EXPECT_EQ(read.gamma1, 0.1);
    EXPECT_EQ(read.gamma2, 0.2);
    EXPECT_EQ(read.gamma3, 0.3);
    EXPECT_EQ(read.eta_min, 0.4);
    EXPECT_EQ(read.update_gap, 5);
    EXPECT_EQ(read.total_steps, 6);
    EXPECT_EQ(read.compat, optim::StableSpamCompat::kOfficial);
}

TEST(ConfigOptions, AmsgradReachesAdamW) {
    const auto adamw = optimizer_of("[optim]\namsgrad = true\n");
    EXPECT_TRUE(dynamic_cast<const optim::AdamW&>(*adamw).options().amsgrad);
}

TEST(ConfigOptions, OneRuleNamesTheFolderOfARun) {
    EXPECT_EQ(read("").run.name, "run");  // after run.toml
    EXPECT_EQ(read("").run.dir, "runs/run");
    EXPECT_EQ(RunFolder(read("[run]\nname = \"x\"\n")).dir(), "runs/x");
    EXPECT_EQ(RunFolder(read("[run]\nname = \"x\"\ndir = \"y\"\n")).dir(), "y");
    // Without a file there is nothing to name it after.
    try {
        RunFolder folder{Config{}};
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
}

TEST(ConfigOptions, TheDefaultOfGradClipDependsOnTheOptimizer) {
    EXPECT_EQ(read("").optim.grad_clip, 1.0);
    EXPECT_EQ(read("[optim]\nname = \"stable-spam\"\n").optim.grad_clip, 0.0);
    EXPECT_EQ(read("[optim]\nname = \"stable-spam\"\ngrad_clip = 1.0\n").optim.grad_clip, 1.0);
    EXPECT_EQ(read("[optim]\ngrad_clip = 0.0\n").optim.grad_clip, 0.0);
}

}  // namespace
}  // namespace subbyte::train
