// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/optim/adam_kernel.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::optim {

enum class StableSpamCompat {
    kClean,     // the equations as published; resets happen before the moments are used
    kOfficial,  // the order of operations of the authors' program, for replication (see StableSpam)
};

struct StableSpamOptions {
    double lr = 1e-3;                // >= 0
    double beta1 = 0.9;              // [0, 1)
    double beta2 = 0.999;            // [0, 1)
    double eps = 1e-8;               // >= 1.2e-38
    double weight_decay = 0;         // >= 0, decoupled
    double gamma1 = 0.7;             // [0, 1), or -1: beta1. AdaGN, average of the norm
    double gamma2 = 0.9;             // [0, 1). AdaGN, average of the squared norm
    double gamma3 = 0.999;           // [0, 1). AdaClip, average of the largest entry
    std::int64_t update_gap = 1000;  // momentum reset every so many steps; 0: never
    std::int64_t total_steps = 0;    // length of the schedule of beta1 and gamma1; 0: no schedule
    double eta_min = 0.5;  // [0, 1], factor of beta1 and gamma1 at the end of the schedule
    StableSpamCompat compat = StableSpamCompat::kClean;
    bool adaclip = true;
    bool adagn = true;
    bool amsgrad = false;
    double max_grad_norm = 0;  // >= 0; 0: no clipping by global norm
};

// Stable-SPAM (Huang et al., arXiv 2502.17055): per tensor, with gradient g at its k-th update,
//   AdaClip  T = g3 T + (1-g3) max|g|;  T^ = T / (1-g3^k);  entries |g| > T^ become g / max|g| * T^
//   AdaGN    n = |g|;  mu, nu = averages of n and n^2 with g1 s and g2;
//            c = (mu / (1-(g1 s)^k)) / (sqrt(nu / (1-g2^k)) + eps);  g *= c / n  (n = 0: unchanged)
//   Adam     with beta1 s, decoupled decay
// every update_gap steps the moments are zeroed. s = eta_min + (1-eta_min)(1+cos(pi t/(total+1)))/2
// at the global step t; 1 without schedule.
//
// kClean: k never restarts; a reset zeroes the moments and Adam's count before they are used; t is
// held at total_steps after the end of the schedule. kOfficial: one counter for everything, set to
// 1 on a reset step after AdaClip and AdaGN used it; that step still uses the old moments and
// zeroes them afterwards (AMSGrad's maximum is kept); t is not held, so s rises again.
//
// T, mu and nu are doubles whatever the dtype of the parameter: averages in BF16 stall.
class StableSpam : public Optimizer {
public:
    // Error kUsage names the option, its value and its range.
    explicit StableSpam(std::vector<Parameter> parameters, const StableSpamOptions& options = {});

    const StableSpamOptions& options() const { return options_; }  // lr: the initial one

    std::string name() const override { return "stable-spam"; }
    at::Tensor preview(std::size_t i, const at::Tensor& grad) const override;

    // The derivative of the Adam step at the transformed gradient times the factors of AdaClip and
    // AdaGN, which are held constant: T^, max|g|, c and n move with g, but by one number for the
    // whole tensor.
    double update_sensitivity(std::size_t i, const at::Tensor& grad) const override;

    // Adds "compat"; per parameter k_stat, k_adam, T, mu, nu. The global step is "steps".
    NamedTensors state_tensors() const override;
    nlohmann::json state_numbers() const override;
    void load_state(const NamedTensors& tensors, const nlohmann::json& numbers) override;

    // s of the global step t.
    double beta_scale(std::int64_t t) const;

private:
    // Scalar statistics of one tensor.
    struct Statistics {
        std::int64_t k_stat = 0;  // updates behind T, mu, nu
        std::int64_t k_adam = 0;  // updates behind the moments
        double largest = 0;       // T
        double norm = 0;          // mu
        double squared_norm = 0;  // nu
    };
    struct State {
        Moments moments;  // undefined before the first update
        Statistics statistics;
    };
    // What AdaClip, AdaGN and the reset rule make of one gradient.
    struct Prepared {
        at::Tensor grad;    // after AdaClip
        double clip_limit;  // entries above were multiplied by
        double clip_ratio;  // this; 1: nothing was clipped
        AdamStep adam;      // grad_scale: the factor of AdaGN
        bool reset_before;  // zero the moments before the update,
        bool reset_after;   // or after it
    };

    void update(std::size_t i, const at::Tensor& grad, double scale, std::int64_t t) override;
    // Moves the statistics by one gradient.
    Prepared prepare(std::size_t i, Statistics& statistics, const at::Tensor& grad,
                     std::int64_t t) const;
    void advance(std::size_t i, State& state, const at::Tensor& weight, const at::Tensor& grad,
                 std::int64_t t) const;

    StableSpamOptions options_;
    std::vector<State> states_;  // one per parameter
};

}  // namespace subbyte::optim
