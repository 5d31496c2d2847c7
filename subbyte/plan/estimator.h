// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/plan/statistics.h"

namespace subbyte::plan {

// How the change of the loss is predicted when the operands of one layer's fprop are quantised.
// With G = dL/dY of the mean loss of T tokens and E_Y = Q(X) Q(W)^T - X W^T:
enum class LossEstimator {
    kNormOnly,        // +- sqrt(|dX|^2 |E_X|^2 / (T K) + |dW|^2 |E_W|^2 / (N K))
    kFirstOrder,      // <dX, E_X> + <dW, E_W>, on all tokens
    kSecondOrder,     // norm-only, and c |E_Y|^2 / 2 with c = (L(Y+e) + L(Y-e) - 2 L(Y)) / |e|^2
                      // of noise e in Y, and the norm formula of divergence.h for |E_Y|
    kGradientOutput,  // T/2 sum_tn G_tn^2 E_Y,tn^2: ModelOpt's AutoQuantize score in units of loss
    kFisher,          // T/2 sum_t <G_t, E_Y,t>^2: the Fisher matrix of every token's output
    kHessianTrace,    // 1/2 (tr F_W / (N K) |E_W|^2 + tr F_X / (T K) |E_X|^2), F the Fisher matrix:
                      // HAWQ-V2's mean trace (1911.03852) without its power iteration
    kTaylor,          // first-order + fisher: <dX, E_X> + <dW, E_W> + T/2 sum_t <G_t, E_Y,t>^2
};

std::string_view estimator_name(LossEstimator estimator);
std::vector<std::string> estimator_names();
std::optional<LossEstimator> find_estimator(std::string_view name);
LossEstimator estimator_from_name(std::string_view name);  // Error kUsage with the nearest name

// What has to be measured for an estimator besides norms.
struct Needs {
    bool first_order = false;  // LayerStatistics::Errors::first_order
    bool outputs = false;      // LayerStatistics::Errors::output
    bool outer = false;        // LayerStatistics::outer
    bool curvature = false;    // LayerStatistics::curvature, by the noise probes

    friend Needs operator|(const Needs& a, const Needs& b) {
        return {a.first_order || b.first_order, a.outputs || b.outputs, a.outer || b.outer,
                a.curvature || b.curvature};
    }
};
Needs needs_of(LossEstimator estimator);

// A predicted change of the loss: its expectation, and the standard deviation around it. Over
// layers that are quantised together expectations add up, and the squares of deviations.
struct LossChange {
    double shift = 0, spread = 0;
    double size() const;  // root mean square
};

// Error kUsage, with the layer's name, when the statistics lack what the estimator needs.
LossChange loss_change(const LayerStatistics& layer, const std::string& layer_name,
                       const std::string& recipe, LossEstimator estimator);

// How the loss changes when a layer goes from one recipe to another, every other layer as it was
// when the statistics were measured: the step along the gradient there, and half of Fisher's
// curvature of both errors, taken as independent. spread: norm-only's of both, what the gradient's
// own noise can do on the measured tokens. Needs what kTaylor needs. Errors as loss_change().
LossChange loss_change_between(const LayerStatistics& layer, const std::string& layer_name,
                               const std::string& from, const std::string& to);

// Local quantisation errors, which know nothing of the loss, of the two operands of a GEMM; halved,
// since two GEMMs read every tensor; relative: each divided by the norm of its tensor. With
// `own_operands` they are those of the operands as this GEMM quantises them; otherwise every tensor
// has one error, X and W that of fprop and G that of dgrad.
double local_error(const LayerStatistics& layer, const LayerStatistics::Errors& errors, Slot slot,
                   bool relative, bool own_operands);

// The sum over the slots, every tensor with one error, |E_X| + |E_W| + |E_G|: [layer][recipe].
// Layers that are no candidates cost 0. Errors as quantisation_errors().
std::vector<std::vector<double>> local_errors(const ModelStatistics& statistics,
                                              const std::vector<std::string>& recipes,
                                              bool relative);

}  // namespace subbyte::plan
