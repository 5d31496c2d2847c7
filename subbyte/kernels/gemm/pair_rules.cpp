// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/pair_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace subbyte::kernels {
namespace {

using formats::QuantSpec;
using formats::ScaleFormat;
using formats::Tile;

// Column extent of the tiles where it cuts K; 0 otherwise.
std::int64_t cut(const QuantSpec& spec, std::int64_t k) {
    const bool cuts =
        spec.is_scaled() && spec.tile.kind == Tile::Kind::kBlock && spec.tile.cols < k;
    return cuts ? spec.tile.cols : 0;
}

Refusal refuse_operand(std::string_view side, const QuantSpec& spec,
                       std::initializer_list<std::string_view> elements) {
    if (spec.is_fp32()) return fmt::format("operand {} is fp32", side);
    if (std::find(elements.begin(), elements.end(), spec.element->name) == elements.end()) {
        return fmt::format("operand {} is {}: this kernel takes {}", side, spec.element->name,
                           fmt::join(elements, ", "));
    }
    switch (spec.scale) {
        case ScaleFormat::kNone:
        case ScaleFormat::kFp32:
        case ScaleFormat::kE8m0:
        case ScaleFormat::kUe4m3:
            // Rotations, guards and the like decode in another way than codes times scales.
            if (spec.is_basic()) return {};
            return fmt::format("operand {} is {}", side, formats::to_string(spec));
        default: break;
    }
    return fmt::format("operand {} has {} scales: this kernel takes f32, e8m0, ue4m3", side,
                       formats::scale_name(spec.scale));
}

}  // namespace

int scale_block(const GemmProblem& problem) {
    const std::int64_t common = std::gcd(cut(problem.a, problem.k), cut(problem.b, problem.k));
    for (int block : {128, 64, 32, 16}) {
        if (common % block == 0) return block;
    }
    return 0;
}

Refusal refuse_pair(const GemmProblem& problem, std::initializer_list<std::string_view> elements) {
    for (const auto& [side, spec] : {std::pair{"A", &problem.a}, std::pair{"B", &problem.b}}) {
        Refusal refusal = refuse_operand(side, *spec, elements);
        if (!refusal.empty()) return refusal;
    }
    if (scale_block(problem) != 0) return {};
    const std::int64_t a = cut(problem.a, problem.k), b = cut(problem.b, problem.k);
    return fmt::format("scale tiles of {} columns: this kernel takes multiples of 16",
                       a % 16 != 0 ? a : b);
}

}  // namespace subbyte::kernels
