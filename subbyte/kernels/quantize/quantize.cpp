// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/quantize/quantize.h"

#include <fmt/format.h>

#include <array>

#include "subbyte/core/error.h"
#include "subbyte/kernels/quantize/tiled.h"

namespace subbyte::kernels {
namespace {

using formats::MatrixView;
using formats::PackedView;
using formats::QuantSpec;
using formats::ScaleFormat;

struct QuantizeProblem {
    QuantSpec spec;
    bool transposed_source = false;
};

using QuantizeKernel = Kernel<QuantizeProblem, void (*)(const MatrixView&, const QuantSpec&,
                                                        const NoiseAddress&, const PackedView&)>;
using DequantizeKernel = Kernel<QuantSpec, void (*)(const PackedView&, const QuantSpec&,
                                                    std::int64_t, std::int64_t, float*)>;

constexpr std::int64_t kMostLookedAt = 16 * 1024;  // elements of a tile that fits the cache

// The vector kernels take every view, and the specs that RowOps has loops for.
Refusal vector_refusal(const QuantSpec& spec) {
    const auto only_reference = [](std::string_view what) {
        return fmt::format("{} is reference only so far", what);
    };
    if (!spec.is_scaled()) return {};
    if (element_index(*spec.element) < 0) return only_reference(spec.element->name);
    const bool table = spec.element->kind == formats::ElementKind::kTable ||
                       spec.element->kind == formats::ElementKind::kLog;
    if (rounding_index(spec) < 0 || (table && spec.stochastic())) {
        return only_reference("this rounding");
    }
    if (spec.order != formats::ScaleOrder::kStandard && spec.order != formats::ScaleOrder::kTeB) {
        return only_reference("this order of operations");
    }
    const bool block = spec.tile.kind == formats::Tile::Kind::kBlock;
    const bool moved = rounding_index(spec) > 2;
    const bool looks_twice = spec.four_over_six != formats::FourOverSix::kOff || spec.ms_eden;
    if (looks_twice && (moved || !block || spec.tile.rows * spec.tile.cols > kMostLookedAt ||
                        spec.level_tile != formats::Tile::tensor())) {
        return only_reference("4over6 or mseden with such tiles or rounding");
    }
    return {};
}

constexpr auto accept_quantize = [](const QuantizeProblem&) { return Refusal{}; };
constexpr auto accept_dequantize = [](const QuantSpec&) { return Refusal{}; };
constexpr auto refuse_quantize = [](const QuantizeProblem& p) { return vector_refusal(p.spec); };

template <const RowOps& (*kOps)()>
void quantize_with(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
                   const PackedView& packed) {
    quantize_tiled(kOps(), source, {spec, noise, packed});
}

template <const RowOps& (*kOps)()>
void dequantize_with(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                     std::int64_t cols, float* out) {
    dequantize_tiled(kOps(), packed, spec, rows, cols, out);
}

constexpr std::array<QuantizeKernel, 3> kQuantize{{
    {"avx512", Isa::kAvx512, refuse_quantize, quantize_with<avx512_row_ops>},
    {"avx2", Isa::kAvx2, refuse_quantize, quantize_with<avx2_row_ops>},
    {"reference", Isa::kReference, accept_quantize, formats::quantize_reference},
}};

constexpr std::array<DequantizeKernel, 3> kDequantize{{
    {"avx512", Isa::kAvx512, vector_refusal, dequantize_with<avx512_row_ops>},
    {"avx2", Isa::kAvx2, vector_refusal, dequantize_with<avx2_row_ops>},
    {"reference", Isa::kReference, accept_dequantize, formats::dequantize_reference},
}};

std::span<const QuantizeKernel> quantize_kernels() { return kQuantize; }
std::span<const DequantizeKernel> dequantize_kernels() { return kDequantize; }

void check(std::string_view op, const QuantSpec& spec, std::int64_t rows, std::int64_t cols,
           const PackedView& packed, const void* values) {
    constexpr std::int64_t kMostElements = std::int64_t{1} << 51;
    if (rows < 0 || cols < 0 || (cols > 0 && rows >= kMostElements / cols)) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: impossible shape {} x {}", op, rows, cols));
    }
    if (rows == 0 || cols == 0) return;
    const bool scales = spec.scale == ScaleFormat::kFp32   ? packed.scales_f32 != nullptr
                        : spec.scale == ScaleFormat::kNone ? true
                                                           : packed.scale_codes != nullptr;
    if (values == nullptr || packed.codes == nullptr || !scales) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: {} x {} as {} without memory for {}", op,
                                                   rows, cols, formats::to_string(spec),
                                                   values == nullptr         ? "the values"
                                                   : packed.codes == nullptr ? "the codes"
                                                                             : "the scales"));
    }
    if (spec.second_level && packed.global_scale == nullptr) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: {} without memory for the second level", op,
                                                   formats::to_string(spec)));
    }
    if (spec.rotation.fresh && packed.signs == nullptr) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: {} without memory for the signs", op,
                                                   formats::to_string(spec)));
    }
}

}  // namespace

