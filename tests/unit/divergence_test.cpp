// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "plan_tables.h"
#include "subbyte/core/error.h"
#include "tests/error_of.h"

namespace subbyte::plan {
namespace {

LayerInfo info(const std::string& name) {
    LayerInfo layer;
    layer.name = name;
    return layer;
}

// Two layers with round numbers; the first is closer to the input.
ModelStatistics two_layers() {
    ModelStatistics statistics;
    statistics.step = 7;
    statistics.loss = 2.0;
    statistics.table = {info("first"), info("second")};
    LayerStatistics layer = round_numbers();
    layer.errors["fp8"] = {.ex = 0, .ew = 0, .eg = 0.01, .first_order = 0.25};
    layer.jacobian = 0.6;
    layer.update_numel = 144;
    layer.backward = {0, 0};
    layer.forward = {0, 0};
    statistics.layers = {layer, layer};
    return statistics;
}

double dw(const ModelStatistics& statistics, std::size_t layer) {
    return estimate_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly)[layer][0].weight;
}

TEST(Divergence, LossByHand) {
    // |dX|^2 |E_X|^2 / (T K) = 25 * 0.04 / 36; |dW|^2 |E_W|^2 / (N K) = 36 * 0.09 / 144; loss 2.
    const auto result =
        estimate_divergence(two_layers(), {"fp4", "bf16", "fp8", "fp32"}, LossEstimator::kNormOnly);
    ASSERT_EQ(result.size(), 2u);
    ASSERT_EQ(result[0].size(), 4u);
    EXPECT_NEAR(result[0][0].loss, std::sqrt(1.0 / 36 + 0.0225) / 2, 1e-15);
    EXPECT_NEAR(result[0][0].loss, 0.11211353372, 1e-10);
    EXPECT_EQ(result[0][1].loss, 0);  // the baseline
    EXPECT_EQ(result[0][1].weight, 0);
    EXPECT_EQ(result[0][2].loss, 0);    // no error in X and W
    EXPECT_GT(result[0][2].weight, 0);  // but in G
    EXPECT_EQ(result[0][3].weight, 0);
}

TEST(Divergence, FirstOrderLossIsTheMeasuredOne) {
    const auto result =
        estimate_divergence(two_layers(), {"fp4", "fp8", "bf16"}, LossEstimator::kFirstOrder);
    EXPECT_EQ(result[0][0].loss, 0.25);
    EXPECT_EQ(result[0][1].loss, 0.125);
    EXPECT_EQ(result[0][2].loss, 0);
    ModelStatistics negative = two_layers();
    negative.loss = -2.0;  // normalised by |L|
    EXPECT_EQ(estimate_divergence(negative, {"fp4"}, LossEstimator::kFirstOrder)[0][0].loss, 0.25);
}

TEST(Divergence, DirectPathByHand) {
    // |a|^2 = (0.16 * 4 + 16 * 0.04) / 4 = 0.32; change = 0.6 * sqrt(0.32) / 12; / |W| = 3; mean
    // of 2.
    const double expected = 0.6 * std::sqrt(0.32) / 12 / 3 / 2;
    EXPECT_NEAR(dw(two_layers(), 0), expected, 1e-16);
    EXPECT_NEAR(dw(two_layers(), 1), expected, 1e-16);
    ModelStatistics unmeasured = two_layers();  // no probes: the direct path is left
    unmeasured.layers[0].backward.clear();
    unmeasured.layers[0].forward.clear();
    EXPECT_NEAR(dw(unmeasured, 0), expected, 1e-16);
}

TEST(Divergence, BackwardPathReachesEarlierLayersOnly) {
    ModelStatistics statistics = two_layers();
    for (auto& layer : statistics.layers) layer.backward = {2.0, 2.0};
    // |b|^2 = (0.16 * 9 + 16 * 0.09) / 16 = 0.18.
    const double direct = 0.6 * std::sqrt(0.32) / 12 / 3,
                 carried = 0.6 * 2 * std::sqrt(0.18) / 12 / 3;
    EXPECT_NEAR(dw(statistics, 0), direct / 2, 1e-16);
    EXPECT_NEAR(dw(statistics, 1), (carried + direct) / 2, 1e-16);
}

TEST(Divergence, ForwardPathReachesAllLayers) {
    ModelStatistics statistics = two_layers();
    statistics.layers[0].forward = {1.5, 3.0};
    // |E_Y|^2 = (0.04 * 9 + 4 * 0.09) / 9 = 0.08.
    const double own = 0.6 * std::sqrt(0.32 + 2.25 * 0.08) / 12 / 3;
    const double other = 0.6 * 3 * std::sqrt(0.08) / 12 / 3;
    EXPECT_NEAR(dw(statistics, 0), (own + other) / 2, 1e-16);
}

// Operands of dgrad and wgrad that were measured by themselves take the place of the others'.
TEST(Divergence, EveryGemmHasTheErrorsOfItsOwnOperands) {
    ModelStatistics statistics = two_layers();
    LayerStatistics& second = statistics.layers[1];
    second.backward = {2.0, 0};
    second.errors["fp4"].ew_dgrad = 0.6;
    second.errors["fp4"].eg_wgrad = 0.8;
    second.errors["fp4"].ex_wgrad = 0.1;
    // |a|^2 = (0.64 * 4 + 16 * 0.01) / 4 = 0.68; |b|^2 = (0.16 * 9 + 16 * 0.36) / 16 = 0.45.
    const double unit = 0.6 / 12 / 3 / 2;
    const auto slots = estimate_slot_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly);
    EXPECT_EQ(slots[1][0][0].weight, 0);
    EXPECT_NEAR(slots[1][0][1].weight, unit * 2 * std::sqrt(0.45), 1e-16);
    EXPECT_NEAR(slots[1][0][2].weight, unit * std::sqrt(0.68), 1e-16);
    EXPECT_NEAR(dw(statistics, 1), unit * (2 * std::sqrt(0.45) + std::sqrt(0.68)), 1e-16);
}

