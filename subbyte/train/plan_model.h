// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/plan/cost_model.h"
#include "subbyte/plan/measured_times.h"
#include "subbyte/plan/planner.h"
#include "subbyte/train/config.h"

namespace subbyte::train {

// All linear layers of one type.
struct LayerType {
    std::string type;
    int layers = 0;
    bool candidate = false;  // the plan may choose for at least one of them
    bool same_shape = true;  // false: the shape is that of the first
    std::int64_t in_features = 0, out_features = 0;
    double parameters = 0;
    double flops_share = 0;  // of the GEMM FLOPs of all linear layers
};
std::vector<LayerType> layer_types(const plan::LayerTable& table);

struct NamedCost {
    std::string name;  // "bf16", "fp8", "fp4", "plan"
    plan::CostEstimate cost;
};

// How to plan for a configuration, beside what it says itself.
struct ModelPlanOptions {
    int stages = 1;                             // balanced, 1: as the configuration says; or
    std::vector<int> first_blocks;              // the first block of every stage
    std::vector<std::string> include, exclude;  // see choose_candidates()
    // Profile, weights, estimator, limits. The rest is that of the configuration.
    plan::PlannerOptions planner;
    plan::ModelStatistics statistics;  // no layers: none
};

// One pipeline stage under the plan, one micro-batch.
struct StagePlan {
    int first_block = -1, last_block = -1;  // -1: no block
    plan::Cost cost;
    double fp4_share = 0;
    double target = 0, reached = 0;  // of the efficiency, within the stage
};

// What a configuration needs, and a plan for it, from shapes and, when given, statistics.
struct ModelPlan {
    std::string model;  // preset, folder, or "llama"
    double parameters = 0;
    plan::LayerTable table;  // tokens: rows of one micro-batch
    std::int64_t micro_batches = 1, micro_batch_tokens = 0, tokens_per_step = 0;
    plan::PlanResult result;       // result.plan holds the candidates
    plan::Plan plan;               // result.plan and the layers that no plan changes
    std::vector<NamedCost> costs;  // of one micro-batch
    std::vector<StagePlan> stages;
    std::vector<plan::MeasuredTime> times;  // of the options; empty without a profile
    std::vector<std::string> notes;
};

// Plans the model of a configuration without its weights or data. The plan is precision.plan when
// given; else precision.snip.method makes it if it needs no statistics or they are given, or
// layer-type does. Errors: kUsage, kData as for config.json of model.path and plan files.
ModelPlan plan_model(const Config& config, const ModelPlanOptions& options);

nlohmann::ordered_json to_json(const ModelPlan& plan);
nlohmann::ordered_json to_json(const plan::Cost& cost);
nlohmann::ordered_json to_json(const plan::MeasuredTime& time);

}  // namespace subbyte::train
