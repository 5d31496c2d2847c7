// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/sampled_outputs.h"

#include "subbyte/snip/plan_guard.h"
#include "subbyte/snip/statistics_sink.h"

namespace subbyte::snip {

void measure_sampled_outputs(const LossFunction& loss, nn::Precision& precision,
                             const optim::Optimizer& optimizer,
                             const std::vector<std::string>& recipes, const plan::Plan& plan,
                             plan::ModelStatistics& statistics) {
    const PlanGuard guard(precision);
    const StoredGradients kept(optimizer);
    precision.set_plan(plan);
    StatisticsSink sink(precision.table(), recipes, {.outputs = true});
    precision.observer = &sink;
    visit_gradients(loss_with_graph(loss), optimizer, /*keep_graph=*/false,
                    [](const at::Tensor&, const at::Tensor&) {});
    const std::vector<plan::LayerStatistics> drawn = sink.statistics();
    for (std::size_t l = 0; l < drawn.size(); ++l) {
        plan::LayerStatistics& layer = statistics.layers[l];
        // A mean over T tokens has gradients of 1 / T, and the sums of their squares 1 / T as well.
        const double factor = layer.t > 0 ? drawn[l].t / layer.t : 0.0;
        for (const auto& [recipe, errors] : drawn[l].errors) {
            if (!errors.output) continue;
            plan::LayerStatistics::Errors::OutputError output = *errors.output;
            output.squared *= factor > 0 ? 1 / factor : 0.0;
            output.elements *= factor;
            output.tokens *= factor;
            layer.errors[recipe].output = output;
        }
    }
}

}  // namespace subbyte::snip
