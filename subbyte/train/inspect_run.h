// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/plan.h"

namespace subbyte::train {

// What re-planning cost, as the run itself measured it.
struct PlanningCost {
    int updates = 0;                // plans that were made
    std::int64_t interval = 0;      // steps between measurements; 0: not known
    double seconds = 0;             // of training: statistics, probes, waiting for the solver
    double statistics_seconds = 0;  // of these: statistics and probes
    double solve_seconds = 0;       // of the solver, which runs beside the training
    double share_of_training = 0;   // seconds / training time without them
    double step_seconds = 0;        // of the mean step, without them
    double share_at_500 = 0;        // seconds per update / (500 * step_seconds), as RunEnd says
    double statistics_share = 0, statistics_share_at_500 = 0;  // the same of statistics_seconds
};

// One run as its folder tells it. Numbers the folder does not hold are empty.
struct RunView {
    struct Evaluation {
        std::int64_t step = 0;
        std::optional<double> loss;  // empty: was not finite
    };
    struct PlanChange {
        std::int64_t step = 0;  // takes effect
        bool applied = false;
        int changed_slots = 0;
        double target = 0, reached = 0;
        std::string efficiency;          // what target and reached are shares of
        std::vector<std::string> notes;  // why it was kept out, relaxed ...
    };
    struct Decision {  // of a guard or an adjustment, see ControlEvent
        std::int64_t step = 0;
        std::string control, action, reason;
    };

    std::string dir, model, precision, optimizer;
    double parameters = 0;
    std::int64_t slots = 0;  // GEMMs of all linear layers
    std::int64_t step = 0, total_steps = 0;
    std::string state;           // "finished", "interrupted", "not finished"
    std::optional<double> loss;  // of the last step
    std::vector<Evaluation> evaluations;
    std::vector<PlanChange> plans;
    std::vector<Decision> decisions;
    std::optional<double> median_step_seconds, tokens_per_second;  // median of the applied steps
    std::optional<double> peak_memory_bytes, fp4_share, bits;      // the latter two: last step
    double train_seconds = 0;                                      // sum over the steps in force
    PlanningCost planning;
    plan::Plan plan;                 // in force at the end
    plan::LayerTable table;          // its layers; without summary.json names only
    std::vector<std::string> files;  // what is in the folder, relative
    std::vector<std::string> notices;

    std::optional<double> validation_loss() const;  // the last finite one
};

// Reads config.resolved.toml, log.jsonl, summary.json and plans/ of a run folder. Steps that a
// resume took back do not count; a torn last line and missing files are notices. Errors: kData when
// `dir` is no folder, holds no log.jsonl, or a file is damaged.
RunView read_run(const std::string& dir);

// One line of a comparison: empty where a run does not know.
struct ComparedNumber {
    std::string name, unit;
    std::optional<double> first, second;
    std::optional<double> difference_percent() const;  // of first against second
};
// validation loss, tokens/s, peak memory, FP4 share, bits.
std::vector<ComparedNumber> compare_runs(const RunView& first, const RunView& second);

// Middle of the values; mean of the two middle ones of an even number. Empty without values.
std::optional<double> median(std::vector<double> values);

nlohmann::ordered_json to_json(const RunView& run);
nlohmann::ordered_json to_json(const std::vector<ComparedNumber>& numbers);

}  // namespace subbyte::train
