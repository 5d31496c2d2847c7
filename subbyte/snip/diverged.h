// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::snip {

// The error kDiverged of a measuring step whose loss is not finite: names the first tensor that is
// not, in the order of computation (forward through the layers, then backward), its layer, and the
// step.
Error diverged(std::int64_t step, double loss, const plan::LayerTable& table,
               const std::vector<plan::LayerStatistics>& layers);

}  // namespace subbyte::snip
