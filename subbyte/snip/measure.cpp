// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/measure.h"

#include <cmath>

#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/parameter_index.h"
#include "subbyte/snip/sampled_outputs.h"

namespace subbyte::snip {
namespace {

// None when something is not finite: who plans with these statistics will say what.
std::optional<Realised> realised_in_force(const MeasureOptions& options, const ProbeResult& probed,
                                          const plan::ModelStatistics& statistics) {
    Realised result{.predicted = {}, .real = *probed.realised};
    if (!std::isfinite(result.real.loss) || !std::isfinite(result.real.weight)) return {};
    try {
        result.predicted =
            plan::estimate_plan_divergence(statistics, *options.probe.in_force, options.estimator);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kDiverged) throw;
        return {};
    }
    result.predicted.loss /= std::sqrt(probed.tokens);
    result.predicted.weight /= std::sqrt(probed.tokens);
    return result;
}

}  // namespace

Measurement measure(const StatisticsSink& sink, nn::Precision& precision,
                    const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                    const MeasureOptions& options) {
    const Stopwatch statistics_watch;
    const std::vector<std::size_t> index = parameter_indices(optimizer, weights);
    Measurement result;
    plan::ModelStatistics& statistics = result.statistics;
    statistics.step = options.step;
    statistics.loss = options.loss;
    statistics.table = precision.table();
    statistics.layers = sink.statistics();

    double squared_norm = 0;
    for (const optim::Parameter& p : optimizer.parameters()) {
        if (p.value.grad().defined()) squared_norm += ops::squared_norm(p.value.grad());
    }
    const double factor = optimizer.clip_factor(std::sqrt(squared_norm));
    for (std::size_t l = 0; l < weights.size(); ++l) {
        const at::Tensor& grad = weights[l].grad();
        plan::LayerStatistics& layer = statistics.layers[l];
        layer.update_numel = static_cast<double>(weights[l].numel());
        if (!grad.defined()) continue;
        layer.dw = ops::norm(grad);
        // |dW_new/dg| with g the gradient before clipping: the factor belongs to the chain.
        layer.jacobian = factor * optimizer.update_sensitivity(
                                      index[l], factor == 1.0 ? grad : grad.mul(factor));
    }
    result.statistics_seconds = sink.seconds() + statistics_watch.seconds();

    ProbeResult probed;
    if (options.replay) {
        const Stopwatch probe_watch;
        probed = measure_gains(options.replay, precision, weights, optimizer, options.probe,
                               options.high, statistics);
        result.probe_passes = probed.passes;
        if (options.loss != 0) statistics.loss = options.loss;
        result.probe_seconds = probe_watch.seconds();
    }
    if (statistics.loss == 0) statistics.loss = 1.0;

    if (options.sampled) {
        const Stopwatch sampled_watch;
        const plan::Plan plan =
            options.sampled_plan.value_or(plan::uniform_plan(precision.table(), options.high));
        measure_sampled_outputs(options.sampled, precision, optimizer, options.recipes, plan,
                                statistics);
        ++result.probe_passes;
        result.probe_seconds += sampled_watch.seconds();
    }
    if (probed.realised) result.in_force = realised_in_force(options, probed, statistics);
    return result;
}

}  // namespace subbyte::snip
