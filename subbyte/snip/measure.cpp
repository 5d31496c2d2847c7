// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/measure.h"

#include <cmath>

#include "subbyte/core/clock.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/parameter_index.h"

namespace subbyte::snip {

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

    if (options.replay) {
        const Stopwatch probe_watch;
        result.probe_passes = measure_gains(options.replay, precision, weights, optimizer,
                                            options.probe, options.high, statistics);
        if (options.loss != 0) statistics.loss = options.loss;
        result.probe_seconds = probe_watch.seconds();
    }
    if (statistics.loss == 0) statistics.loss = 1.0;
    return result;
}

}  // namespace subbyte::snip
