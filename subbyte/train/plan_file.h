// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "subbyte/plan/plan.h"

namespace subbyte::train {

// Reads a plan from where a user has one:
//   a plan file (`subbyte plan --out`, or written by hand);
//   a file that holds one beside other things: RUN_DIR/plans/step_*.json, summary.json, a
//   checkpoint's precision.json;
//   a checkpoint folder: the plan that was in force;
//   a run folder: the plan in force at its end (summary.json), else its newest plan.
// Every name is checked, those of layers against `table`. Error kData that names file and entry.
plan::Plan load_plan(const std::string& path, const plan::LayerTable& table);
plan::Plan load_plan(const std::string& path);  // whatever the layers are called

}  // namespace subbyte::train