// A second, plainly written evaluation of the same sums over random statistics.
TEST(Divergence, AgreesWithAStraightforwardEvaluation) {
    std::mt19937 random(11);
    std::uniform_real_distribution<double> u(0.1, 2.0);
    const std::size_t count = 9;
    ModelStatistics statistics;
    statistics.loss = 3.7;
    for (std::size_t l = 0; l < count; ++l) {
        statistics.table.push_back(info("layer" + std::to_string(l)));
        LayerStatistics s;
        for (double* value : {&s.x, &s.w, &s.y, &s.g, &s.dx, &s.dw, &s.jacobian})
            *value = u(random);
        s.t = 100 * u(random);
        s.k = 50 * u(random);
        s.n = 70 * u(random);
        s.update_numel = s.k * s.n;
        s.errors["fp4"] = {.ex = u(random), .ew = u(random), .eg = u(random)};
        for (std::size_t k = 0; k < count; ++k) {
            s.backward.push_back(k < l ? u(random) : 0.0);
            s.forward.push_back(u(random));
        }
        statistics.layers.push_back(s);
    }
    const auto result = estimate_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly);
    for (std::size_t l = 0; l < count; ++l) {
        const auto& s = statistics.layers[l];
        const auto& e = s.errors.at("fp4");
        const double loss =
            std::hypot(s.dx * e.ex / std::sqrt(s.t * s.k), s.dw * e.ew / std::sqrt(s.n * s.k)) /
            3.7;
        EXPECT_NEAR(result[l][0].loss, loss, 1e-13 * loss);
        double weight = 0;
        for (std::size_t k = 0; k < count; ++k) {
            const double a = k == l ? std::hypot(e.eg * s.x, s.g * e.ex) / std::sqrt(s.t) : 0.0;
            const double b = s.backward[k] * std::hypot(e.eg * s.w, s.g * e.ew) / std::sqrt(s.n);
            const double f = s.forward[k] * std::hypot(e.ex * s.w, s.x * e.ew) / std::sqrt(s.k);
            const auto& reached = statistics.layers[k];
            weight += reached.jacobian * std::hypot(a, b, f) / std::sqrt(reached.update_numel) /
                      reached.w / static_cast<double>(count);
        }
        EXPECT_NEAR(result[l][0].weight, weight, 1e-13 * weight);
    }
}

