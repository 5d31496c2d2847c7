// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/train/plan_checkpoint.h"

namespace subbyte::train {

struct ImprovementOptions {
    int remeasure = 0;    // how often to measure around the best plan and solve again
    int evaluations = 0;  // of the loss, to search from there (plan/refine.h)
};

// Betters a solved plan by its true loss on the measured batches of the checkpoint; it reaches the
// same target. First the statistics are measured again with the plan in force, and the plan that
// they give is kept when its loss is lower, until one is not; then the search begins, led by the
// statistics that the best plan came from. With one recipe per GEMM the loss judges fprop alone:
// dgrad and wgrad follow from what their damage is predicted to be, under the same target. The
// numbers of the result are those of `statistics`. Of the options method and target are those of
// the plan. Plans of methods that look at no statistics stay as they are. Errors as
// measure_around() and refine_selection().
void improve_plan(PlannedCheckpoint& checkpoint, const plan::ModelStatistics& statistics,
                  plan::PlannerOptions planner, const ImprovementOptions& options,
                  SolvedPlan& solved);

}  // namespace subbyte::train
