// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace subbyte::train {

// A number of steps, or a share of all steps: `100` or `"5%"` in the file.
struct StepCount {
    std::int64_t steps = 0;
    double percent = -1;  // >= 0: this share of the total counts, `steps` does not

    static StepCount share(double percent) { return {0, percent}; }
    // The number of steps out of `total`; a share is rounded down.
    std::int64_t of(std::int64_t total) const {
        return percent >= 0 ? static_cast<std::int64_t>(percent / 100.0 * double(total)) : steps;
    }
    friend bool operator==(const StepCount&, const StepCount&) = default;
};

// Everything a run can be told. Each member is one key of the configuration file; its meaning, type
// and range stand in config_schema.cpp, its default here. 0 and "" stand for "not given" where the
// schema says so. Relative paths are relative to the working directory.
struct Config {
    struct Run {
        std::string dir, name;  // load_config() fills both
        std::int64_t seed = 0, threads = 0;
        friend bool operator==(const Run&, const Run&) = default;
    } run;

    struct Model {
        std::string preset, path;
        std::int64_t hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0, kv_heads = 0;
        std::int64_t vocab_size = 0, max_position = 0;
        bool tie_embeddings = false;
        double rope_theta = 0, norm_eps = 0;
        friend bool operator==(const Model&, const Model&) = default;
    } model;

    struct Data {
        std::vector<std::string> path{"novels"}, val_path;
        double val_fraction = 0.05;
        std::string tokenizer = "sentencepiece";
        std::int64_t vocab_size = 8192;
        std::string cache_dir = ".cache/subbyte";
        friend bool operator==(const Data&, const Data&) = default;
    } data;

    struct Train {
        std::int64_t steps = 1000, batch_size = 8, seq_len = 256, grad_accum = 1;
        std::int64_t eval_every = 100, eval_batches = 8, log_every = 10, max_nonfinite = 10;
        bool recompute = false;
        std::string activations = "auto";
        friend bool operator==(const Train&, const Train&) = default;
    } train;

    struct StableSpam {
        double gamma1 = 0.7, gamma2 = 0.9, gamma3 = 0.999, eta_min = 0.5;
        std::int64_t reset_interval = 1000, total_steps = 0;
        bool adaclip = true, adagn = true;
        std::string compat = "clean";
        friend bool operator==(const StableSpam&, const StableSpam&) = default;
    };

    struct Optim {
        std::string name = "adamw", schedule = "cosine";
        double lr = 1e-3, min_lr_ratio = 0.1;
        StepCount warmup_steps = StepCount::share(5);
        std::int64_t schedule_steps = 0;
        std::array<double, 2> betas{0.9, 0.95};
        double eps = 1e-8, weight_decay = 0.1, grad_clip = 1.0;
        bool amsgrad = false, in_backward = false;
        StableSpam stable_spam;
        friend bool operator==(const Optim&, const Optim&) = default;
    } optim;

    // One [[precision.rule]]: layers whose name matches the glob get the recipe, in one slot or in
    // all.
    struct Rule {
        std::string match, recipe, slot;
        friend bool operator==(const Rule&, const Rule&) = default;
    };

    struct Snip {
        std::string method = "snip", efficiency = "fp4-share", schedule = "constant";
        std::string estimator = "norm-only", probes = "shared", labels = "data";
        std::string granularity = "gemm", profile;
        std::vector<std::int64_t> stages{1};  // a number of stages, or from 0 on their first blocks
        double target = 0.3, target_increment = 0.0, max_target = 0.8, freeze_fraction = 0.1;
        std::int64_t increment_every = 5000, update_interval = 100, swap_delay = 0;
        StepCount warmup_steps = StepCount::share(5);
        std::vector<std::string> options{"fp8", "fp4"}, coupled;
        double loss_weight = 1.0, weight_weight = 2.0, probe_scale = 0.05, solve_seconds = 10.0;
        double damage_bound = 0.01, hysteresis = 0.05;
        bool squared = true;
        friend bool operator==(const Snip&, const Snip&) = default;
    };

    // Guards and adjustments beside the planner, see ControlOptions. All off.
    struct Control {
        double noise_ratio = 0, noise_decay = 0.5;
        double spike_sigma = 0, spike_share = 1;
        std::int64_t spike_hold = 100;
        bool spike_roll_back = false;
        double adjust_step = 0, adjust_progress = 0.005, adjust_range = 0.3;
        std::int64_t adjust_window = 100;
        StepCount ramp_steps, tail_steps;
        std::string tail_recipe = "bf16";
        friend bool operator==(const Control&, const Control&) = default;
    };

    struct Precision {
        std::string recipe = "bf16", head = "bf16", plan;
        bool freeze_plan = false, require_native = false;
        std::vector<Rule> rules;
        Snip snip;
        Control control;
        friend bool operator==(const Precision&, const Precision&) = default;
    } precision;

    struct Checkpoint {
        std::int64_t every = 500, keep = 3, keep_every = 0;
        std::string resume = "auto";
        friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
    } checkpoint;

    struct Log {
        bool stats = false;
        friend bool operator==(const Log&, const Log&) = default;
    } log;

    friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace subbyte::train