// The parts of the three GEMMs: all of DL is fprop's; the squares of DW add up at every layer that
// is reached, which bounds their mean from both sides.
TEST(Divergence, SlotPartsAddUp) {
    ModelStatistics statistics = random_statistics(llama_table(2, 64, 172, 16), 4);
    for (auto& layer : statistics.layers) {
        layer.errors["fp4"].ew_dgrad = 1.3 * layer.errors["fp4"].ew;
        layer.errors["fp4"].ex_wgrad = 0.7 * layer.errors["fp4"].ex;
    }
    const std::vector<std::string> recipes{"bf16", "fp8", "fp4"};
    const auto whole = estimate_divergence(statistics, recipes, LossEstimator::kNormOnly);
    const auto parts = estimate_slot_divergence(statistics, recipes, LossEstimator::kNormOnly);
    ASSERT_EQ(parts.size(), whole.size());
    for (std::size_t l = 0; l < parts.size(); ++l) {
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const auto& [fprop, dgrad, wgrad] = parts[l][r];
            EXPECT_EQ(fprop.loss, whole[l][r].loss);
            EXPECT_EQ(dgrad.loss + wgrad.loss, 0);
            const double sum = fprop.weight + dgrad.weight + wgrad.weight;
            const double root = std::hypot(fprop.weight, dgrad.weight, wgrad.weight);
            EXPECT_LE(root, whole[l][r].weight * (1 + 1e-12));
            EXPECT_GE(sum, whole[l][r].weight * (1 - 1e-12));
            if (recipes[r] == "bf16" || !statistics.table[l].candidate) {
                EXPECT_EQ(sum, 0);
            } else {
                EXPECT_GT(wgrad.weight, 0);
            }
        }
    }
    // With one layer to reach, the squares add up exactly.
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        if (k != 0) statistics.layers[k].jacobian = 0;
    }
    const auto alone = estimate_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly);
    const auto slots = estimate_slot_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly);
    for (std::size_t l = 0; l < slots.size(); ++l) {
        const auto& [fprop, dgrad, wgrad] = slots[l][0];
        EXPECT_NEAR(std::hypot(fprop.weight, dgrad.weight, wgrad.weight), alone[l][0].weight,
                    1e-12 * alone[l][0].weight);
    }
}

// Matrices of random numbers, to see that the norm formulas describe what they say.
struct Matrix {
    int rows, cols;
    std::vector<double> v;
    Matrix(int r, int c) : rows(r), cols(c), v(static_cast<std::size_t>(r * c)) {}
    double& at(int r, int c) { return v[static_cast<std::size_t>(r * cols + c)]; }
    double at(int r, int c) const { return v[static_cast<std::size_t>(r * cols + c)]; }
    double norm() const {
        double sum = 0;
        for (const double x : v) sum += x * x;
        return std::sqrt(sum);
    }
};

Matrix gaussian(int rows, int cols, double scale, std::mt19937& random) {
    std::normal_distribution<double> normal(0, scale);
    Matrix m(rows, cols);
    for (double& x : m.v) x = normal(random);
    return m;
}

// a b^T + c d^T, all with the contraction along columns.
Matrix sum_of_products(const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d) {
    Matrix out(a.rows, b.rows);
    for (int i = 0; i < a.rows; ++i) {
        for (int j = 0; j < b.rows; ++j) {
            for (int k = 0; k < a.cols; ++k) {
                out.at(i, j) += a.at(i, k) * b.at(j, k) + c.at(i, k) * d.at(j, k);
            }
        }
    }
    return out;
}

Matrix transposed(const Matrix& m) {
    Matrix t(m.cols, m.rows);
    for (int i = 0; i < m.rows; ++i) {
        for (int j = 0; j < m.cols; ++j) t.at(j, i) = m.at(i, j);
    }
    return t;
}

TEST(Divergence, NormFormulasDescribeRandomErrors) {
    std::mt19937 random(5);
    const int t = 96, k = 80, n = 64;
    const Matrix x = gaussian(t, k, 1.0, random), w = gaussian(n, k, 0.3, random),
                 g = gaussian(t, n, 0.1, random);
    const Matrix ex = gaussian(t, k, 0.05, random), ew = gaussian(n, k, 0.02, random),
                 eg = gaussian(t, n, 0.01, random);
    ModelStatistics statistics;
    statistics.loss = 1;
    statistics.table = {info("first"), info("second")};
    LayerStatistics layer;
    layer.x = x.norm();
    layer.w = w.norm();
    layer.g = g.norm();
    layer.t = t;
    layer.k = k;
    layer.n = n;
    layer.jacobian = 1;
    layer.update_numel = 1;
    layer.errors["fp4"] = {.ex = ex.norm(), .ew = ew.norm(), .eg = eg.norm()};
    statistics.layers = {layer, layer};
    LayerStatistics& source = statistics.layers[1];
    const double scale = 2 * layer.w;  // undoes the mean and the division by |W|

    const double direct =  // dW = G^T X
        sum_of_products(transposed(eg), transposed(x), transposed(g), transposed(ex)).norm();
    EXPECT_NEAR(dw(statistics, 1) * scale, direct, 0.03 * direct);

    source.backward = {1, 0};
    const double backward =  // dX = G W
        sum_of_products(eg, transposed(w), g, transposed(ew)).norm();
    EXPECT_NEAR(dw(statistics, 1) * scale, direct + backward, 0.03 * (direct + backward));

    source.backward.clear();
    source.forward = {1, 0};
    const double forward = sum_of_products(ex, w, x, ew).norm();  // Y = X W^T
    EXPECT_NEAR(dw(statistics, 1) * scale, direct + forward, 0.03 * (direct + forward));
}

