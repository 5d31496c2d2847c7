// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/plan/cost_model.h"
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

// Cuts the blocks into `stages` runs of consecutive blocks, one per pipeline stage, and writes them
// into the table. Going from the first stage to the last, each takes blocks until its GEMM FLOPs
// are nearest to the mean of what is left; every stage gets a block. Layers outside the blocks
// belong to the last stage (the head); their FLOPs count. Error kUsage for fewer than 1 stage or
// more stages than blocks.
void balance_stages(plan::LayerTable& table, int stages);

struct NamedCost {
    std::string name;  // "bf16", "fp8", "fp4", "plan"
    plan::CostEstimate cost;
};

// What a configuration needs, and a plan for it, from shapes alone.
struct ModelPlan {
    std::string model;  // preset, folder, or "llama"
    double parameters = 0;
    plan::LayerTable table;  // tokens: rows of one micro-batch
    std::int64_t micro_batches = 1, micro_batch_tokens = 0, tokens_per_step = 0;
    plan::PlanResult result;              // result.plan holds the candidates
    plan::Plan plan;                      // result.plan and the layers that no plan changes
    std::vector<NamedCost> costs;         // of one micro-batch
    std::vector<double> stage_fp4_share;  // of the plan, within each stage
    std::vector<std::string> notes;
};

// Plans the model of a configuration without its weights or data. The plan is precision.plan when
// given; else precision.snip.method makes it if it needs no statistics, or layer-type does. Errors:
// kUsage, kData as for config.json of model.path and plan files.
ModelPlan plan_model(const Config& config, int stages);

nlohmann::ordered_json to_json(const ModelPlan& plan);
nlohmann::ordered_json to_json(const plan::Cost& cost);

}  // namespace subbyte::train
