// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "subbyte/core/error.h"
#include "subbyte/plan/planner.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/plan/stages.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/config_schema.h"
#include "subbyte/train/config_value.h"

namespace subbyte::train {
namespace {

class Checker {
public:
    Checker(const LoadedConfig& loaded, const std::set<std::string, std::less<>>& unusable)
        : loaded_(loaded), unusable_(unusable) {}

    // Unless `good`, a mistake at the first given one of `paths`.
    void require(bool good, std::initializer_list<std::string_view> paths, std::string what,
                 std::string fix) {
        if (good) return;
        Origin where;
        for (const std::string_view path : paths) {
            if (unusable_.contains(path)) return;
            if (where.kind == Origin::Kind::kDefault) where = loaded_.origin(path);
        }
        if (where.kind == Origin::Kind::kDefault) where = Origin::whole_file(loaded_.files.back());
        mistakes_.push_back({where, std::move(what), std::move(fix)});
    }

    std::vector<Mistake> take() { return std::move(mistakes_); }

private:
    const LoadedConfig& loaded_;
    const std::set<std::string, std::less<>>& unusable_;
    std::vector<Mistake> mistakes_;
};

void check_model(const Config& config, Checker& checker) {
    const Config::Model& model = config.model;
    if (!model.path.empty()) {
        checker.require(
            model.preset.empty(), {"model.preset", "model.path"},
            "model.preset and model.path exclude each other",
            "keep model.path to start from existing weights, model.preset to start new");
        return;
    }
    const models::LlamaConfig sizes = model_config(config, config.data.vocab_size);
    checker.require(
        sizes.hidden_size > 0 && sizes.intermediate_size > 0 && sizes.layers > 0 && sizes.heads > 0,
        {"model.hidden_size", "model.intermediate_size", "model.layers", "model.heads",
         "model.preset", "model.path"},
        "the model has no size",
        "give model.preset, model.path, or all of model.hidden_size, "
        "model.intermediate_size, model.layers, model.heads");
    if (sizes.hidden_size == 0 || sizes.heads == 0) return;
    checker.require(sizes.hidden_size % sizes.heads == 0,
                    {"model.heads", "model.hidden_size", "model.preset"},
                    fmt::format("model.hidden_size {} is no multiple of model.heads {}",
                                sizes.hidden_size, sizes.heads),
                    "change one of the two");
    checker.require(
        sizes.hidden_size % sizes.heads != 0 || sizes.hidden_size / sizes.heads % 2 == 0,
        {"model.heads", "model.hidden_size", "model.preset"},
        fmt::format("model.hidden_size / model.heads is {}, an odd number",
                    sizes.hidden_size / sizes.heads),
        "rotary embedding needs an even head size");
    checker.require(sizes.heads % sizes.kv_heads == 0,
                    {"model.kv_heads", "model.heads", "model.preset"},
                    fmt::format("model.heads {} is no multiple of model.kv_heads {}", sizes.heads,
                                sizes.kv_heads),
                    "change one of the two");
    checker.require(
        config.train.seq_len <= sizes.max_position,
        {"train.seq_len", "model.max_position", "model.preset"},
        fmt::format("train.seq_len {} is longer than model.max_position {}", config.train.seq_len,
                    sizes.max_position),
        fmt::format("set model.max_position = {} or shorten train.seq_len", config.train.seq_len));
}

void check_training(const Config& config, Checker& checker) {
    const Config::Train& train = config.train;
    const Config::Optim& optim = config.optim;
    checker.require(
        train.batch_size % train.grad_accum == 0, {"train.grad_accum", "train.batch_size"},
        fmt::format("train.batch_size {} is no multiple of train.grad_accum {}", train.batch_size,
                    train.grad_accum),
        "batch_size counts the sequences of a whole step, grad_accum cuts it into parts");
    const bool own_length = optim.schedule_steps > 0;
    const std::int64_t length = own_length ? optim.schedule_steps : train.steps;
    checker.require(
        optim.warmup_steps.of(length) <= length,
        {"optim.warmup_steps", own_length ? "optim.schedule_steps" : "train.steps"},
        fmt::format("optim.warmup_steps {} is more than {} {}", optim.warmup_steps.of(length),
                    own_length ? "optim.schedule_steps" : "train.steps", length),
        own_length ? "shorten the warm-up or write it as a share, e.g. \"5%\""
                   : "shorten the warm-up or write it as a share, e.g. \"5%\"; to end a run "
                     "earlier than planned, keep its curve: optim.schedule_steps = (the old "
                     "train.steps)");
    checker.require(!optim.in_backward || optim.grad_clip == 0,
                    {"optim.in_backward", "optim.grad_clip"},
                    fmt::format("optim.in_backward cannot clip by a global norm of {}: it is known "
                                "at the end of backward only",
                                optim.grad_clip),
                    "set optim.grad_clip = 0 or optim.in_backward = false");
    checker.require(
        train.eval_every == 0 || !config.data.val_path.empty() || config.data.val_fraction > 0,
        {"data.val_fraction", "data.val_path", "train.eval_every"},
        "there is nothing to evaluate on: data.val_fraction is 0 and data.val_path empty",
        "give one of them, or train.eval_every = 0");
    const std::string& tokenizer = config.data.tokenizer;
    checker.require(tokenizer == "sentencepiece" || tokenizer == "bytes" ||
                        tokenizer.ends_with(".model") || tokenizer.ends_with(".json"),
                    {"data.tokenizer"}, fmt::format("data.tokenizer is \"{}\"", tokenizer),
                    "use sentencepiece, bytes, or a file that ends in .model or .json");
    checker.require(!config.data.path.empty() && !config.data.path.front().empty(), {"data.path"},
                    "data.path names no file", "give a text file, or \"novels\"");
}

void check_rules(const Config& config, Checker& checker) {
    const std::vector<Config::Rule>& rules = config.precision.rules;
    plan::LayerTable table;
    const models::LlamaConfig shape = model_config(config, config.data.vocab_size);
    // The layers of a model from a folder are known only when it is read.
    const bool known = config.model.path.empty() && shape.hidden_size > 0 && shape.heads > 0;
    if (known) table = models::layer_table(shape, 1);
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const Config::Rule& rule = rules[i];
        const std::string path = fmt::format("{}.{}", kRulePath, i);
        checker.require(
            !rule.match.empty() && !rule.recipe.empty(), {path, kRulePath},
            fmt::format("a [[{}]] lacks {}", kRulePath, rule.match.empty() ? "match" : "recipe"),
            "each rule needs match and recipe");
        const bool matched = std::any_of(
            table.begin(), table.end(),
            [&](const plan::LayerInfo& layer) { return glob_match(rule.match, layer.name); });
        checker.require(
            !known || rule.match.empty() || matched, {path, kRulePath},
            fmt::format("[[{}]] {} matches no layer", kRulePath, quote_text(rule.match)),
            unmatched_hint(rule.match, table));
    }
}

void check_control(const Config& config, Checker& checker) {
    const Config::Precision& precision = config.precision;
    const Config::Control& control = precision.control;
    const Config::Snip& snip = precision.snip;
    const std::int64_t steps = config.train.steps;
    checker.require(!control.spike_roll_back || control.spike_sigma > 0,
                    {"precision.control.spike_roll_back", "precision.control.spike_sigma"},
                    "precision.control.spike_roll_back needs spike_sigma, which is 0",
                    "for example spike_sigma = 6");
    checker.require(!control.spike_roll_back || config.checkpoint.every > 0,
                    {"precision.control.spike_roll_back", "checkpoint.every"},
                    "precision.control.spike_roll_back has nothing to go back to: "
                    "checkpoint.every is 0",
                    "for example checkpoint.every = 500");
    checker.require(control.adjust_step == 0 || snip.schedule != "quality-held",
                    {"precision.control.adjust_step", "precision.snip.schedule"},
                    "precision.control.adjust_step moves a target, and schedule = "
                    "\"quality-held\" has none",
                    "use one of the two");
    const std::int64_t ramp = control.ramp_steps.of(steps), tail = control.tail_steps.of(steps);
    checker.require(
        ramp <= steps, {"precision.control.ramp_steps", "train.steps"},
        fmt::format("precision.control.ramp_steps {} is more than train.steps {}", ramp, steps),
        "shorten it or write it as a share, e.g. \"5%\"");
    checker.require(
        tail <= steps, {"precision.control.tail_steps", "train.steps"},
        fmt::format("precision.control.tail_steps {} is more than train.steps {}", tail, steps),
        "shorten it or write it as a share, e.g. \"5%\"");
}

void check_stages(const Config& config, Checker& checker) {
    const std::vector<std::int64_t>& stages = config.precision.snip.stages;
    const models::LlamaConfig shape = model_config(config, config.data.vocab_size);
    // The blocks of a model from a folder are counted when it is read.
    if (!config.model.path.empty() || shape.layers == 0) return;
    plan::LayerTable table = models::layer_table(shape, 1);
    std::string what;
    try {
        plan::assign_stages(table, {stages.begin(), stages.end()});
    } catch (const Error& error) {
        what = error.what();
    }
    checker.require(what.empty(), {"precision.snip.stages", "model.layers", "model.preset"},
                    "precision.snip.stages: " + what,
                    "every stage needs a block: a number of stages, or the first block of each "
                    "from 0 on");
}

void check_precision(const Config& config, Checker& checker) {
    const Config::Precision& precision = config.precision;
    checker.require(
        precision.head != "snip" || precision.recipe == "snip" || !precision.plan.empty(),
        {"precision.head", "precision.recipe"},
        fmt::format("precision.head is \"snip\" and precision.recipe \"{}\": nobody plans",
                    precision.recipe),
        "give precision.recipe = \"snip\", precision.plan, or a recipe for the head");
    if (precision.recipe != "snip") return;
    check_stages(config, checker);
    check_control(config, checker);
    const Config::Snip& snip = precision.snip;
    checker.require(snip.target_increment == 0 || snip.schedule == "article",
                    {"precision.snip.target_increment", "precision.snip.schedule"},
                    fmt::format("precision.snip.target_increment {} has no effect with schedule = "
                                "\"{}\"",
                                snip.target_increment, snip.schedule),
                    "set schedule = \"article\", or target_increment = 0");
    checker.require(snip.swap_delay <= snip.update_interval,
                    {"precision.snip.swap_delay", "precision.snip.update_interval"},
                    fmt::format("precision.snip.swap_delay {} is longer than update_interval {}",
                                snip.swap_delay, snip.update_interval),
                    "a plan must be in force before the next measurement");
    checker.require(snip.target <= snip.max_target,
                    {"precision.snip.target", "precision.snip.max_target"},
                    fmt::format("precision.snip.target {} is above max_target {}", snip.target,
                                snip.max_target),
                    "raise max_target or lower target");
    checker.require(snip.warmup_steps.of(config.train.steps) <= config.train.steps,
                    {"precision.snip.warmup_steps", "train.steps"},
                    fmt::format("precision.snip.warmup_steps {} is more than train.steps {}",
                                snip.warmup_steps.of(config.train.steps), config.train.steps),
                    "shorten the warm-up or write it as a share, e.g. \"5%\"");
    checker.require(snip.loss_weight > 0 || snip.weight_weight > 0,
                    {"precision.snip.loss_weight", "precision.snip.weight_weight"},
                    "precision.snip.loss_weight and weight_weight are both 0",
                    "at least one must count");
    std::vector<std::string> sorted = snip.options;
    std::sort(sorted.begin(), sorted.end());
    checker.require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                    {"precision.snip.options"}, "precision.snip.options names a recipe twice",
                    "name each recipe once");
    checker.require(
        snip.efficiency != "seconds" || !snip.profile.empty(),
        {"precision.snip.efficiency", "precision.snip.profile"},
        "precision.snip.efficiency is \"seconds\" and there is no precision.snip.profile",
        "measure this machine: subbyte bench --profile FILE");
    checker.require(
        snip.labels == "data" ||
            plan::needs_of(snip.method, plan::estimator_from_name(snip.estimator)).outputs,
        {"precision.snip.labels", "precision.snip.estimator"},
        fmt::format("precision.snip.labels \"{}\" means nothing to the estimator \"{}\"",
                    snip.labels, snip.estimator),
        "estimator = \"fisher\", \"gradient-output\" or \"taylor\" looks at labels");
    const int bits = snip.efficiency == "fp4-share" ? 4 : 8;
    const bool counts =
        std::any_of(snip.options.begin(), snip.options.end(), [&](const std::string& name) {
            return plan::find_recipe(name)[plan::Slot::kFprop].widest_bits() <= bits;
        });
    checker.require(
        !snip.options.empty() && (counts || snip.target == 0),
        {"precision.snip.options", "precision.snip.target"},
        snip.options.empty()
            ? std::string("precision.snip.options is empty")
            : fmt::format("no recipe of precision.snip.options is {}-bit, so the target "
                          "{} cannot be reached",
                          bits, snip.target),
        "add a 4-bit recipe such as \"fp4\"");
}

}  // namespace

std::vector<Mistake> check_config(const LoadedConfig& loaded,
                                  const std::set<std::string, std::less<>>& unusable) {
    Checker checker(loaded, unusable);
    check_model(loaded.config, checker);
    check_training(loaded.config, checker);
    check_rules(loaded.config, checker);
    check_precision(loaded.config, checker);
    return checker.take();
}

}  // namespace subbyte::train
