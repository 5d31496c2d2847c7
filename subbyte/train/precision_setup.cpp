// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/precision_setup.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "subbyte/core/error.h"
#include "subbyte/nn/attach.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/gemm_support.h"
#include "subbyte/train/plan_file.h"
#include "subbyte/train/profile_file.h"

namespace subbyte::train {

namespace {

ControlOptions control_options(const Config& config) {
    const Config::Control& c = config.precision.control;
    ControlOptions options;
    options.noise_ratio = c.noise_ratio;
    options.noise_decay = c.noise_decay;
    options.spike = {.sigma = c.spike_sigma,
                     .hold = c.spike_hold,
                     .share = c.spike_share,
                     .roll_back = c.spike_roll_back};
    options.adjust = {.step = c.adjust_step,
                      .window = c.adjust_window,
                      .progress = c.adjust_progress,
                      .range = c.adjust_range};
    options.ramp_steps = c.ramp_steps.of(config.train.steps);
    options.tail_steps = c.tail_steps.of(config.train.steps);
    options.tail_recipe = c.tail_recipe;
    return options;
}

}  // namespace

SnipOptions snip_options(const Config& config) {
    const Config::Snip& s = config.precision.snip;
    SnipOptions options;
    options.schedule = plan::schedule_from_name(s.schedule);
    options.damage_bound = s.damage_bound;
    options.hysteresis = s.hysteresis;
    options.frozen = config.precision.freeze_plan;
    options.control = control_options(config);
    options.initial_target = s.target;
    options.update_interval = s.update_interval;
    options.target_increment = s.target_increment;
    options.increment_every = s.increment_every;
    options.max_target = s.max_target;
    options.warmup_steps = s.warmup_steps.of(config.train.steps);
    options.freeze_fraction = s.freeze_fraction;
    options.total_steps = config.train.steps;
    options.swap_delay = s.swap_delay;
    options.method = s.method;
    options.recipes = s.options;
    options.efficiency = plan::efficiency_from_name(s.efficiency);
    options.granularity = plan::granularity_from_name(s.granularity);
    options.coupled = s.coupled;
    options.stages.assign(s.stages.begin(), s.stages.end());
    if (config.precision.head == "snip") options.keep_high.clear();
    if (!s.profile.empty()) {
        options.profile = load_profile(s.profile, static_cast<int>(config.run.threads), false);
    }
    options.loss_weight = s.loss_weight;
    options.weight_weight = s.weight_weight;
    options.estimator = plan::estimator_from_name(s.estimator);
    options.squared = s.squared;
    options.sampled_labels = s.labels == "sampled";
    options.probes = snip::probes_from_name(s.probes);
    options.probe_scale = s.probe_scale;
    options.solve_seconds = s.solve_seconds;
    options.seed = static_cast<std::uint64_t>(config.run.seed);
    return options;
}

namespace {

// First GEMM of the recipe that would run emulated here; null when all three are native.
const GemmSupport* emulated(const std::array<GemmSupport, 3>& support) {
    for (const GemmSupport& gemm : support) {
        if (!gemm.native) return &gemm;
    }
    return nullptr;
}

constexpr std::int64_t kSize = 1024;  // kernels are asked about a layer of this size

}  // namespace

void fix_layers(const Config::Precision& config, nn::Precision& precision) {
    for (const auto& [name, recipes] : fixed_layers(config, precision.table())) {
        precision.fix_layer(precision.layer_index(name), recipes);
    }
}

std::vector<std::string> recipes_in_use(const Config& config, const nn::Precision& precision) {
    std::set<std::string> names;
    if (config.precision.recipe == "snip") {
        names.insert("bf16");
    }
    if (config.precision.recipe == "snip" && !config.precision.freeze_plan) {
        names.insert(config.precision.snip.options.begin(), config.precision.snip.options.end());
    }
    for (const plan::LayerInfo& layer : precision.table()) {
        for (const plan::Slot slot : plan::kSlots) {
            const std::string& pinned = layer.pinned[static_cast<std::size_t>(slot)];
            names.insert(pinned.empty() ? precision.plan().recipe(layer.name, slot) : pinned);
        }
    }
    return {names.begin(), names.end()};
}

std::vector<std::string> kernel_lines(const std::vector<std::string>& recipes) {
    std::vector<std::string> lines;
    for (const std::string& name : recipes) {
        const auto support = recipe_support(plan::find_recipe(name), kSize, kSize, kSize);
        const GemmSupport* slow = emulated(support);
        lines.push_back(fmt::format(
            "{:6} {} ({})", name, support[0].kernel,
            slow == nullptr ? "native"
                            : "emulated: operands are decoded, then multiplied in FP32"));
    }
    return lines;
}

PrecisionSetup set_up_precision(const Config& config, torch::nn::Module& model,
                                optim::Optimizer& optimizer) {
    PrecisionSetup setup;
    if (config.precision.recipe == "snip") {
        setup.snip = std::make_unique<SNIP>(model, optimizer, snip_options(config));
        setup.precision = setup.snip->shared_precision();
        fix_layers(config.precision, *setup.precision);
        const plan::LayerTable& table = setup.precision->table();
        if (config.precision.plan.empty()) {
            setup.snip->start_with(plan::uniform_plan(table, "bf16"));
        } else {
            setup.snip->start_with(load_plan(config.precision.plan, table),
                                   config.precision.freeze_plan);
        }
    } else {
        setup.precision = nn::attach_precision(model, {});
        setup.precision->seed = static_cast<std::uint64_t>(config.run.seed);
        fix_layers(config.precision, *setup.precision);
        if (config.precision.plan.empty()) {
            setup.precision->set_plan(
                plan::uniform_plan(setup.precision->table(), config.precision.recipe));
        } else {
            setup.precision->set_plan(load_plan(config.precision.plan, setup.precision->table()));
        }
    }
    if (config.precision.require_native) {
        for (const std::string& name : recipes_in_use(config, *setup.precision)) {
            const auto support = recipe_support(plan::find_recipe(name), kSize, kSize, kSize);
            const GemmSupport* slow = emulated(support);
            if (slow == nullptr) continue;
            throw Error(
                ErrorCode::kHardware,
                fmt::format("precision.require_native: recipe {} would run emulated here ({})",
                            name, slow->kernel),
                "see `subbyte inspect kernels`, or set precision.require_native = false");
        }
    }
    return setup;
}

}  // namespace subbyte::train