TEST(Divergence, ZeroStatisticsCostNothing) {
    ModelStatistics statistics = two_layers();
    statistics.layers[1] = {};  // frozen or not reached; not even errors were measured
    statistics.layers[0].forward = {1, 1};
    EXPECT_TRUE(is_unmeasured(statistics.layers[1]));
    EXPECT_FALSE(is_unmeasured(statistics.layers[0]));
    for (const auto estimator : {LossEstimator::kNormOnly, LossEstimator::kFirstOrder}) {
        const auto result = estimate_divergence(statistics, {"fp8", "fp4"}, estimator);
        for (const Divergence& d : result[1]) {
            EXPECT_EQ(d.loss, 0);
            EXPECT_EQ(d.weight, 0);
        }
        EXPECT_GT(result[0][1].weight, 0);
        EXPECT_TRUE(std::isfinite(result[0][1].weight));
    }
}

TEST(Divergence, LayersThatAreNoCandidatesNeedNoErrors) {
    ModelStatistics statistics = two_layers();
    statistics.table[0].candidate = false;
    statistics.layers[0].errors.clear();
    statistics.layers[1].backward = {1, 0};
    const auto result = estimate_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly);
    EXPECT_EQ(result[0][0].weight, 0);
    // The head still feels what the other layer does.
    ModelStatistics deaf = statistics;
    deaf.layers[1].backward = {0, 0};
    EXPECT_GT(result[1][0].weight, dw(deaf, 1));
}

TEST(Divergence, NonFiniteNumbersAreNamed) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    const auto complaint = [](const std::function<void(ModelStatistics&)>& spoil, ErrorCode code) {
        ModelStatistics statistics = two_layers();
        spoil(statistics);
        return refusal(code,
                       [&] { estimate_divergence(statistics, {"fp4"}, LossEstimator::kNormOnly); });
    };
    using S = ModelStatistics;
    const auto named = [&](const std::function<void(S&)>& spoil) {
        return complaint(spoil, ErrorCode::kDiverged).find("'second'") != std::string::npos;
    };
    EXPECT_TRUE(named([=](S& s) { s.layers[1].x = nan; }));
    EXPECT_TRUE(named([=](S& s) { s.layers[1].jacobian = inf; }));
    EXPECT_TRUE(named([=](S& s) { s.layers[1].errors["fp4"].eg = nan; }));
    EXPECT_TRUE(named([=](S& s) { s.layers[1].forward[0] = inf; }));
    EXPECT_TRUE(named([=](S& s) { s.layers[1].t = 0; }));
    EXPECT_NE(complaint([=](S& s) { s.loss = nan; }, ErrorCode::kDiverged).find("loss"),
              std::string::npos);
    EXPECT_NE(complaint([=](S& s) { s.loss = 0; }, ErrorCode::kDiverged).find("'first'"),
              std::string::npos);
    EXPECT_NE(
        complaint([](S& s) { s.layers[1].forward = {1}; }, ErrorCode::kUsage).find("'second'"),
        std::string::npos);
    EXPECT_NE(complaint([](S& s) { s.layers.pop_back(); }, ErrorCode::kUsage).find("2 layers"),
              std::string::npos);
    EXPECT_NE(
        complaint([](S& s) { s.layers[1].errors.erase("fp4"); }, ErrorCode::kUsage).find("'fp4'"),
        std::string::npos);
}

TEST(Divergence, MissingFirstOrderTermIsAnError) {
    ModelStatistics statistics = two_layers();
    statistics.layers[1].errors["fp4"].first_order.reset();
    try {
        estimate_divergence(statistics, {"fp4"}, LossEstimator::kFirstOrder);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(std::string(error.what()).find("'second'"), std::string::npos);
    }
}

}  // namespace
}  // namespace subbyte::plan
