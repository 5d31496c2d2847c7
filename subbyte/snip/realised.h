// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/plan/plan.h"
#include "subbyte/snip/oracle.h"

namespace subbyte::snip {

// What a whole plan was predicted to do, and what it does.
struct Realised {
    plan::Divergence predicted, real;

    // real / predicted: what predictions of the same estimator have to be multiplied by. 1 when
    // nothing was predicted.
    double loss_factor() const;
    double weight_factor() const;
};

// Runs the batches of the oracle in high precision and under the plan: two forward and backward
// passes each. Nothing is stepped, and the plan in force stays.
Realised realised(const Oracle& oracle, const plan::Plan& plan,
                  const plan::ModelStatistics& statistics, plan::LossEstimator estimator);

}  // namespace subbyte::snip
