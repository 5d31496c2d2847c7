// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/run_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "subbyte/core/error.h"
#include "subbyte/core/file.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/train/config_writer.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/run_records.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

// load_config() names the folder after the file; a configuration made in memory has to say it.
std::string run_dir(const Config& config) {
    if (!config.run.dir.empty()) return config.run.dir;
    throw Error(ErrorCode::kUsage, "run.dir is empty", "name the folder of the run");
}

Resume read_resume(const fs::path& folder) {
    return {folder.string(), io::read_json(folder / "trainer_state.json"),
            io::read_json(folder / "precision.json")};
}

}  // namespace

RunFolder::RunFolder(const Config& config)
    : dir_(run_dir(config)),
      keep_(config.checkpoint.keep),
      keep_every_(config.checkpoint.keep_every) {}

std::optional<Resume> RunFolder::find_resume(
    const Config& config, const std::function<void(const std::string&)>& warn) const {
    const std::string& how = config.checkpoint.resume;
    if (how != "auto" && how != "never") {
        io::verify_checkpoint(how);
        return read_resume(how);
    }
    const std::vector<io::CheckpointInfo> found = io::find_checkpoints(dir_);
    if (how == "never") {
        if (found.empty()) return std::nullopt;
        throw Error(
            ErrorCode::kUsage,
            fmt::format("{} already holds a run (checkpoint of step {}), and checkpoint.resume is "
                        "\"never\"",
                        dir_, found.back().step),
            "name another run.dir, or continue with checkpoint.resume = \"auto\"");
    }
    const std::optional<io::CheckpointInfo> latest =
        io::latest_valid_checkpoint(dir_, [&](const io::CheckpointInfo& bad) {
            warn(fmt::format("warning: {} is not used: {}", bad.folder.string(), bad.reason));
        });
    if (latest) return read_resume(latest->folder);
    if (!found.empty()) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: none of the {} checkpoints is valid: {}", dir_, found.size(),
                                found.back().reason),
                    "start anew with another run.dir, or remove the damaged folders");
    }
    return std::nullopt;
}

bool RunFolder::holds(const std::string& checkpoint) const {
    std::error_code error;  // a folder that is not there yet holds nothing
    return fs::equivalent(fs::path(checkpoint).parent_path(), io::checkpoints_folder(dir_), error);
}

void RunFolder::open(const Config& config, std::int64_t first_step) {
    make_folder(fs::path(dir_) / "plans");
    write_text(fs::path(dir_) / "config.resolved.toml", to_toml(config));
    log_ = std::make_unique<io::JsonlWriter>(fs::path(dir_) / "log.jsonl");
    if (config.log.stats) {
        statistics_ = std::make_unique<io::JsonlWriter>(fs::path(dir_) / "stats.jsonl");
    }
    if (first_step > 0) take_back_to(first_step);
}

void RunFolder::take_back_to(std::int64_t step) {
    log_->resume(step);
    if (statistics_) statistics_->resume(step);
}

std::optional<Resume> RunFolder::find_step(std::int64_t step) const {
    const fs::path folder = io::checkpoint_folder(dir_, step);
    if (!fs::is_directory(folder)) return std::nullopt;
    io::verify_checkpoint(folder);
    return read_resume(folder);
}

void RunFolder::log(const RunStart& start) { log_->write("run", record_of(start)); }
void RunFolder::log(const StepRecord& record) { log_->write("step", record_of(record)); }
void RunFolder::log(const EvalRecord& record) { log_->write("eval", record_of(record)); }

void RunFolder::log(const SnipEvent& event, const plan::LayerTable& table) {
    log_->write("plan", record_of(event));
    if (!event.applied) return;
    nlohmann::ordered_json json = record_of(event);
    json["plan"] = plan::to_json(event.result.plan);
    json["fp4_share"] = plan::fp4_share(event.result.plan, table);
    io::write_json(fs::path(dir_) / "plans" / fmt::format("step_{:08}.json", event.effective_at),
                   json);
}

void RunFolder::log(const ControlEvent& event) { log_->write("control", record_of(event)); }

void RunFolder::log(const RunEnd& end, const plan::Plan& plan, const plan::LayerTable& table) {
    nlohmann::ordered_json json = record_of(end);
    log_->write("end", json);
    json["plan"] = plan::to_json(plan);
    json["layers"] = layers_json(table);
    io::write_json(fs::path(dir_) / "summary.json", json);
}

void RunFolder::log_statistics(const plan::ModelStatistics& statistics) {
    if (statistics_)
        statistics_->write("stats",
                           {{"step", statistics.step}, {"statistics", plan::to_json(statistics)}});
}

std::string RunFolder::save(const Snapshot& snapshot) {
    io::CheckpointWriter writer(dir_, snapshot.step);
    writer.add_tensors("model.safetensors", named_parameters(snapshot.model), {{"format", "pt"}});
    writer.add_json("config.json", model_config_json(snapshot.model.config()));
    if (snapshot.tokenizer != nullptr) {
        for (const data::TokenizerFile& file : snapshot.tokenizer->files()) {
            writer.add_text(file.name, file.content);
        }
    }
    writer.add_tensors("optimizer.safetensors", snapshot.optimizer.state_tensors());
    writer.add_json("precision.json", snapshot.precision);
    nlohmann::json state = snapshot.trainer_state;
    state["optimizer"] = snapshot.optimizer.state_numbers();
    writer.add_json("trainer_state.json", state);
    const fs::path folder = writer.commit();
    io::prune_checkpoints(dir_, std::max<std::int64_t>(1, keep_), keep_every_);
    return folder.string();
}

void restore_parameters(const Resume& resume, models::LlamaImpl& model) {
    const models::LlamaConfig saved = read_model_config(resume.dir);
    const models::LlamaConfig& now = model.config();
    const auto differ = [&](const char* name, auto a, auto b) {
        if (a == b) return;
        throw Error(ErrorCode::kData,
                    fmt::format("{} is the checkpoint of another model: {} is {} there, {} in the "
                                "configuration",
                                resume.dir, name, a, b),
                    "name another run.dir, or give the model that the run was started with");
    };
    differ("vocab_size", saved.vocab_size, now.vocab_size);
    differ("hidden_size", saved.hidden_size, now.hidden_size);
    differ("intermediate_size", saved.intermediate_size, now.intermediate_size);
    differ("layers", saved.layers, now.layers);
    differ("heads", saved.heads, now.heads);
    differ("kv_heads", saved.kv_heads, now.kv_heads);
    differ("tie_embeddings", saved.tie_embeddings, now.tie_embeddings);
    differ("rope_theta", saved.rope_theta, now.rope_theta);
    differ("norm_eps", saved.norm_eps, now.norm_eps);
    const std::string path = resume.dir + "/model.safetensors";
    fill_parameters(model, io::SafetensorsFile::open(path).load_all(), path);
}

void restore_optimizer(const Resume& resume, optim::Optimizer& optimizer) {
    if (!resume.trainer_state.is_object() || !resume.trainer_state.contains("optimizer")) {
        throw Error(ErrorCode::kData, resume.dir + "/trainer_state.json: has no optimizer state");
    }
    optimizer.load_state(
        io::SafetensorsFile::open(resume.dir + "/optimizer.safetensors").load_all(),
        resume.trainer_state.at("optimizer"));
}

}  // namespace subbyte::train
