// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_suggest.h"

#include <algorithm>
#include <cctype>

#include "subbyte/core/nearest.h"
#include "subbyte/train/config_schema.h"

namespace subbyte::train {
namespace {

struct Alias {
    std::string_view path;
    std::vector<std::string_view> names;
};

// What users of other trainers write (Hugging Face, torchtitan, litgpt, nanoGPT, axolotl).
const std::vector<Alias>& key_aliases() {
    static const std::vector<Alias> table{
        {"run.dir", {"output_dir", "out_dir", "output", "run_dir", "work_dir"}},
        {"run.name", {"experiment", "run_name", "wandb_run_name"}},
        {"run.seed", {"random_seed"}},
        {"run.threads", {"num_threads", "n_threads", "nthreads", "cpus", "workers"}},
        {"model.preset", {"size", "model", "model_size", "architecture"}},
        {"model.path", {"model_name", "model_name_or_path", "pretrained", "base_model"}},
        {"model.hidden_size", {"hidden", "dim", "d_model", "n_embd", "embed_dim", "width"}},
        {"model.intermediate_size", {"ffn_size", "ffn_dim", "d_ff", "mlp_size", "hidden_dim"}},
        {"model.layers", {"n_layers", "num_layers", "num_hidden_layers", "n_layer", "depth"}},
        {"model.heads", {"n_heads", "num_heads", "num_attention_heads", "n_head"}},
        {"model.kv_heads", {"n_kv_heads", "num_kv_heads", "num_key_value_heads"}},
        {"model.tie_embeddings", {"tie_word_embeddings", "tied", "weight_tying"}},
        {"model.max_position", {"max_position_embeddings"}},
        {"model.norm_eps", {"rms_norm_eps", "layer_norm_eps"}},
        {"data.path", {"dataset", "dataset_path", "train_file", "train_data", "corpus", "text"}},
        {"data.val_path", {"val_file", "validation", "valid_path", "eval_path", "val_data"}},
        {"data.val_fraction", {"val_split", "val_ratio", "validation_fraction", "test_size"}},
        {"data.vocab_size", {"vocab"}},
        {"train.steps",
         {"max_steps", "num_steps", "total_steps", "iterations", "max_iters", "train_steps",
          "num_training_steps", "epochs", "num_train_epochs"}},
        {"train.batch_size",
         {"batch", "bs", "global_batch_size", "micro_batch_size", "per_device_train_batch_size"}},
        {"train.seq_len",
         {"sequence_length", "sequence_len", "context_length", "context", "block_size",
          "max_seq_len", "max_length", "seq_length"}},
        {"train.grad_accum",
         {"accumulation", "accumulate", "grad_accum_steps", "gradient_accumulation",
          "gradient_accumulation_steps"}},
        {"train.recompute",
         {"checkpoint_activations", "activation_checkpointing", "gradient_checkpointing",
          "grad_checkpoint", "recomputation"}},
        {"train.activations",
         {"activation_precision", "activation_compression", "saved_activations",
          "keep_activations"}},
        {"train.eval_every", {"eval_interval", "eval_steps", "val_every", "eval_freq"}},
        {"train.eval_batches", {"eval_iters", "eval_max_batches"}},
        {"train.log_every", {"log_interval", "logging_steps", "log_freq"}},
        {"optim.name", {"optimizer", "optimiser"}},
        {"optim.lr", {"learning_rate", "max_lr", "peak_lr", "base_lr"}},
        {"optim.min_lr_ratio", {"min_lr", "final_lr_ratio", "lr_min_ratio"}},
        {"optim.schedule", {"lr_scheduler", "lr_scheduler_type", "scheduler", "lr_schedule"}},
        {"optim.warmup_steps", {"warmup", "warmup_ratio", "num_warmup_steps", "warmup_iters"}},
        {"optim.schedule_steps", {"lr_decay_iters", "decay_steps", "lr_decay_steps"}},
        {"optim.betas", {"beta", "beta1", "beta2", "adam_beta1", "adam_beta2", "momentum"}},
        {"optim.eps", {"epsilon", "adam_epsilon", "adam_eps"}},
        {"optim.weight_decay", {"wd", "decay"}},
        {"optim.grad_clip",
         {"clip", "max_grad_norm", "max_norm", "gradient_clip", "grad_clipping", "clip_grad",
          "gradient_clipping", "gradient_clip_val"}},
        {"precision.recipe", {"dtype", "mixed_precision", "torch_dtype", "format"}},
        {"precision.snip.target", {"budget", "efficiency", "efficiency_target", "fp4_share"}},
        {"precision.snip.options", {"formats", "recipes", "candidates"}},
        {"checkpoint.every", {"save_every", "save_steps", "save_interval", "checkpoint_every"}},
        {"checkpoint.keep", {"save_total_limit", "keep_last", "max_checkpoints"}},
        {"checkpoint.resume", {"resume_from", "resume_from_checkpoint", "init_from", "continue"}},
    };
    return table;
}

const std::vector<Alias>& section_aliases() {
    static const std::vector<Alias> table{
        {"run", {"system", "general", "global", "experiment"}},
        {"model", {"network", "architecture"}},
        {"data", {"dataset", "datasets", "corpus"}},
        {"train", {"training", "trainer", "loop"}},
        {"optim", {"optimizer", "optimiser", "optimization", "optimizers"}},
        {"optim.stable_spam", {"stable_spam", "stablespam", "spam", "optim.stablespam"}},
        {"precision", {"quantization", "quantisation", "quant", "mixed_precision", "dtype"}},
        {"precision.snip", {"snip", "planner", "plan"}},
        {"precision.rule", {"rule", "rules", "precision.rules"}},
        {"checkpoint", {"checkpoints", "checkpointing", "save"}},
        {"log", {"logging", "logs", "logger"}},
    };
    return table;
}

std::string normalised(std::string_view name) {
    std::string result(name);
    for (char& c : result) {
        c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
}

std::string_view leaf(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view section_of(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == path.npos ? std::string_view() : path.substr(0, dot);
}

void add_alias(const std::vector<Alias>& table, const std::string& name,
               std::vector<std::string>& found) {
    for (const Alias& alias : table) {
        if (std::find(alias.names.begin(), alias.names.end(), name) != alias.names.end()) {
            found.emplace_back(alias.path);
        }
    }
}

}  // namespace

std::vector<std::string> suggest_key(std::string_view section, std::string_view name) {
    const std::string wanted = normalised(name);
    std::vector<std::string> found;
    for (const Key<Config>& key : config_keys()) {
        if (leaf(key.path) == wanted) found.emplace_back(key.path);
    }
    if (found.empty()) add_alias(key_aliases(), wanted, found);
    if (!found.empty()) return found;

    // Spelling: first among the neighbours, then everywhere.
    std::vector<std::string> neighbours, everywhere;
    for (const Key<Config>& key : config_keys()) {
        everywhere.emplace_back(leaf(key.path));
        if (section_of(key.path) == section) neighbours.emplace_back(leaf(key.path));
    }
    std::string best = nearest(wanted, neighbours);
    if (!best.empty()) return {std::string(section) + "." + best};
    best = nearest(wanted, everywhere);
    for (const Key<Config>& key : config_keys()) {
        if (leaf(key.path) == best) found.emplace_back(key.path);
    }
    return found;
}

std::string suggest_section(std::string_view path) {
    const std::string wanted = normalised(path);
    std::vector<std::string> found;
    add_alias(section_aliases(), wanted, found);
    if (found.empty()) {
        std::vector<std::string> names = section_names();
        names.emplace_back(kRulePath);
        for (const std::string& name : names) {
            if (leaf(name) == leaf(wanted)) found.push_back(name);
        }
        if (found.empty()) found.push_back(nearest(wanted, names));
    }
    return found.front();
}

}  // namespace subbyte::train
