// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// W_new(g) of one AdamW step and its derivative against high-precision values.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "subbyte/ops/reduce.h"
#include "subbyte/optim/adamw.h"

namespace subbyte::optim {
namespace {

using nlohmann::json;

json load() {
    std::ifstream in(std::string(SUBBYTE_GOLDEN_DIR) + "/adamw_jacobian.json");
    return json::parse(in);
}

at::Tensor values(const json& x) {
    if (x.is_number()) return at::tensor({x.get<double>()}, at::kDouble);
    return at::tensor(x.get<std::vector<double>>(), at::kDouble);
}

// An AdamW whose next step is step `step` with the moments of the case.
struct Prepared {
    explicit Prepared(const json& c)
        : weight(values(c["W"]).set_requires_grad(true)),
          optimizer({{"w", weight}}, {.lr = c["lr"],
                                      .beta1 = c["b1"],
                                      .beta2 = c["b2"],
                                      .eps = c["eps"],
                                      .weight_decay = c["wd"]}) {
        const std::int64_t count = c["step"].get<std::int64_t>() - 1;
        json numbers = optimizer.state_numbers();
        numbers["steps"] = count;
        numbers["parameters"]["w"] = {{"count", count}};
        optimizer.load_state({{"w.m", values(c["m"])}, {"w.v", values(c["v"])}}, numbers);
    }
    at::Tensor weight;
    AdamW optimizer;
};

TEST(GoldenAdamWJacobian, Cases) {
    const json cases = load()["cases"];
    EXPECT_EQ(cases.size(), 40u);
    for (const json& c : cases) {
        SCOPED_TRACE(c.dump());
        Prepared p(c);
        const double g = c["g"], exact = c["abs_J"];
        const double w_new = c["W_new"], w_moved = c["W_new_perturbed"];
        EXPECT_NEAR(p.optimizer.update_sensitivity(0, values(g)), exact, 1e-9 * exact);
        EXPECT_NEAR(p.optimizer.preview(0, values(g)).item<double>(), w_new,
                    1e-9 * std::fabs(w_new));
        const double moved = g + c["perturbation"].get<double>();
        EXPECT_NEAR(p.optimizer.preview(0, values(moved)).item<double>(), w_moved,
                    1e-9 * std::fabs(w_moved));
        p.weight.mutable_grad() = values(g);
        p.optimizer.step();
        EXPECT_NEAR(p.weight.item<double>(), w_new, 1e-9 * std::fabs(w_new));
    }
}

TEST(GoldenAdamWJacobian, SpecialCases) {
    const json special = load()["special"];
    ASSERT_EQ(special.size(), 2u);
    Prepared zero(special[0]);
    EXPECT_EQ(zero.optimizer.update_sensitivity(0, values(special[0]["g"])), 0.0);
    EXPECT_DOUBLE_EQ(zero.optimizer.preview(0, values(0.0)).item<double>(),
                     0.5 * (1 - 1e-3 * 0.01));
    Prepared first(special[1]);
    const double exact = special[1]["abs_J"];
    // |J| is the small difference of two terms of size lr / |g|.
    EXPECT_NEAR(first.optimizer.update_sensitivity(0, values(special[1]["g"])), exact,
                1e-7 * exact);
}

TEST(GoldenAdamWJacobian, NormOnlyEstimateOfATensor) {
    const json c = load()["tensor"];
    Prepared p(c);
    const at::Tensor g = values(c["g"]), dg = values(c["dg"]);
    const double jacobian = p.optimizer.update_sensitivity(0, g);
    const double root = std::sqrt(static_cast<double>(g.numel()));
    EXPECT_NEAR(jacobian / c["J_norm"].get<double>(), 1, 1e-9);
    EXPECT_NEAR(jacobian * ops::norm(dg) / root / c["norm_only_estimate"].get<double>(), 1, 1e-9);
    const double exact =
        ops::difference_norm(p.optimizer.preview(0, g.add(dg)), p.optimizer.preview(0, g));
    EXPECT_NEAR(exact / c["exact_update_difference_norm"].get<double>(), 1, 1e-9);
}

}  // namespace
}  // namespace subbyte::optim
