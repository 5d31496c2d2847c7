// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/realised.h"

namespace subbyte::snip {
namespace {

double factor(double real, double predicted) { return predicted == 0 ? 1.0 : real / predicted; }

}  // namespace

double Realised::loss_factor() const { return factor(real.loss, predicted.loss); }

double Realised::weight_factor() const { return factor(real.weight, predicted.weight); }

Realised realised(const Oracle& oracle, const plan::Plan& plan,
                  const plan::ModelStatistics& statistics, plan::LossEstimator estimator) {
    return {.predicted = plan::estimate_plan_divergence(statistics, plan, estimator),
            .real = oracle.of(plan)};
}

}  // namespace subbyte::snip
