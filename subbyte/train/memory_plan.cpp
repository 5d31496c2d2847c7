// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/memory_plan.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "subbyte/core/cpu.h"
#include "subbyte/ops/linear_loss.h"

namespace subbyte::train {
namespace {

using plan::Slot;

double packed_bytes(const formats::QuantSpec& spec, double rows, double cols) {
    if (spec.is_fp32()) return 4.0 * rows * cols;
    return formats::bits_per_value(spec, static_cast<std::int64_t>(rows),
                                   static_cast<std::int64_t>(cols)) /
           8.0 * rows * cols;
}

// Sum over the layers of what wgrad will read. Layers of one block that read the same X in the same
// spec share a copy; they follow one another in the table.
double saved_inputs(const nn::Precision& precision, double rows) {
    double total = 0;
    std::string last_key;
    for (std::uint32_t i = 0; i < precision.table().size(); ++i) {
        const plan::LayerInfo& layer = precision.table()[i];
        if (layer.block < 0) continue;
        const formats::QuantSpec& spec = (*precision.recipe(i))[Slot::kWgrad].b;
        const bool shares =
            layer.type == "k_proj" || layer.type == "v_proj" || layer.type == "up_proj";
        const std::string key = formats::to_string(spec);
        if (!shares || key != last_key) {
            total += packed_bytes(spec, static_cast<double>(layer.in_features), rows);
        }
        last_key = key;
    }
    return total;
}

double weight_copies(const nn::Precision& precision) {
    double total = 0;
    for (std::uint32_t i = 0; i < precision.table().size(); ++i) {
        const plan::LayerInfo& layer = precision.table()[i];
        const auto in = static_cast<double>(layer.in_features);
        const auto out = static_cast<double>(layer.out_features);
        const plan::Recipe& recipe = *precision.recipe(i);
        const formats::QuantSpec& w = recipe[Slot::kFprop].b;
        const formats::QuantSpec& wt = recipe[Slot::kDgrad].b;
        if (!w.is_fp32()) total += packed_bytes(w, out, in);
        if (!wt.is_fp32()) total += packed_bytes(wt, in, out);
    }
    return total;
}

// The panels of a packed GEMM stay allocated, those of the largest one: BF16 carriers of the head's
// gradient, which the kernels bound, and of its weight.
double panel_bytes(double rows, double vocabulary, double hidden) {
    constexpr double kMostPanels = 64 << 20;
    return std::min(kMostPanels, 2 * rows * vocabulary) +
           std::min(kMostPanels, 2 * hidden * std::max(rows, vocabulary));
}

// What the first step takes beyond the terms above. Not derived: chosen so that the plan fits the
// peaks of llama-9m (tests/cli/memory_test.cpp), where 15 to 50 MB were unaccounted for.
constexpr double kFirstStep = 40 << 20;

}  // namespace

double MemoryPlan::peak() const {
    const double at_head = activations + std::max(head, block);
    const double at_end = gradients + block;
    return resident + scratch + states + packed_weights + std::max(at_head, at_end);
}

MemoryPlan plan_memory(const models::LlamaConfig& c, const nn::Precision& precision,
                       const MemoryShape& shape) {
    const auto rows = static_cast<double>(shape.rows);
    const auto d = static_cast<double>(c.hidden_size),
               ff = static_cast<double>(c.intermediate_size);
    const auto q = static_cast<double>(c.heads * c.head_size());
    const auto layers = static_cast<double>(c.layers);
    // q, k, v in BF16, or all four in FP32.
    const double attention_bytes = precision.compact() && has_bf16_dot() ? 3 * 2 : 4 * 4;
    const bool int8 = precision.keep() == ops::Keep::kInt8;
    const double int8_bytes = 1 + 4.0 / 128;
    const double swiglu_bytes = int8 ? int8_bytes : precision.keep() == ops::Keep::kBf16 ? 2 : 4;
    const double norm_bytes = int8 ? int8_bytes : 4;

    MemoryPlan plan;
    plan.resident = resident_memory_bytes();
    plan.states = shape.states;
    plan.gradients = 4.0 * (shape.in_backward ? static_cast<double>(c.vocab_size) * d
                                              : static_cast<double>(models::parameter_count(c)));
    plan.packed_weights = weight_copies(precision);

    // The inputs of both norms, q, k, v and the output of attention, and the inputs of SwiGLU.
    const double elementwise =
        layers * rows * (2 * norm_bytes * d + attention_bytes * q + 2 * swiglu_bytes * ff);
    const double kept = elementwise + saved_inputs(precision, rows);
    plan.activations = shape.recompute ? layers * rows * 4 * d + kept / layers : kept;
    // The gradients of gate, up and their product, and of the residual stream; what was INT8.
    plan.block = rows * 4 * ((int8 ? 5 : 3) * ff + 3 * d);

    const auto vocabulary = static_cast<double>(c.vocab_size);
    // A head that is planned is measured: then its logits are one tensor, with their logarithmic
    // softmax and their gradient beside it.
    const bool measured = precision.table().back().candidate;
    const double group =
        measured ? rows : std::min(rows, static_cast<double>(ops::loss_group_rows(c.vocab_size)));
    const plan::Recipe& head =
        *precision.recipe(static_cast<std::uint32_t>(precision.table().size() - 1));
    const double logits = 4 * group * vocabulary, gradient = 4 * vocabulary * d;
    // FP32 operands are the logits' own gradient; the others are made in one pass over it.
    const auto copy = [](const formats::QuantSpec& spec, double r, double cols) {
        return spec.is_fp32() ? 0.0 : packed_bytes(spec, r, cols);
    };
    const double g_rows = copy(head[Slot::kDgrad].a, group, vocabulary);
    const double g_columns = copy(head[Slot::kWgrad].a, vocabulary, group);
    // The second group adds its gradient to that of the first; its logits are gone by then.
    plan.head = 4 * rows * d + (rows > group ? gradient : 0) + std::max(logits, gradient) + g_rows +
                g_columns + (measured ? 2 * logits : 0);
    plan.scratch = kFirstStep;
    if (!head[Slot::kDgrad].a.is_fp32()) plan.scratch += panel_bytes(group, vocabulary, d);
    return plan;
}

double resident_memory_bytes() {
    std::ifstream file("/proc/self/statm");
    double total = 0, resident = 0;
    file >> total >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace subbyte::train
