// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/plan/statistics.h"

namespace subbyte::plan {

// Whether the numbers can be planned with. Error kDiverged with the step, the layer and the tensor
// when one is not finite: the first of the step's own order, that is, forward through the layers
// (X, W, Y), then back (G, dX, dW). Error kUsage when table, layers and gains do not match.
void check_statistics(const ModelStatistics& statistics);

// Error kData that names the first difference when the statistics are not of the model with this
// table: the names and shapes of its layers.
void check_same_model(const ModelStatistics& statistics, const LayerTable& table);

}  // namespace subbyte::plan
