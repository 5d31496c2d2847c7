// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/statistics_sink.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/clock.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/row_products.h"

namespace subbyte::snip {
namespace {

using plan::Slot;

double square(double x) { return x * x; }

// BF16 and above is the baseline: no error is counted.
bool has_error(const formats::QuantSpec& spec) {
    return !spec.is_fp32() && spec.element->bits < 16;
}

// Stochastic specs are measured as they are, with a noise address that is the same in every pass.
at::Tensor quantised(const at::Tensor& x, const formats::QuantSpec& spec, std::uint32_t layer) {
    if (!has_error(spec)) return x;
    return ops::dequantize(
        ops::quantize(x, spec, {.seed = 0, .step = 0, .layer = layer, .role = 0}));
}

// Whether a matrix and its transpose, in these specs, have the same errors.
bool same_transposed(const formats::QuantSpec& spec, const formats::QuantSpec& transposed) {
    return spec == transposed && spec.tile.transposable() && !spec.uses_noise() &&
           spec.rotation.size == 0;
}

double squared_error(const at::Tensor& x, const formats::QuantSpec& spec, std::uint32_t layer) {
    return has_error(spec) ? square(ops::difference_norm(quantised(x, spec, layer), x)) : 0.0;
}

}  // namespace

StatisticsSink::StatisticsSink(const plan::LayerTable& table,
                               const std::vector<std::string>& recipes, const plan::Needs& needs,
                               std::int64_t sampled_rows)
    : table_(table),
      options_(recipes),
      recipes_(table.size()),
      needs_(needs),
      sampled_rows_(sampled_rows),
      layers_(table.size()) {
    reset();
}

std::vector<plan::Recipe> StatisticsSink::measured_in(std::size_t layer) const {
    const plan::LayerInfo& info = table_[layer];
    std::vector<std::string> names = options_;
    if (info.candidate) names.insert(names.end(), info.pinned.begin(), info.pinned.end());
    std::vector<plan::Recipe> recipes;
    for (auto name = names.begin(); name != names.end(); ++name) {
        if (name->empty() || std::find(names.begin(), name, *name) != name) continue;
        plan::Recipe recipe = plan::find_recipe(*name);
        if (!recipe.is_high_precision()) recipes.push_back(std::move(recipe));
    }
    return recipes;
}

void StatisticsSink::reset() {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
        layers_[l] = Layer{};
        recipes_[l] = measured_in(l);
        layers_[l].errors.resize(recipes_[l].size());
    }
    seconds_ = 0;
}

void StatisticsSink::on_forward(std::uint32_t index, const at::Tensor& x, const at::Tensor& w,
                                at::Tensor& y) {
    const Stopwatch watch;
    Layer& layer = layers_.at(index);
    layer.x += ops::squared_norm(x);
    layer.y += ops::squared_norm(y);
    layer.rows += static_cast<double>(x.size(0));
    const bool first = !layer.weight.defined();
    if (first) {
        layer.in = static_cast<double>(w.size(1));
        layer.out = static_cast<double>(w.size(0));
        layer.w = ops::squared_norm(w);
        layer.weight = w;
        recipes_[index] = measured_in(index);  // rules may have pinned slots since reset()
        layer.errors.resize(recipes_[index].size());
    }
    for (std::size_t r = 0; r < recipes_[index].size(); ++r) {
        const plan::Recipe& recipe = recipes_[index][r];
        Errors& errors = layer.errors[r];
        errors.ex += squared_error(x, recipe[Slot::kFprop].a, index);
        errors.ex_wgrad += squared_error(x.t(), recipe[Slot::kWgrad].b, index);
        if (!first) continue;
        errors.ew = squared_error(w, recipe[Slot::kFprop].b, index);
        errors.ew_dgrad = same_transposed(recipe[Slot::kFprop].b, recipe[Slot::kDgrad].b)
                              ? errors.ew
                              : squared_error(w.t(), recipe[Slot::kDgrad].b, index);
    }
    if (needs_.first_order || needs_.outputs || needs_.outer) layer.pending.push_back(keep(x));
    seconds_ += watch.seconds();
}

void StatisticsSink::on_backward(std::uint32_t index, const at::Tensor& g, at::Tensor& dx,
                                 const at::Tensor& dw) {
    const Stopwatch watch;
    Layer& layer = layers_.at(index);
    layer.g += ops::squared_norm(g);
    if (dx.defined()) layer.dx += ops::squared_norm(dx);
    for (std::size_t r = 0; r < recipes_[index].size(); ++r) {
        layer.errors[r].eg += squared_error(g, recipes_[index][r][Slot::kDgrad].a, index);
        layer.errors[r].eg_wgrad += squared_error(g.t(), recipes_[index][r][Slot::kWgrad].a, index);
    }
    // Backward passes of a layer come in the order of its forward passes: one micro-batch at a
    // time.
    if (!layer.pending.empty()) {
        const Pending pending = layer.pending.front();
        layer.pending.erase(layer.pending.begin());
        if (needs_.first_order) add_first_order(layer, index, pending.x, dx, dw);
        if (pending.sample.defined()) add_sample(layer, index, pending, g);
    }
    seconds_ += watch.seconds();
}

