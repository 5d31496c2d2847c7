// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The estimators of SNIP against brute force on a small model that has been trained for a while.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "examples/residual_mlp.h"
#include "examples/teacher_data.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/snip/oracle.h"
#include "subbyte/snip/snip.h"

namespace subbyte::snip {
namespace {

std::vector<double> ranks(const std::vector<double>& v) {
    std::vector<std::size_t> order(v.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return v[a] < v[b]; });
    std::vector<double> rank(v.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = double(i);
    return rank;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
    const std::vector<double> x = ranks(a), y = ranks(b);
    const double mean = (double(a.size()) - 1) / 2;
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    return xy / std::sqrt(xx * yy);
}

double mean_ratio(const std::vector<double>& estimate, const std::vector<double>& real) {
    double log_sum = 0;
    for (std::size_t i = 0; i < real.size(); ++i) log_sum += std::log(estimate[i] / real[i]);
    return std::exp(log_sum / double(real.size()));
}

constexpr int kBatches = 8;

// A model of 12 candidate layers after 300 AdamW steps, its estimates and the truth, averaged over
// batches.
struct Measured {
    std::vector<double> real_loss, real_weight;
    std::vector<double> norm_only, first_order, weight_layer, weight_block, weight_none;
};

const Measured& measured() {
    static const Measured result = [] {
        const example::TeacherData data(64, 32);
        example::ResidualMlp model(6, 64, 128, 32);
        optim::AdamW optimizer(
            optim::parameters_of(*model),
            {.lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1, .max_grad_norm = 1.0});
        // The controller of the model under measurement: exact first order and per-layer probes;
        // never due again after the first step.
        SNIP snip(model, optimizer,
                  {.update_interval = 1000000,
                   .estimator = plan::LossEstimator::kFirstOrder,
                   .keep_high = {"head"}});
        for (int step = 0; step < 300; ++step) {
            const example::Batch batch = data.batch(static_cast<std::uint32_t>(step), 256);
            model->forward(batch.x, batch.labels).backward();
            optimizer.step();
            optimizer.zero_grad();
        }
        nn::Precision& precision = snip.precision();
        const plan::LayerTable& table = precision.table();
        Measured m;
        for (auto* v : {&m.real_loss, &m.real_weight, &m.norm_only, &m.first_order, &m.weight_layer,
                        &m.weight_block, &m.weight_none}) {
            v->assign(table.size() - 1, 0.0);  // without the head
        }
        for (int b = 0; b < kBatches; ++b) {
            const example::Batch batch = data.batch(static_cast<std::uint32_t>(1000 + b), 256);
            const LossFunction loss = [&] { return model->forward(batch.x, batch.labels); };
            StatisticsSink sink(table.size(), {"fp4"}, /*first_order=*/true);
            precision.observer = &sink;
            const at::Tensor value = loss();
            value.backward();
            precision.observer = nullptr;

            plan::ModelStatistics statistics;
            statistics.loss = value.item<double>();
            statistics.table = table;
            statistics.layers = sink.statistics();
            double squared = 0;
            for (const optim::Parameter& p : optimizer.parameters())
                squared += p.value.grad().pow(2).sum().item<double>();
            const double factor = optimizer.clip_factor(std::sqrt(squared));
            for (std::size_t l = 0; l < table.size(); ++l) {
                const at::Tensor grad = snip.weights()[l].grad();
                for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
                    if (!optimizer.parameters()[i].value.is_same(snip.weights()[l])) continue;
                    statistics.layers[l].jacobian =
                        factor * optimizer.update_sensitivity(i, grad.mul(factor));
                }
                statistics.layers[l].dw = grad.norm().item<double>();
                statistics.layers[l].update_numel = double(grad.numel());
            }
            optimizer.zero_grad();

            const auto estimate = [&](Probes probes, plan::LossEstimator estimator) {
                plan::ModelStatistics s = statistics;
                measure_gains(loss, precision, snip.weights(), {.probes = probes, .seed = 3},
                              "fp32", s);
                return plan::estimate_divergence(s, {"fp4"}, estimator);
            };
            const auto layer = estimate(Probes::kLayer, plan::LossEstimator::kNormOnly);
            const auto block = estimate(Probes::kBlock, plan::LossEstimator::kFirstOrder);
            const auto none = estimate(Probes::kNone, plan::LossEstimator::kNormOnly);
            const Oracle oracle{loss, precision, optimizer, snip.weights(), "fp32"};
            const auto real = oracle.per_layer({"fp4"});
            for (std::size_t l = 0; l < m.real_loss.size(); ++l) {
                m.real_loss[l] += real[l][0].loss / kBatches;
                m.real_weight[l] += real[l][0].weight / kBatches;
                m.norm_only[l] += layer[l][0].loss / kBatches;
                m.first_order[l] += block[l][0].loss / kBatches;
                m.weight_layer[l] += layer[l][0].weight / kBatches;
                m.weight_block[l] += block[l][0].weight / kBatches;
                m.weight_none[l] += none[l][0].weight / kBatches;
            }
        }
        return m;
    }();
    return result;
}

void report(const char* name, const std::vector<double>& estimate,
            const std::vector<double>& real) {
    std::printf("%-28s Spearman %.2f, ratio %.2f\n", name, spearman(estimate, real),
                mean_ratio(estimate, real));
}

TEST(SnipOracle, WeightDivergenceOfPerLayerProbesAgreesWithBruteForce) {
    const Measured& m = measured();
    report("DW, per-layer probes", m.weight_layer, m.real_weight);
    EXPECT_GT(spearman(m.weight_layer, m.real_weight), 0.9);
    EXPECT_GT(mean_ratio(m.weight_layer, m.real_weight), 0.7);
    EXPECT_LT(mean_ratio(m.weight_layer, m.real_weight), 1.4);
}

TEST(SnipOracle, WeightDivergenceOfPerBlockProbesAgreesWithBruteForce) {
    const Measured& m = measured();
    report("DW, per-block probes", m.weight_block, m.real_weight);
    report("DW, no probes", m.weight_none, m.real_weight);
    EXPECT_GT(spearman(m.weight_block, m.real_weight), 0.8);
    EXPECT_GT(mean_ratio(m.weight_block, m.real_weight), 0.6);
    EXPECT_LT(mean_ratio(m.weight_block, m.real_weight), 1.6);
    // Without probes only the direct path is known, which must lie below the truth.
    EXPECT_LT(mean_ratio(m.weight_none, m.real_weight), mean_ratio(m.weight_block, m.real_weight));
}

TEST(SnipOracle, LossDivergenceAgreesWithBruteForce) {
    const Measured& m = measured();
    report("DL, norm only", m.norm_only, m.real_loss);
    report("DL, exact first order", m.first_order, m.real_loss);
    EXPECT_GT(spearman(m.norm_only, m.real_loss), 0.6);
    EXPECT_GT(spearman(m.first_order, m.real_loss), 0.8);
    EXPECT_GT(mean_ratio(m.norm_only, m.real_loss), 0.5);
    EXPECT_LT(mean_ratio(m.norm_only, m.real_loss), 2.0);
}

}  // namespace
}  // namespace subbyte::snip
