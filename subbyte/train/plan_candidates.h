// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"

namespace subbyte::train {

// Makes the layers that a glob of `include` matches candidates (the head, "lm_head"), then those of
// `exclude` none. Error kUsage for a glob that matches no layer; the embedding has a reason of its
// own: a table look-up is no GEMM.
void choose_candidates(plan::LayerTable& table, const std::vector<std::string>& include,
                       const std::vector<std::string>& exclude);

}  // namespace subbyte::train
