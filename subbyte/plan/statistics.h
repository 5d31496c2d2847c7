// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"

namespace subbyte::plan {

// What one statistics iteration knows about one layer: plain numbers, no tensors. All norms are
// Frobenius norms. T tokens, K inputs, N outputs.
struct LayerStatistics {
    double x = 0, w = 0, y = 0, g = 0;  // |X|, |W|, |Y|, |dL/dY|
    double dx = 0, dw = 0;              // |dL/dX|, |dL/dW|
    double t = 0, k = 0, n = 0;         // rows of X, inputs, outputs

    // Per candidate recipe name: norms of the quantisation errors of the three tensors, and the
    // exact first-order terms <dL/dX, E_X> and <dL/dW, E_W> when measured.
    struct Errors {
        double ex = 0, ew = 0, eg = 0;
        double first_order = 0;
        bool has_first_order = false;
    };
    std::map<std::string, Errors> errors;

    double jacobian = 0;      // |d W_new / d g| through the optimizer
    double update_numel = 0;  // number of weights

    // Gains of an error at this layer to the weight gradient of layer j, as measured by noise
    // probes: backward[j] = |d(dW_j)| / |noise in dX|, forward[j] = |d(dW_j)| / |noise in Y|.
    // Empty: not measured.
    std::vector<double> backward, forward;
};

struct ModelStatistics {
    long step = 0;
    double loss = 0;
    LayerTable table;
    std::vector<LayerStatistics> layers;  // parallel to table
};

nlohmann::json to_json(const ModelStatistics& statistics);
ModelStatistics statistics_from_json(const nlohmann::json& json);  // Error kData

}  // namespace subbyte::plan
