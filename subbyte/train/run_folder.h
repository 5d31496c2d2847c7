// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "subbyte/data/tokenizer.h"
#include "subbyte/io/jsonl.h"
#include "subbyte/models/llama.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/train/config.h"
#include "subbyte/train/listener.h"

namespace subbyte::train {

// A checkpoint to continue from; its files were verified.
struct Resume {
    std::string dir;
    nlohmann::json trainer_state, precision;
};

// What one checkpoint holds besides the tensors of model and optimizer.
struct Snapshot {
    std::int64_t step = 0;
    const models::LlamaImpl& model;
    const data::Tokenizer* tokenizer = nullptr;  // may be null
    const optim::Optimizer& optimizer;
    const nlohmann::json& precision;
    const nlohmann::json& trainer_state;
};

// The folder of a run:
//
//   config.resolved.toml   log.jsonl   plans/step_00000105.json   stats.jsonl (log.stats)
//   checkpoints/step_00000500/
//       model.safetensors config.json tokenizer.model   as Hugging Face
//       optimizer.safetensors precision.json trainer_state.json manifest.json
//   summary.json                 what the run came to
class RunFolder {
public:
    // Touches nothing. Error kUsage when run.dir is empty.
    explicit RunFolder(const Config& config);

    const std::string& dir() const { return dir_; }
    // Whether a checkpoint folder lies in this run.
    bool holds(const std::string& checkpoint) const;

    // The checkpoint that checkpoint.resume asks for: "auto" the newest valid one (a defective one
    // is reported through `warn`), a path that one, "never" none. Error kData for a named
    // checkpoint that is damaged or missing, and for "auto" when there are checkpoints but none is
    // valid; kUsage for "never" in a folder that holds a run.
    std::optional<Resume> find_resume(const Config& config,
                                      const std::function<void(const std::string&)>& warn) const;

    // Creates the folder, saves the configuration and opens the log. Error kData.
    void open(const Config& config, std::int64_t first_step);

    void log(const RunStart& start);
    void log(const StepRecord& record);
    void log(const EvalRecord& record);
    void log(const SnipEvent& event, const plan::LayerTable& table);  // and plans/step_*.json
    void log(const ControlEvent& event);
    void log(const RunEnd& end, const plan::Plan& plan,
             const plan::LayerTable& table);                       // and summary.json
    void log_statistics(const plan::ModelStatistics& statistics);  // to stats.jsonl

    // The checkpoint of exactly this step, verified; empty when there is none. Error kData when it
    // is damaged.
    std::optional<Resume> find_step(std::int64_t step) const;
    // Says in the open logs that the run goes on from `step`: what they hold of later steps counts
    // no more.
    void take_back_to(std::int64_t step);

    // Saves a checkpoint and removes old ones as [checkpoint] says; gives its folder. Error kData
    // with the earlier checkpoints intact.
    std::string save(const Snapshot& snapshot);

private:
    std::string dir_;
    std::int64_t keep_, keep_every_;
    std::unique_ptr<io::JsonlWriter> log_, statistics_;
};

// Parameters and optimizer state of a checkpoint. Error kData: another model, another optimizer.
void restore_parameters(const Resume& resume, models::LlamaImpl& model);
void restore_optimizer(const Resume& resume, optim::Optimizer& optimizer);

}  // namespace subbyte::train