StatisticsSink::Pending StatisticsSink::keep(const at::Tensor& x) const {
    Pending pending;
    if (needs_.first_order) pending.x = x;
    const std::int64_t tokens = x.size(0), count = std::min(tokens, sampled_rows_);
    if (count == 0 || (!needs_.outputs && !needs_.outer)) return pending;
    pending.rows = at::empty({count}, at::kLong);
    auto* row = pending.rows.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) {
        // One token of each of `count` equal parts, at places that do not repeat with the length
        // of a sequence (the golden ratio's multiples).
        const double place = static_cast<double>(i) * 0.6180339887498949;
        row[i] =
            static_cast<std::int64_t>((static_cast<double>(i) + place - std::floor(place)) *
                                      static_cast<double>(tokens) / static_cast<double>(count));
    }
    pending.sample = x.index_select(0, pending.rows);
    pending.scale = static_cast<double>(tokens) / static_cast<double>(count);
    return pending;
}

void StatisticsSink::add_first_order(Layer& layer, std::uint32_t index, const at::Tensor& x,
                                     const at::Tensor& dx, const at::Tensor& dw) {
    for (std::size_t r = 0; r < recipes_[index].size(); ++r) {
        const plan::SlotRecipe& slot = recipes_[index][r][Slot::kFprop];
        double term = 0;
        if (dx.defined() && has_error(slot.a)) {
            term += ops::dot(dx, quantised(x, slot.a, index).sub(x));
        }
        if (dw.defined() && has_error(slot.b)) {
            term += ops::dot(dw, quantised(layer.weight, slot.b, index).sub(layer.weight));
        }
        layer.errors[r].first_order += term;
    }
}

void StatisticsSink::add_sample(Layer& layer, std::uint32_t index, const Pending& pending,
                                const at::Tensor& g) {
    const at::Tensor& x = pending.sample;
    const at::Tensor sampled_g = g.index_select(0, pending.rows);
    if (needs_.outer) layer.outer += pending.scale * outer_norms(sampled_g, x);
    if (!needs_.outputs) return;
    const formats::QuantSpec exact;
    const auto packed = [&](const at::Tensor& tensor, const formats::QuantSpec& spec) {
        return ops::quantize(tensor, has_error(spec) ? spec : exact,
                             {.seed = 0, .step = 0, .layer = index, .role = 0});
    };
    const at::Tensor y = ops::gemm(packed(x, exact), packed(layer.weight, exact));
    for (std::size_t r = 0; r < recipes_[index].size(); ++r) {
        const plan::SlotRecipe& slot = recipes_[index][r][Slot::kFprop];
        const at::Tensor error = ops::gemm(packed(x, slot.a), packed(layer.weight, slot.b)).sub_(y);
        const RowProducts products = row_products(sampled_g, error);
        auto& output = layer.errors[r].output;
        output.squared += pending.scale * products.squared;
        output.elements += pending.scale * products.elements;
        output.tokens += pending.scale * products.rows;
    }
}

std::vector<plan::LayerStatistics> StatisticsSink::statistics() const {
    std::vector<plan::LayerStatistics> result;
    for (std::size_t index = 0; index < layers_.size(); ++index) {
        const Layer& layer = layers_[index];
        plan::LayerStatistics s;
        s.x = std::sqrt(layer.x);
        s.w = std::sqrt(layer.w);
        s.y = std::sqrt(layer.y);
        s.g = std::sqrt(layer.g);
        s.dx = std::sqrt(layer.dx);
        s.t = layer.rows;
        s.k = layer.in;
        s.n = layer.out;
        if (needs_.outer) s.outer = layer.outer;
        for (std::size_t r = 0; r < recipes_[index].size(); ++r) {
            plan::LayerStatistics::Errors& errors = s.errors[recipes_[index][r].name];
            errors.ex = std::sqrt(layer.errors[r].ex);
            errors.ew = std::sqrt(layer.errors[r].ew);
            errors.eg = std::sqrt(layer.errors[r].eg);
            errors.ew_dgrad = std::sqrt(layer.errors[r].ew_dgrad);
            errors.eg_wgrad = std::sqrt(layer.errors[r].eg_wgrad);
            errors.ex_wgrad = std::sqrt(layer.errors[r].ex_wgrad);
            if (needs_.first_order) errors.first_order = layer.errors[r].first_order;
            if (needs_.outputs) errors.output = layer.errors[r].output;
        }
        result.push_back(std::move(s));
    }
    return result;
}

}  // namespace subbyte::snip
