// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/slot.h"

namespace subbyte::plan {

// What one statistics iteration knows about one layer: plain numbers, no tensors. All norms are
// Frobenius norms. T tokens, K inputs, N outputs.
struct LayerStatistics {
    double x = 0, w = 0, y = 0, g = 0;  // |X|, |W|, |Y|, |dL/dY|
    double dx = 0, dw = 0;              // |dL/dX|, |dL/dW|
    double t = 0, k = 0, n = 0;         // rows of X, inputs, outputs

    // Per candidate recipe name: norms of the quantisation errors of the three tensors. Every
    // tensor is read by two GEMMs, each with its own spec and along its own axis; an operand below
    // that was left unmeasured counts like the other GEMM's. Operands of BF16 and above have no
    // error: BF16 is what errors are counted from.
    struct Errors {
        double ex = 0, ew = 0, eg = 0;                 // X and W of fprop, G of dgrad
        std::optional<double> ew_dgrad{};              // W of dgrad
        std::optional<double> eg_wgrad{}, ex_wgrad{};  // G and X of wgrad
        std::optional<double> first_order{};           // <dL/dX, E_X> + <dL/dW, E_W>
        // Of E_Y = Q(X) Q(W)^T - X W^T, with G = dL/dY; estimated from a sample of the tokens.
        struct OutputError {
            double squared = 0;   // |E_Y|^2
            double elements = 0;  // sum over tokens and outputs of G^2 E_Y^2
            double tokens = 0;    // sum over tokens of <G_t, E_Y,t>^2
        };
        std::optional<OutputError> output{};

        // The errors of a GEMM's operands A and B.
        std::array<double, 2> of(Slot slot) const;
    };
    std::map<std::string, Errors> errors;

    std::optional<double> outer{};      // sum over tokens of |G_t|^2 |X_t|^2
    std::optional<double> curvature{};  // (L(Y + e) + L(Y - e) - 2 L(Y)) / |e|^2, e noise

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

// The statistics of several steps as those of one: root mean squares of norms and gains, means of
// everything that is linear or squared already. All have the same layers and measurements; gains
// and curvature may be there in some only. Error kUsage for none, or for different models.
ModelStatistics average(const std::vector<ModelStatistics>& steps);

nlohmann::json to_json(const ModelStatistics& statistics);
ModelStatistics statistics_from_json(const nlohmann::json& json);  // Error kData

}  // namespace subbyte::plan
