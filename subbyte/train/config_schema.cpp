// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_schema.h"

#include <algorithm>

#include "subbyte/models/llama_config.h"
#include "subbyte/ops/kept_activation.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/plan/planner.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/plan/schedule.h"

namespace subbyte::train {
namespace {

using Names = std::vector<std::string>;

Limits at_least(double min) { return {.min = min, .has_min = true}; }
Limits above(double min) { return {.min = min, .has_min = true, .min_excluded = true}; }
Limits within(double min, double max) {
    return {.min = min, .max = max, .has_min = true, .has_max = true};
}
Limits within_below(double min, double max) {
    return {.min = min, .max = max, .has_min = true, .has_max = true, .max_excluded = true};
}
Limits within_above(double min, double max) {
    return {.min = min, .max = max, .has_min = true, .has_max = true, .min_excluded = true};
}
Limits one_of(Names (*choices)()) { return {.choices = choices}; }
Limits one_of_or(Names (*choices)(), std::string_view or_else) {
    return {.choices = choices, .or_else = or_else};
}

constexpr std::string_view kVariant = "a variant like fp4.w=1x16";

Limits a_recipe(Names (*names)() = plan::recipe_names) {
    return {.choices = names, .or_else = kVariant, .mistake = plan::recipe_mistake};
}

Names recipes_and_snip() {
    Names names = plan::recipe_names();
    names.push_back("snip");
    return names;
}

constexpr double kMaxSize = 1 << 20;  // of one dimension of a model or a batch

Names optimizers() { return {"adamw", "stable-spam"}; }
Names schedules() { return {"cosine", "linear", "constant"}; }
Names spam_variants() { return {"clean", "official"}; }
Names tokenizers() { return {"sentencepiece", "bytes"}; }
Names estimators() { return plan::estimator_names(); }
Names probe_kinds() { return {"none", "block", "layer", "shared"}; }
Names label_kinds() { return {"data", "sampled"}; }
Names resumes() { return {"auto", "never"}; }
Names slots() { return {"fprop", "dgrad", "wgrad"}; }

template <class Owner>
Key<Owner> key_of(std::string_view path, Field (*field)(Owner&), Limits limits,
                  std::string_view meaning) {
    return {path, field, limits, meaning};
}

// The text of the path and the member are one token sequence, so they cannot differ.
#define KEY(path, ...) \
    key_of<Config>(    \
        #path, [](Config& c) -> Field { return &c.path; }, __VA_ARGS__)
#define RULE_KEY(path, ...) \
    key_of<Config::Rule>(   \
        #path, [](Config::Rule& r) -> Field { return &r.path; }, __VA_ARGS__)

const std::vector<Key<Config>>& keys() {
    static const std::vector<Key<Config>> table{
        KEY(run.dir, {}, "folder of the run; empty: runs/<run.name>"),
        KEY(run.name, {}, "name of the run; empty: the name of the configuration file"),
        KEY(run.seed, at_least(0), "seed of weights, data order and rounding noise"),
        KEY(run.threads, within(0, 4096), "CPU threads; 0: all. Never changes a result"),

        KEY(model.preset, one_of(models::llama_preset_names),
            "sizes by name; explicit keys override it"),
        KEY(model.path, {}, "Hugging Face folder whose weights to start from"),
        KEY(model.hidden_size, within(0, kMaxSize), "width of the residual stream; 0: preset"),
        KEY(model.intermediate_size, within(0, kMaxSize), "width of the MLP; 0: preset"),
        KEY(model.layers, within(0, 10000), "number of transformer blocks; 0: preset"),
        KEY(model.heads, within(0, kMaxSize), "attention heads; 0: preset"),
        KEY(model.kv_heads, within(0, kMaxSize), "key/value heads; 0: preset, else model.heads"),
        KEY(model.vocab_size, within(0, 1 << 24), "rows of the embedding; 0: the tokenizer's"),
        KEY(model.max_position, within(0, 1 << 24),
            "longest sequence; 0: preset, else train.seq_len"),
        KEY(model.tie_embeddings, {}, "the head shares the embedding's weight"),
        KEY(model.rope_theta, at_least(0), "base of the rotary angles; 0: preset, else 10000"),
        KEY(model.norm_eps, within(0, 1), "epsilon of RMSNorm; 0: preset, else 1e-5"),

        KEY(data.path, {}, "training text (UTF-8) or token shards; \"novels\": the built-in set"),
        KEY(data.val_path, {}, "validation data; empty: a part of data.path"),
        KEY(data.val_fraction, within(0, 0.5), "share at the end of data.path kept for validation"),
        KEY(data.tokenizer, one_of_or(tokenizers, "a .model or tokenizer.json file"),
            "sentencepiece: train one on the training part"),
        KEY(data.vocab_size, within(2, 1 << 24), "pieces of a tokenizer that is trained here"),
        KEY(data.cache_dir, {}, "folder for tokenizers and token shards made here"),

        KEY(train.steps, at_least(0), "optimizer steps of the run"),
        KEY(train.batch_size, within(1, kMaxSize), "sequences per optimizer step"),
        KEY(train.seq_len, within(1, 1 << 24), "tokens per sequence"),
        KEY(train.grad_accum, within(1, ops::kMaxMicroBatches),
            "micro-batches a step is cut into; divides batch_size"),
        KEY(train.recompute, {}, "keep only the input of each block; compute it again in backward"),
        KEY(train.activations, one_of(ops::keep_names),
            "what norms and SwiGLU keep of their inputs; auto: as the recipe computes"),
        KEY(train.eval_every, at_least(0),
            "steps between evaluations, the last step included; 0: never"),
        KEY(train.eval_batches, at_least(1), "batches of one evaluation"),
        KEY(train.log_every, at_least(1), "steps between log lines"),
        KEY(train.max_nonfinite, at_least(1),
            "skipped steps in a row after which the run gives up"),

        KEY(optim.name, one_of(optimizers), "optimizer"),
        KEY(optim.lr, above(0), "peak learning rate"),
        KEY(optim.schedule, one_of(schedules), "shape of the learning rate after the warm-up"),
        KEY(optim.warmup_steps, at_least(0), "linear warm-up, in steps or \"5%\" of the schedule"),
        KEY(optim.min_lr_ratio, within(0, 1), "last learning rate as a share of optim.lr"),
        KEY(optim.schedule_steps, at_least(0), "length of the schedule; 0: train.steps"),
        KEY(optim.betas, within_below(0, 1), "decay of the first and second moment"),
        KEY(optim.eps, above(0), "epsilon beside the root of the second moment"),
        KEY(optim.weight_decay, at_least(0), "decoupled weight decay (matrices only)"),
        KEY(optim.grad_clip, at_least(0),
            "largest global gradient norm; 0: no clipping, the default with stable-spam, which "
            "clips by itself"),
        KEY(optim.amsgrad, {}, "divide by the root of the largest second moment so far"),
        KEY(optim.in_backward, {},
            "update each weight inside backward and free its gradient at once; needs grad_clip = "
            "0"),
        KEY(optim.stable_spam.gamma1, within_below(0, 1), "AdaGN: decay of the mean gradient norm"),
        KEY(optim.stable_spam.gamma2, within_below(0, 1), "AdaGN: decay of the mean squared norm"),
        KEY(optim.stable_spam.gamma3, within_below(0, 1), "AdaClip: decay of the largest entry"),
        KEY(optim.stable_spam.eta_min, within(0, 1), "last factor on beta1 and gamma1"),
        KEY(optim.stable_spam.reset_interval, at_least(0),
            "steps between momentum resets; 0: never"),
        KEY(optim.stable_spam.total_steps, at_least(0),
            "length of the beta1 / gamma1 schedule; 0: none"),
        KEY(optim.stable_spam.adaclip, {}, "AdaClip: shrink entries above their usual largest"),
        KEY(optim.stable_spam.adagn, {}, "AdaGN: bring each gradient to its usual norm"),
        KEY(optim.stable_spam.compat, one_of(spam_variants),
            "official: with the resets of the authors' code"),

        KEY(precision.recipe, a_recipe(recipes_and_snip),
            "recipe of every block linear, or \"snip\""),
        KEY(precision.head, a_recipe(recipes_and_snip),
            "recipe of the output head; \"snip\": planned like the other layers. Default: fp32 "
            "when "
            "precision.recipe is, else bf16"),
        KEY(precision.plan, {},
            "plan to train with: a plan file, a checkpoint, or the folder of a run; empty: none"),
        KEY(precision.freeze_plan, {},
            "no new plans: that of precision.plan (or of the checkpoint) stays. Default: true with "
            "precision.plan, else false"),
        KEY(precision.require_native, {}, "refuse to run what this machine can only emulate"),
        KEY(precision.snip.method, one_of(plan::planner_methods), "how a plan is made"),
        KEY(precision.snip.schedule, one_of(plan::schedule_names),
            "target over time: constant; article: 1000 steps of BF16, 0.3, 0.1 more every 5000 "
            "steps up to 0.8, frozen in the last 10 % (each by its own key); quality-held: the "
            "largest up to max_target under damage_bound. Default: article when target_increment "
            "is given"),
        KEY(precision.snip.target, within(0, 1), "least efficiency of the first plan"),
        KEY(precision.snip.efficiency, one_of(plan::efficiency_names),
            "what the target is a share of: FLOPs in FP4, BF16 time saved on ideal hardware (8 bit "
            "1/2, 4 bit 3/4), seconds as profiled, or bytes of the packed copies"),
        KEY(precision.snip.target_increment, within(0, 1),
            "article: added to the target at each increment; 0.1 when schedule = \"article\""),
        KEY(precision.snip.increment_every, at_least(1), "steps between increments of the target"),
        KEY(precision.snip.max_target, within(0, 1), "the target never exceeds it"),
        KEY(precision.snip.damage_bound, at_least(0),
            "quality-held: most predicted loss divergence, as a share of the loss"),
        KEY(precision.snip.hysteresis, within_below(0, 1),
            "a new plan replaces one that still reaches the target only when it is predicted to "
            "cost this much less; 0: always"),
        KEY(precision.snip.update_interval, at_least(1), "steps between measurements"),
        KEY(precision.snip.warmup_steps, at_least(0),
            "steps before the first measurement, or \"5%\"; 1000 when schedule = \"article\""),
        KEY(precision.snip.freeze_fraction, within(0, 1), "share at the end without new plans"),
        KEY(precision.snip.swap_delay, at_least(0),
            "steps from a measurement to its plan; 0: 5, or update_interval when that is shorter"),
        KEY(precision.snip.options, a_recipe(),
            "recipes to choose from; all of bf16, fp8 and fp4 only with efficiency = "
            "\"time-saved\" (as FP4 share BF16 counts like FP8 and does less damage)"),
        KEY(precision.snip.granularity, one_of(plan::granularity_names),
            "one recipe for each of the three GEMMs of a layer, or one for all"),
        KEY(precision.snip.coupled, {},
            "what gets the same recipe: layer types of a block, \"gate_proj+up_proj\", or slots of "
            "a layer, \"dgrad+wgrad\""),
        KEY(precision.snip.stages, within(0, 10000),
            "pipeline stages, each of which must reach the target by itself: their number (blocks "
            "are "
            "spread evenly), or the first block of each, [0, 4, 8]"),
        KEY(precision.snip.profile, {},
            "times of this machine (bench --profile), for efficiency = \"seconds\"; empty: none"),
        KEY(precision.snip.loss_weight, at_least(0), "weight of the loss divergence"),
        KEY(precision.snip.weight_weight, at_least(0), "weight of the weight divergence"),
        KEY(precision.snip.estimator, one_of(estimators), "how the loss divergence is estimated"),
        KEY(precision.snip.labels, one_of(label_kinds),
            "fisher, gradient-output, taylor: gradients of the data's labels, or of labels drawn "
            "from "
            "the model (one more pass)"),
        KEY(precision.snip.probes, one_of(probe_kinds),
            "passes with added noise that measure how errors spread"),
        KEY(precision.snip.probe_scale, above(0), "size of the noise relative to the tensor"),
        KEY(precision.snip.squared, {},
            "sum the squares of the predicted damages instead of the damages"),
        KEY(precision.snip.solve_seconds, above(0), "time limit of the solver"),

        KEY(precision.control.noise_ratio, at_least(0),
            "noise guard: raise the wgrad of layers whose |g| / |g_q - g| falls below it; 1.732 is "
            "the published bound; 0: off. Costs a GEMM per layer in measuring steps"),
        KEY(precision.control.noise_decay, within_below(0, 1),
            "noise guard: weight of earlier measurements in the running mean"),
        KEY(precision.control.spike_sigma, at_least(0),
            "spike guard: higher precision when loss or gradient norm lies so many deviations "
            "above its running mean; 0: off"),
        KEY(precision.control.spike_hold, at_least(1), "spike guard: for so many steps"),
        KEY(precision.control.spike_share, within_above(0, 1),
            "spike guard: for this share of the quantised FLOPs, most damaging layers first"),
        KEY(precision.control.spike_roll_back, {},
            "spike guard: go back to the last checkpoint of checkpoint.every as well"),
        KEY(precision.control.adjust_step, within(0, 1),
            "loss adjustment: move the target by so much, down when the loss stops falling, up "
            "while it falls; 0: off"),
        KEY(precision.control.adjust_window, at_least(1),
            "loss adjustment: steps whose mean loss is compared with that of the steps before"),
        KEY(precision.control.adjust_progress, within_below(0, 1),
            "loss adjustment: relative fall from window to window that is enough"),
        KEY(precision.control.adjust_range, within(0, 1),
            "loss adjustment: the target stays this close to its schedule"),
        KEY(precision.control.ramp_steps, at_least(0),
            "progressive warm-up: after snip.warmup_steps the share of the layers that follow the "
            "plan grows for so many steps, or \"5%\"; 0: off"),
        KEY(precision.control.tail_steps, at_least(0),
            "forward pass in high precision in the last so many steps, or \"5%\"; 0: off"),
        KEY(precision.control.tail_recipe, a_recipe(),
            "least precise recipe of fprop in these steps"),

        KEY(checkpoint.every, at_least(0), "steps between checkpoints; 0: only at the end"),
        KEY(checkpoint.keep, at_least(1), "newest checkpoints that are kept"),
        KEY(checkpoint.keep_every, at_least(0),
            "checkpoints of every this many steps stay; 0: none"),
        KEY(checkpoint.resume, one_of_or(resumes, "a checkpoint folder"), "where to continue from"),

        KEY(log.stats, {}, "write the statistics of every layer to stats.jsonl"),
    };
    return table;
}

const std::vector<Key<Config::Rule>>& rules() {
    static const std::vector<Key<Config::Rule>> table{
        RULE_KEY(match, {},
                 "layers by name, e.g. \"model.layers.0.*\"; the last match wins. May be written "
                 "`layers`"),
        RULE_KEY(recipe, a_recipe(), "their recipe; the planner leaves them alone"),
        RULE_KEY(slot, one_of(slots), "only this GEMM; empty: all three"),
    };
    return table;
}

#undef KEY
#undef RULE_KEY

}  // namespace

std::span<const Key<Config>> config_keys() { return keys(); }
std::span<const Key<Config::Rule>> rule_keys() { return rules(); }

const Key<Config>* find_key(std::string_view path) {
    for (const Key<Config>& key : keys()) {
        if (key.path == path) return &key;
    }
    return nullptr;
}

std::vector<std::string> section_names() {
    std::vector<std::string> names;
    for (const Key<Config>& key : keys()) {
        for (std::size_t dot = key.path.find('.'); dot != key.path.npos;
             dot = key.path.find('.', dot + 1)) {
            const std::string_view section = key.path.substr(0, dot);
            if (std::find(names.begin(), names.end(), section) == names.end()) {
                names.emplace_back(section);
            }
        }
    }
    return names;
}

bool is_section(std::string_view path) {
    for (const Key<Config>& key : keys()) {
        if (key.path.size() > path.size() && key.path.starts_with(path) &&
            key.path[path.size()] == '.') {
            return true;
        }
    }
    return false;
}

}  // namespace subbyte::train
