// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/memory_plan.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "subbyte/core/cpu.h"
#include "subbyte/ops/block_cache.h"
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

// The recipe of a layer: the one in force, or the same for all.
using RecipeOf = std::function<const plan::Recipe&(std::uint32_t layer)>;

// Bytes of tensors, and how many of them are in tensors of the C library: the block cache keeps
// what larger ones have freed (ops/block_cache.h), so neither pool can use the other's.
struct Held {
    double all = 0, small = 0;

    void add(double bytes, double count = 1) {
        all += bytes * count;
        if (bytes < static_cast<double>(ops::kCachedFrom)) small += bytes * count;
    }
    void add(const Held& other, double count = 1) {
        all += other.all * count;
        small += other.small * count;
    }
};

// Sum over the layers of what wgrad will read. Layers of one block that read the same X in the same
// spec share a copy; they follow one another in the table.
Held saved_inputs(const plan::LayerTable& table, const RecipeOf& recipe_of, double rows) {
    Held total;
    std::string last_key;
    for (std::uint32_t i = 0; i < table.size(); ++i) {
        const plan::LayerInfo& layer = table[i];
        if (layer.block < 0) continue;
        const formats::QuantSpec& spec = recipe_of(i)[Slot::kWgrad].b;
        const bool shares =
            layer.type == "k_proj" || layer.type == "v_proj" || layer.type == "up_proj";
        const std::string key = formats::to_string(spec);
        if (!shares || key != last_key) {
            total.add(packed_bytes(spec, static_cast<double>(layer.in_features), rows));
        }
        last_key = key;
    }
    return total;
}

