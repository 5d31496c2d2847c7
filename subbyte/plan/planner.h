// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/plan/divergence.h"
#include "subbyte/plan/efficiency.h"
#include "subbyte/plan/machine_profile.h"
#include "subbyte/plan/plan.h"
#include "subbyte/plan/selection.h"

namespace subbyte::plan {

// What is chosen for: a layer, with one recipe for its three GEMMs, or each GEMM by itself.
enum class Granularity { kLayer, kGemm };

// "layer", "gemm"; granularity_from_name is the inverse (Error kUsage with the nearest).
std::string_view granularity_name(Granularity granularity);
std::vector<std::string> granularity_names();
Granularity granularity_from_name(std::string_view name);

struct PlannerOptions {
    std::string method = "snip";                     // see planner_methods()
    std::vector<std::string> recipes{"fp8", "fp4"};  // options of every candidate layer
    double target = 0.3;                             // least efficiency, 0..1
    Efficiency efficiency = Efficiency::kFp4Share;
    std::shared_ptr<const MachineProfile> profile{};  // for Efficiency::kSeconds
    Granularity granularity = Granularity::kGemm;
    // What must get the same recipe: types of layers of one block, "q_proj+k_proj+v_proj", or, with
    // Granularity::kGemm, slots of one layer, "dgrad+wgrad".
    std::vector<std::string> coupled{};
    double loss_weight = 1.0, weight_weight = 2.0;  // Q = a * DL + b * DW
    LossEstimator estimator = LossEstimator::kNormOnly;
    // snip: the sum of Q^2, since errors that are independent add up as squares; false: the sum of
    // Q.
    bool squared = true;
    // Statistics of a model with other blocks: a candidate takes those of the layer of its type at
    // the same relative depth. An assumption, and the notes say so.
    bool stretch_statistics = false;
    std::uint64_t seed = 0;  // random
    Plan start{};            // where the search begins (the plan in force); no layers: anywhere
    // 1e-6: far below what the estimates can tell apart, and hard instances still end by
    // themselves.
    SelectionLimits limits{.seconds = 10.0, .gap = 1e-6};
};

// A plan and how it came about.
struct PlanResult {
    Plan plan;  // empty, and not to be put in force, when status is kNoSolution
    SelectionStatus status = SelectionStatus::kOptimal;
    Efficiency efficiency = Efficiency::kFp4Share;  // what target and reached are shares of
    double target = 0;                              // what was demanded
    double reached = 0;                             // efficiency of the plan
    bool relaxed = false;  // the target could not be reached; the nearest feasible one was taken
    // Sums of DL, DW and Q over the plan; 0 without statistics.
    double predicted_loss = 0, predicted_weight = 0, predicted = 0;
    double objective = 0;  // what the method minimised; 0 for the methods that follow an order
    double gap = 0, seconds = 0;

    // One pipeline stage: its share of the candidates' work, and which efficiency it was asked for
    // (after relaxing) and has, as shares of its own work.
    struct Stage {
        double work = 0, target = 0, reached = 0;
    };
    std::vector<Stage> stages;
    std::vector<std::string>
        notes;  // decisions worth telling (relaxation, time limit, unmeasured layers)

    // False: the time limit came first and the plan in force stays.
    bool usable() const { return status != SelectionStatus::kNoSolution; }
};

// snip, uniform, random, min-abs-err, min-rel-err, layer-type, layer-id, and the loss estimators
std::vector<std::string> planner_methods();
bool needs_statistics(const std::string& method);  // it looks at measurements
// What has to be measured besides norms to plan by a method, DL being that of `estimator`.
Needs needs_of(const std::string& method, LossEstimator estimator);

// The largest target that a plan meets in every stage, by the efficiency of the options; 1 without
// candidates. Error kUsage as EfficiencyModel.
double met_target(const Plan& plan, const LayerTable& table, const PlannerOptions& options);

// Makes a plan that gives every candidate of the table one of the recipes.
//   snip          least sum of Q^2 (or Q, see `squared`) over the layers under the budget
//   min-abs-err   the same with |E_X| + |E_W| + |E_G|
//   min-rel-err   the same with |E_X|/|X| + |E_W|/|W| + |E_G|/|G|
//   norm-only, fisher, ...         (estimator_names()) least sum of DL alone, by that estimator; of
//                 plans whose DL is the same, the least sum of DW
//   random, layer-type, layer-id   fixed orders (baselines.h): layers change from the least to the
//                 most efficient recipe in that order until the budget is reached
//   uniform       the recipe with the fewest bits everywhere
// With Granularity::kGemm the sums are over GEMMs: Q and DW as estimate_slot_divergence() splits
// them, local errors those of the two operands, and DL all in fprop. So an estimator gives dgrad
// and wgrad what saves most before it touches a fprop, by DW among themselves.
// With several pipeline stages every stage must reach the target by itself (its share of the work
// times the target). A target beyond reach is relaxed, stage by stage, to the largest that can be
// reached. `statistics` may be empty (no layers) for uniform, random, layer-type and layer-id; its
// layers are found by name, and shapes, candidates and stages are those of `table`. Of equal plans
// see solve_selection(). Errors: kUsage for unknown methods or recipes, numbers out of range,
// couplings that name nothing, and missing statistics; kDiverged for non-finite statistics.
PlanResult make_plan(const LayerTable& table, const ModelStatistics& statistics,
                     const PlannerOptions& options);

// The same about a plan that is there already; its method is kept, its solver's numbers are 0.
// Error kUsage also when a unit of the options has a recipe that is none of theirs.
PlanResult describe_plan(const Plan& plan, const LayerTable& table,
                         const ModelStatistics& statistics, const PlannerOptions& options);

}  // namespace subbyte::plan
