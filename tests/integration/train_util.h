// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/train/trainer.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

namespace subbyte::train {

// Configurations name files as text.
struct TempFolder : subbyte::TempFolder {
    std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Every file below `folder` with its content.
inline std::map<std::string, std::string> snapshot(const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    if (!std::filesystem::exists(folder)) return files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
    }
    return files;
}

// Lines of made-up words.
inline std::string made_up_text(std::size_t bytes) {
    static constexpr const char* kWords[] = {"the", "heron", "walks", "over", "a",    "low",
                                             "red", "field", "and",   "then", "rain", "falls"};
    std::string text;
    std::uint32_t state = 12345;
    while (text.size() < bytes) {
        state = state * 1664525u + 1013904223u;
        text += kWords[(state >> 16) % 12];
        text += (state >> 28) == 0 ? '\n' : ' ';
    }
    text.resize(bytes);
    return text;
}

// A run of seconds: two blocks of width 32, bytes as tokens.
inline Config tiny_config(const TempFolder& folder, const std::string& recipe = "bf16") {
    const std::string text = folder / "text.txt";
    if (!std::filesystem::exists(text)) write_file(text, made_up_text(8000));
    Config config;
    config.run.dir = folder / "run";
    config.run.seed = 3;
    config.run.threads = 1;  // more would only wait for each other
    config.model.hidden_size = 32;
    config.model.intermediate_size = 48;
    config.model.layers = 2;
    config.model.heads = 2;
    config.model.max_position = 16;
    config.data.path = {text};
    config.data.tokenizer = "bytes";
    config.data.cache_dir = folder / "cache";
    config.data.val_fraction = 0.1;
    config.train.steps = 12;
    config.train.batch_size = 4;
    config.train.seq_len = 16;
    config.train.eval_every = 5;
    config.train.eval_batches = 2;
    config.optim.warmup_steps = {2, -1};
    config.precision.recipe = recipe;
    config.precision.snip.update_interval = 4;  // measured at 0, 4, 8: in force from 2, 6, 10
    config.precision.snip.swap_delay = 2;
    config.precision.snip.warmup_steps = {0, -1};
    config.precision.snip.target = 0.5;
    config.precision.snip.hysteresis = 0;  // every plan is put in force
    config.checkpoint.every = 0;
    config.checkpoint.keep = 100;
    return config;
}

// Remembers what a run told.
class Recorder : public Listener {
public:
    void on_step(const StepRecord& record) override {
        steps.push_back(record);
        if (record.step == stop_after) stop = true;
    }
    void on_eval(const EvalRecord& record) override { evals.push_back(record); }
    void on_plan(const SnipEvent& event, const plan::LayerTable&) override {
        plans.push_back(event);
    }
    void on_control(const ControlEvent& event) override { controls.push_back(event); }
    void on_checkpoint(std::int64_t, const std::string& dir) override {
        checkpoints.push_back(dir);
    }
    void on_message(const std::string& message) override { messages += message + "\n"; }

    std::vector<double> losses() const {
        std::vector<double> result;
        for (const StepRecord& step : steps) result.push_back(step.loss);
        return result;
    }

    std::vector<StepRecord> steps;
    std::vector<EvalRecord> evals;
    std::vector<SnipEvent> plans;
    std::vector<ControlEvent> controls;
    std::vector<std::string> checkpoints;
    std::string messages;
    std::int64_t stop_after = -1;  // sets `stop` at the end of this step
    std::atomic<bool> stop{false};
};

// Runs to the end, or to the end of step `stop_after`.
inline RunEnd run(const Config& config, Recorder& recorder, std::int64_t stop_after = -1) {
    recorder.stop_after = stop_after;
    recorder.stop = false;
    Trainer trainer(config, recorder);
    return trainer.run(recorder.stop);
}

inline std::string checkpoint_of(const Config& config, std::int64_t step) {
    std::string digits = std::to_string(step);
    digits.insert(0, 8 - digits.size(), '0');
    return config.run.dir + "/checkpoints/step_" + digits;
}

// Everything that decides how a run goes on.
inline void expect_same_checkpoint(const std::string& a, const std::string& b) {
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "trainer_state.json",
                             "precision.json", "config.json"}) {
        const std::string left = read_file(a + "/" + name);
        EXPECT_FALSE(left.empty()) << a << "/" << name;
        EXPECT_TRUE(left == read_file(b + "/" + name))
            << a << " and " << b << " differ in " << name;
    }
}

}  // namespace subbyte::train