double weight_copies(const plan::LayerTable& table, const RecipeOf& recipe_of) {
    double total = 0;
    for (std::uint32_t i = 0; i < table.size(); ++i) {
        const auto in = static_cast<double>(table[i].in_features);
        const auto out = static_cast<double>(table[i].out_features);
        const formats::QuantSpec& w = recipe_of(i)[Slot::kFprop].b;
        const formats::QuantSpec& wt = recipe_of(i)[Slot::kDgrad].b;
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

// What is kept from forward to backward, all blocks: the inputs of both norms, q, k, v and the
// output of attention, the inputs of SwiGLU, and those of the GEMMs.
Held activations_of(const models::LlamaConfig& c, const nn::Precision& precision,
                    const RecipeOf& recipe_of, double rows, bool recompute) {
    const auto d = static_cast<double>(c.hidden_size),
               ff = static_cast<double>(c.intermediate_size);
    const auto q = static_cast<double>(c.heads * c.head_size());
    const auto layers = static_cast<double>(c.layers);
    const auto kept_bytes = [&](ops::Keep keep, double width) {
        return packed_bytes(ops::kept_spec(keep), rows, width);
    };
    Held kept = saved_inputs(precision.table(), recipe_of, rows);
    kept.add(kept_bytes(ops::kept_by_norms(precision.keep()), d), 2 * layers);
    // q, k, v in BF16, or all four in FP32.
    if (precision.compact() && has_bf16_dot()) {
        kept.add(rows * 2 * q, 3 * layers);
    } else {
        kept.add(rows * 4 * q, 4 * layers);
    }
    kept.add(kept_bytes(precision.keep(), ff), 2 * layers);
    if (!recompute) return kept;
    Held one;
    one.add(rows * 4 * d, layers);
    one.add(kept, 1 / layers);
    return one;
}

// Head and loss of so many rows. `whole`: the logits are one tensor, with their logarithmic softmax
// and their gradient beside it; otherwise they come in groups of rows.
double head_bytes(const models::LlamaConfig& c, const plan::Recipe& head, double rows, bool whole) {
    const auto d = static_cast<double>(c.hidden_size);
    const auto vocabulary = static_cast<double>(c.vocab_size);
    const double group =
        whole ? rows : std::min(rows, static_cast<double>(ops::loss_group_rows(c.vocab_size)));
    const double logits = 4 * group * vocabulary, gradient = 4 * vocabulary * d;
    // FP32 operands are the logits' own gradient; the others are made in one pass over it.
    const auto copy = [](const formats::QuantSpec& spec, double r, double cols) {
        return spec.is_fp32() ? 0.0 : packed_bytes(spec, r, cols);
    };
    const double g_rows = copy(head[Slot::kDgrad].a, group, vocabulary);
    const double g_columns = copy(head[Slot::kWgrad].a, vocabulary, group);
    // The second group adds its gradient to that of the first; its logits are gone by then.
    return 4 * rows * d + (rows > group ? gradient : 0) + std::max(logits, gradient) + g_rows +
           g_columns + (whole ? 2 * logits : 0);
}

// What the passes after a measuring step hold beside the gradients of the step and the weights
// packed in BF16. A pass drops each gradient as soon as it is looked at. The graph of the pass
// without noise stays for those with noise in dX; beside it is the graph of a pass with noise in Y.
Held probes_of(const models::LlamaConfig& c, const nn::Precision& precision, const RecipeOf& bf16,
               bool recompute, const MeasuringShape& measuring) {
    const auto longer = [](const Held& a, const Held& b) {
        return Held{std::max(a.all, b.all), std::max(a.small, b.small)};
    };
    const auto pass = [&](double rows, bool whole_logits) {
        Held graph = activations_of(c, precision, bf16, rows, recompute);
        Held with_head = graph;
        with_head.all += head_bytes(c, bf16(0), rows, whole_logits);
        return std::pair(graph, with_head);
    };
    Held noise, drawn;
    if (measuring.probe_rows > 0) {
        const auto [graph, most] = pass(static_cast<double>(measuring.probe_rows), false);
        noise.add(graph);
        noise.add(most);
        for (const plan::LayerInfo& layer :
             precision.table()) {  // sampled rows, see snip/noise_probe.cpp
            const double rows = std::min(static_cast<double>(layer.out_features), 127.0);
            noise.add(4 * rows * static_cast<double>(layer.in_features));
        }
    }
    if (measuring.drawn_rows > 0) {
        drawn = pass(static_cast<double>(measuring.drawn_rows), true).second;
    }
    return longer(noise, drawn);
}

}  // namespace

double MemoryPlan::peak() const {
    const double at_head = activations + std::max(head, block + listening);
    const double at_end = gradients + block + listening;
    const double step = packed_weights + std::max(at_head, at_end);
    return resident + scratch + states + std::max(step + small_probes, probes);
}

MemoryPlan plan_memory(const models::LlamaConfig& c, const nn::Precision& precision,
                       const MemoryShape& shape) {
    const auto rows = static_cast<double>(shape.rows);
    const auto d = static_cast<double>(c.hidden_size),
               ff = static_cast<double>(c.intermediate_size);
    const plan::LayerTable& table = precision.table();
    const RecipeOf recipe_of = [&](std::uint32_t layer) -> const plan::Recipe& {
        return *precision.recipe(layer);
    };
    const double all_gradients = 4.0 * static_cast<double>(models::parameter_count(c));

    MemoryPlan plan;
    plan.resident = resident_memory_bytes();
    plan.states = shape.states;
    // A measuring step has all gradients at once.
    plan.gradients = shape.in_backward && !shape.measuring
                         ? 4.0 * static_cast<double>(c.vocab_size) * d
                         : all_gradients;
    plan.packed_weights = weight_copies(table, recipe_of);
    plan.activations = activations_of(c, precision, recipe_of, rows, shape.recompute).all;
    // The gradients of gate, up and their product, and of the residual stream; what was INT8.
    const bool int8 = precision.keep() == ops::Keep::kInt8;
    plan.block = rows * 4 * ((int8 ? 5 : 3) * ff + 3 * d);

    // A head that is planned is measured, and its logits are one tensor.
    const plan::Recipe& head = recipe_of(static_cast<std::uint32_t>(table.size() - 1));
    const bool measured = table.back().candidate;
    plan.head = head_bytes(c, head, rows, measured);
    plan.scratch = kFirstStep;
    if (!head[Slot::kDgrad].a.is_fp32()) {
        const double group =
            measured ? rows
                     : std::min(rows, static_cast<double>(ops::loss_group_rows(c.vocab_size)));
        plan.scratch += panel_bytes(group, static_cast<double>(c.vocab_size), d);
    }
    if (!shape.measuring) return plan;

    const MeasuringShape& measuring = *shape.measuring;
    // The decoded copy of the widest tensor, its transpose and codes; and dX of each of the layers
    // that read the same X, which an ordinary step adds up in place.
    plan.listening = rows * ((4 + 4 + 1) * std::max(ff, d) + 2 * 4 * d);
    const auto q = static_cast<double>(c.heads * c.head_size());
    const double kept_blocks = shape.recompute ? 1.0 : static_cast<double>(c.layers);
    if (measuring.keeps_inputs || measuring.noise_guard) {
        plan.activations += kept_blocks * rows * 4 * (2 * d + q + ff);
    }
    if (measuring.noise_guard) plan.gradients += all_gradients;
    if (measuring.probe_rows == 0 && measuring.drawn_rows == 0) return plan;
    const plan::Recipe high = plan::find_recipe("bf16");
    const RecipeOf bf16 = [&](std::uint32_t) -> const plan::Recipe& { return high; };
    const Held held = probes_of(c, precision, bf16, shape.recompute, measuring);
    plan.small_probes = held.small;
    plan.probes = weight_copies(table, bf16) + all_gradients + held.all +
                  (measuring.noise_guard ? all_gradients : 0);
    return plan;
}

double resident_memory_bytes() {
    std::ifstream file("/proc/self/statm");
    double total = 0, resident = 0;
    file >> total >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace subbyte::train
