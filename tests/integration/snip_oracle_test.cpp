// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The estimators of SNIP against brute force on a small model that has been trained for a while.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "examples/residual_mlp.h"
#include "examples/teacher_data.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/plan/estimator_score.h"
#include "subbyte/snip/measure.h"
#include "subbyte/snip/oracle.h"
#include "subbyte/snip/snip.h"

namespace subbyte::snip {
namespace {

using plan::spearman;

double mean_ratio(const std::vector<double>& estimate, const std::vector<double>& real) {
    double log_sum = 0;
    for (std::size_t i = 0; i < real.size(); ++i) log_sum += std::log(estimate[i] / real[i]);
    return std::exp(log_sum / double(real.size()));
}

constexpr int kBatches = 8;

// A model of 12 candidate layers after 300 AdamW steps: the truth, and what every estimator says of
// it.
struct Measured {
    // |mean of L' - L| over the batches, and the mean of |L' - L| of single batches, which is
    // mostly chance; the same for the estimates.
    std::vector<double> real_loss, real_step_loss, real_weight;
    std::map<plan::LossEstimator, std::vector<double>> loss, step_loss;
    std::map<Probes, std::vector<double>> weight;
};

// DL or DW of all layers but the last, the head.
std::vector<double> part(const std::vector<std::vector<plan::Divergence>>& divergences,
                         double plan::Divergence::*member) {
    std::vector<double> values;
    for (std::size_t l = 0; l + 1 < divergences.size(); ++l) {
        values.push_back(divergences[l][0].*member);
    }
    return values;
}

// sum += values / kBatches
void add(std::vector<double>& sum, const std::vector<double>& values) {
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i] / kBatches;
}

const Measured& measured() {
    static const Measured result = [] {
        const example::TeacherData data(64, 32);
        example::ResidualMlp model(6, 64, 128, 32);
        optim::AdamW optimizer(
            optim::parameters_of(*model),
            {.lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1, .max_grad_norm = 1.0});
        // Never due again after the first step.
        SNIP snip(model, optimizer, {.update_interval = 1000000, .keep_high = {"head"}});
        for (int step = 0; step < 300; ++step) {
            const example::Batch batch = data.batch(static_cast<std::uint32_t>(step), 256);
            model->forward(batch.x, batch.labels).backward();
            optimizer.step();
            optimizer.zero_grad();
        }
        nn::Precision& precision = snip.precision();
        precision.set_plan(plan::uniform_plan(precision.table(), "fp32"));
        std::vector<LossFunction> batches;
        std::map<Probes, std::vector<plan::ModelStatistics>> steps;
        for (int b = 0; b < kBatches; ++b) {
            const example::Batch batch = data.batch(static_cast<std::uint32_t>(1000 + b), 256);
            batches.push_back([&model, batch] { return model->forward(batch.x, batch.labels); });
            StatisticsSink sink(precision.table(), {"fp4"},
                                {.first_order = true, .outputs = true, .outer = true});
            precision.observer = &sink;
            const at::Tensor value = batches.back()();
            value.backward();
            precision.observer = nullptr;
            for (const Probes probes :
                 {Probes::kNone, Probes::kShared, Probes::kBlock, Probes::kLayer}) {
                steps[probes].push_back(
                    measure(sink, precision, snip.weights(), optimizer,
                            {.loss = value.item<double>(),
                             .replay = batches.back(),
                             .probe = {.probes = probes, .seed = 3, .curvature = true},
                             .high = "fp32"})
                        .statistics);
            }
            optimizer.zero_grad();
        }
        Measured m;
        for (const auto& [probes, statistics] : steps) {
            m.weight[probes] = part(plan::estimate_divergence(plan::average(statistics), {"fp4"},
                                                              plan::LossEstimator::kNormOnly),
                                    &plan::Divergence::weight);
        }
        for (const std::string& name : plan::estimator_names()) {
            const plan::LossEstimator estimator = plan::estimator_from_name(name);
            const auto loss_of = [&](const plan::ModelStatistics& statistics) {
                return part(plan::estimate_divergence(statistics, {"fp4"}, estimator),
                            &plan::Divergence::loss);
            };
            m.loss[estimator] = loss_of(plan::average(steps[Probes::kLayer]));
            for (const plan::ModelStatistics& step : steps[Probes::kLayer]) {
                add(m.step_loss[estimator], loss_of(step));
            }
        }
        for (const LossFunction& batch : batches) {
            const std::vector<LossFunction> one{batch};
            const auto real = Oracle{one, precision, optimizer, snip.weights(), "fp32"}.per_layer(
                {"fp4"}, /*keep_sign=*/true);
            const std::vector<double> change = part(real, &plan::Divergence::loss);
            add(m.real_loss, change);
            std::vector<double> size;
            for (const double c : change) size.push_back(std::abs(c));
            add(m.real_step_loss, size);
            add(m.real_weight, part(real, &plan::Divergence::weight));
        }
        for (double& loss : m.real_loss) loss = std::abs(loss);
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
    const std::vector<double>& estimate = m.weight.at(Probes::kLayer);
    report("DW, per-layer probes", estimate, m.real_weight);
    EXPECT_GT(spearman(estimate, m.real_weight), 0.9);
    EXPECT_GT(mean_ratio(estimate, m.real_weight), 0.7);
    EXPECT_LT(mean_ratio(estimate, m.real_weight), 1.4);
}

TEST(SnipOracle, WeightDivergenceOfPerBlockProbesAgreesWithBruteForce) {
    const Measured& m = measured();
    const std::vector<double>& estimate = m.weight.at(Probes::kBlock);
    const std::vector<double>& unprobed = m.weight.at(Probes::kNone);
    report("DW, per-block probes", estimate, m.real_weight);
    report("DW, no probes", unprobed, m.real_weight);
    EXPECT_GT(spearman(estimate, m.real_weight), 0.8);
    EXPECT_GT(mean_ratio(estimate, m.real_weight), 0.6);
    EXPECT_LT(mean_ratio(estimate, m.real_weight), 1.6);
    // Without probes only the direct path is known, which must lie below the truth.
    EXPECT_LT(mean_ratio(unprobed, m.real_weight), mean_ratio(estimate, m.real_weight));
}

// What every estimator has to reach: rank agreement and ratio, over all batches and per batch.
struct Bounds {
    plan::LossEstimator estimator;
    double rank, least_ratio, most_ratio;
    double step_rank, step_least_ratio, step_most_ratio;
};

TEST(SnipOracle, WeightDivergenceOfSharedProbesAgreesWithBruteForce) {
    const Measured& m = measured();
    const std::vector<double>& estimate = m.weight.at(Probes::kShared);
    report("DW, shared probes", estimate, m.real_weight);
    EXPECT_GT(spearman(estimate, m.real_weight), 0.7);
    EXPECT_GT(mean_ratio(estimate, m.real_weight), 0.6);
    EXPECT_LT(mean_ratio(estimate, m.real_weight), 1.6);
}

TEST(SnipOracle, LossDivergenceAgreesWithBruteForce) {
    const Measured& m = measured();
    for (const auto& [estimator, estimate] : m.loss) {
        const std::string name = "DL, " + std::string(plan::estimator_name(estimator));
        report(name.c_str(), estimate, m.real_loss);
        report("   single batches", m.step_loss.at(estimator), m.real_step_loss);
    }
    using E = plan::LossEstimator;
    constexpr double kNone = -1, kAny = 1e9;
    // Without the first order there is no telling which layers did harm to these very batches; but
    // the size of the lasting part of it is right. norm-only is about single batches.
    const Bounds all[] = {
        {E::kTaylor, 0.9, 0.8, 1.25, 0.9, 0.8, 1.25},
        {E::kFisher, kNone, 0.6, 1.6, kNone, 0, kAny},
        {E::kGradientOutput, kNone, 0.3, 1.2, kNone, 0, kAny},
        {E::kHessianTrace, kNone, 0.5, 2.0, kNone, 0, kAny},
        {E::kFirstOrder, kNone, 0, kAny, 0.8, 0.6, 1.6},
        {E::kNormOnly, kNone, 0, kAny, 0.6, 0.5, 2.0},
        {E::kSecondOrder, kNone, 0, kAny, 0.6, 0.5, 2.0},
    };
    for (const Bounds& b : all) {
        const std::string_view name = plan::estimator_name(b.estimator);
        const std::vector<double>& loss = m.loss.at(b.estimator);
        EXPECT_GE(spearman(loss, m.real_loss), b.rank) << name;
        EXPECT_GT(mean_ratio(loss, m.real_loss), b.least_ratio) << name;
        EXPECT_LT(mean_ratio(loss, m.real_loss), b.most_ratio) << name;
        const std::vector<double>& step = m.step_loss.at(b.estimator);
        EXPECT_GE(spearman(step, m.real_step_loss), b.step_rank) << name;
        EXPECT_GT(mean_ratio(step, m.real_step_loss), b.step_least_ratio) << name;
        EXPECT_LT(mean_ratio(step, m.real_step_loss), b.step_most_ratio) << name;
    }
}

}  // namespace
}  // namespace subbyte::snip
