// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "subbyte/bench/report.h"
#include "subbyte/core/cpu.h"
#include "subbyte/core/error.h"
#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/linear_operands.h"

namespace subbyte::bench {
namespace {

using plan::MachineProfile;
using plan::Slot;

struct Operands {
    ops::QuantizedTensor a, b;
};

// A layer with random operands.
struct ProfiledLayer {
    at::Tensor x, w, g;

    explicit ProfiledLayer(const LayerShape& s)
        : x(ops::gaussian({s.tokens, s.in}, {1, 0, 0, 0})),
          w(ops::gaussian({s.out, s.in}, {1, 0, 1, 0}).mul_(0.02)),
          g(ops::gaussian({s.tokens, s.out}, {1, 0, 2, 0}).mul_(1e-3)) {}

    ops::QuantizedTensor a(const ops::LinearContext& context, Slot slot) const {
        if (slot == Slot::kFprop) return ops::quantized_input(x, context, false).rows;
        const bool columns = slot == Slot::kWgrad;
        const auto pair = ops::quantized_gradient(g, context, !columns, columns);
        return columns ? pair.columns : pair.rows;
    }
    ops::QuantizedTensor b(const ops::LinearContext& context, Slot slot) const {
        if (slot != Slot::kWgrad) return ops::quantized_weight(w, context, slot);
        const auto copy = ops::columns_copy(context, ops::Operand::kB, 0);
        return ops::quantize(x.t(), copy.spec, copy.noise);
    }
};

// All recipes in turns, so that what disturbs the machine disturbs all of them.
void measure_slot(const ProfiledLayer& layer, Slot slot, const Effort& effort,
                  std::vector<MachineProfile::Entry>& entries) {
    std::vector<ops::LinearContext> contexts(entries.size());
    std::vector<Operands> operands;
    std::vector<Contender> contenders;
    operands.reserve(entries.size());
    for (std::size_t r = 0; r < entries.size(); ++r) {
        ops::LinearContext& context = contexts[r];
        context.recipe = std::make_shared<const plan::Recipe>(plan::find_recipe(entries[r].recipe));
        operands.push_back({layer.a(context, slot), layer.b(context, slot)});
        const Operands& ready = operands.back();
        contenders.push_back({"product", [&ready] { ops::gemm(ready.a, ready.b); }});
        contenders.push_back({"a", [&, slot] { layer.a(context, slot); }});
        contenders.push_back({"b", [&, slot] { layer.b(context, slot); }});
        // A reference to the layer's own tensor is no copy.
        const bool copied = !(*context.recipe)[slot].b.is_fp32();
        const double bytes = static_cast<double>(ready.b.bytes());
        if (slot == Slot::kWgrad) {
            entries[r].activation_bytes += bytes;
        } else if (copied) {
            entries[r].weight_bytes += bytes;
        }
    }
    const std::vector<Timing> timings = contest(contenders, effort.least_rounds, effort.seconds);
    for (std::size_t r = 0; r < entries.size(); ++r) {
        entries[r].slots[static_cast<std::size_t>(slot)] = {timings[3 * r].median_seconds,
                                                            timings[3 * r + 1].median_seconds,
                                                            timings[3 * r + 2].median_seconds};
    }
}

}  // namespace

plan::MachineProfile measure_profile(const std::vector<LayerShape>& shapes,
                                     const std::vector<std::string>& recipes,
                                     const Effort& effort) {
    if (shapes.empty()) {
        throw Error(ErrorCode::kUsage, "a machine profile of no shapes",
                    "name a model or shapes, e.g. 1024x512x1376");
    }
    std::vector<std::string> names{"bf16"};  // what every saving is measured against
    for (const std::string& recipe : recipes) {
        plan::find_recipe(recipe);
        if (std::find(names.begin(), names.end(), recipe) == names.end()) names.push_back(recipe);
    }
    for (const LayerShape& s : shapes) check_sizes({{"T", s.tokens}, {"K", s.in}, {"N", s.out}});
    const at::NoGradGuard no_grad;
    const ThreadScope threads(effort.threads);
    MachineProfile profile{.cpu = cpu_model_name(),
                           .isa = std::string(isa_name(max_isa())),
                           .threads = at::get_num_threads(),
                           .entries = {}};
    Effort part = effort;
    part.seconds /= static_cast<double>(plan::kSlots.size());
    for (const LayerShape& shape : shapes) {
        std::vector<MachineProfile::Entry> entries;
        for (const std::string& name : names) {
            entries.push_back({.recipe = name,
                               .tokens = shape.tokens,
                               .in_features = shape.in,
                               .out_features = shape.out,
                               .slots = {}});
        }
        const ProfiledLayer layer(shape);
        for (const Slot slot : plan::kSlots) measure_slot(layer, slot, part, entries);
        profile.entries.insert(profile.entries.end(), entries.begin(), entries.end());
    }
    return profile;
}

}  // namespace subbyte::bench