void quantize(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
              const PackedView& packed) {
    check("quantize", spec, source.rows, source.cols, packed, source.data);
    const QuantizeProblem problem{spec, source.col_stride != 1};
    choose("quantize", quantize_kernels(), problem).run(source, spec, noise, packed);
}

void quantize_both(const MatrixView& source, const QuantizeTarget& rows,
                   const QuantizeTarget& columns) {
    const MatrixView turned = transposed(source);
    check("quantize", rows.spec, source.rows, source.cols, rows.packed, source.data);
    check("quantize", columns.spec, turned.rows, turned.cols, columns.packed, source.data);
    const auto& a = choose("quantize", quantize_kernels(), {rows.spec, source.col_stride != 1});
    const auto& b = choose("quantize", quantize_kernels(), {columns.spec, turned.col_stride != 1});
    if (&a == &b && a.isa != Isa::kReference) {
        const RowOps& ops = a.isa == Isa::kAvx512 ? avx512_row_ops() : avx2_row_ops();
        return quantize_both_tiled(ops, source, rows, columns);
    }
    a.run(source, rows.spec, rows.noise, rows.packed);
    b.run(turned, columns.spec, columns.noise, columns.packed);
}

void quantize_computed(const ComputedMatrices& source, std::span<const QuantizeTargets> targets) {
    const RowOps* ops = nullptr;
    bool same = true;
    for (const QuantizeTargets& target : targets) {
        for (const QuantizeTarget* copy : {&target.rows, &target.columns}) {
            const bool turned = copy == &target.columns;
            check("quantize", copy->spec, turned ? source.cols : source.rows,
                  turned ? source.rows : source.cols, copy->packed, &source);
            const auto& kernel = choose("quantize", quantize_kernels(), {copy->spec, turned});
            const RowOps* const own = kernel.isa == Isa::kReference ? nullptr
                                      : kernel.isa == Isa::kAvx512  ? &avx512_row_ops()
                                                                    : &avx2_row_ops();
            same = same && own != nullptr && (ops == nullptr || ops == own);
            ops = own;
        }
    }
    if (same && quantize_computed_tiled(*ops, source, targets)) return;
    // As a whole, then.
    const std::int64_t size = source.rows * source.cols;
    std::vector<float> values(static_cast<std::size_t>(size) * targets.size());
    float* const out[] = {values.data(),
                          values.data() + static_cast<std::size_t>(size) * (targets.size() - 1)};
    source.compute({0, source.rows, 0, source.cols}, out, source.cols);
    for (std::size_t i = 0; i < targets.size(); ++i) {
        quantize_both({out[i], source.rows, source.cols, source.cols, 1}, targets[i].rows,
                      targets[i].columns);
    }
}

void dequantize(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                std::int64_t cols, float* out) {
    check("dequantize", spec, rows, cols, packed, out);
    choose("dequantize", dequantize_kernels(), spec).run(packed, spec, rows, cols, out);
}

std::vector<Candidate> explain_quantize(const QuantSpec& spec, bool transposed_source) {
    return explain("quantize", quantize_kernels(), {spec, transposed_source});
}

std::vector<Candidate> explain_dequantize(const QuantSpec& spec) {
    return explain("dequantize", dequantize_kernels(), spec);
}

}  // namespace subbyte::kernels
