// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/pair_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "subbyte/formats/tile_scale.h"
#include "subbyte/kernels/gemm/code_values.h"

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
        case ScaleFormat::kUe5m3:
        case ScaleFormat::kUe5m3h: return {};
    }
    return fmt::format("operand {} has scales in {}", side, formats::scale_name(spec.scale));
}

std::string rotation_text(const formats::Rotation& rotation) {
    if (rotation.size == 0) return "not at all";
    return fmt::format("by rht{}{}", rotation.size, rotation.fresh ? "fresh" : "");
}

float guard(const QuantSpec& spec) {
    return spec.guard && spec.scale == ScaleFormat::kE8m0
               ? formats::unscaled(spec, 1.0f, 1.0f, 1.0f)
               : 1.0f;
}

float unit(const QuantSpec& spec) { return code_values(*spec.element).unit; }

// 8-bit integers are decoded to integers, whatever they count in.
float float_unit(const QuantSpec& spec) {
    const bool byte =
        spec.element->kind == formats::ElementKind::kInteger && spec.element->bits == 8;
    return byte ? unit(spec) : 1.0f;
}

}  // namespace

int scale_block(const GemmProblem& problem) {
    const std::int64_t common = std::gcd(cut(problem.a, problem.k), cut(problem.b, problem.k));
    for (int block : {128, 64, 32, 16}) {
        if (common % block == 0) return block;
    }
    return 0;
}

float float_factor(const GemmProblem& problem) {
    return float_unit(problem.a) * float_unit(problem.b) * guard(problem.a) * guard(problem.b);
}

float integer_factor(const GemmProblem& problem) {
    return unit(problem.a) * unit(problem.b) * guard(problem.a) * guard(problem.b);
}

Refusal refuse_pair(const GemmProblem& problem, std::initializer_list<std::string_view> elements) {
    for (const auto& [side, spec] : {std::pair{"A", &problem.a}, std::pair{"B", &problem.b}}) {
        Refusal refusal = refuse_operand(side, *spec, elements);
        if (!refusal.empty()) return refusal;
    }
    if (problem.a.rotation != problem.b.rotation) {
        return fmt::format("operand A is rotated {}, B {}", rotation_text(problem.a.rotation),
                           rotation_text(problem.b.rotation));
    }
    if (!problem.equal_signs) return "the operands are rotated with different signs";
    if (scale_block(problem) != 0) return {};
    const std::int64_t a = cut(problem.a, problem.k), b = cut(problem.b, problem.k);
    return fmt::format("scale tiles of {} columns: this kernel takes multiples of 16",
                       a % 16 != 0 ? a : b);
}

}  // namespace subbyte::kernels
