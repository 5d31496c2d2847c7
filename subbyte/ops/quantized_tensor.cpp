// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/quantized_tensor.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/ops/dense_matmul.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

bool is_bf16(const formats::QuantSpec& spec) {
    return spec.element != nullptr && !spec.is_scaled() && spec.element->bits == 16;
}

at::TensorOptions options(at::ScalarType type) { return at::TensorOptions().dtype(type); }

void check_source(const at::Tensor& x) {
    if (x.dim() != 2 || x.scalar_type() != at::kFloat) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("quantize: a 2-D FP32 tensor is needed, got {} dimensions of {}",
                                x.dim(), c10::toString(x.scalar_type())));
    }
}

formats::MatrixView matrix(const at::Tensor& x) {
    return {x.const_data_ptr<float>(), x.size(0), x.size(1), x.stride(0), x.stride(1)};
}

QuantizedTensor as_it_is(const at::Tensor& x) {
    QuantizedTensor q;
    q.rows = x.size(0);
    q.cols = x.size(1);
    q.codes = x.detach();
    return q;
}

void check_lengths(const QuantizedTensor& a, const QuantizedTensor& b) {
    if (a.cols != b.cols) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("gemm: contraction lengths differ: {}x{} times ({}x{})^T", a.rows,
                                a.cols, b.rows, b.cols));
    }
}

void run_gemm(const QuantizedTensor& a, const QuantizedTensor& b, at::Tensor& d,
              std::string_view op, bool add) {
    use_torch_threads();
    install_dense_matmul();
    kernels::gemm(
        {a.rows, b.rows, a.cols, a.spec, b.spec},
        {.a = a.view(), .b = b.view(), .d = d.mutable_data_ptr<float>(), .op = op, .add = add});
}

// Memory for a packed copy.
QuantizedTensor room_for(const formats::QuantSpec& spec, std::int64_t rows, std::int64_t cols) {
    QuantizedTensor q;
    q.spec = spec;
    q.rows = rows;
    q.cols = cols;
    q.codes = is_bf16(spec)
                  ? at::empty({q.rows, q.cols}, options(at::kBFloat16))
                  : at::empty({q.rows, formats::row_bytes(spec, q.cols)}, options(at::kByte));
    if (spec.is_scaled()) {
        const formats::TileGrid grid(spec.tile, q.rows, q.cols);
        q.scales =
            at::empty({grid.grid_rows, grid.grid_cols},
                      options(spec.scale == formats::ScaleFormat::kFp32 ? at::kFloat : at::kByte));
    }
    if (spec.second_level) {
        const bool one = spec.level_tile == formats::Tile::tensor();
        const formats::TileGrid grid(spec.level_tile, q.rows, q.cols);
        q.global_scale = one ? at::empty({}, options(at::kFloat))
                             : at::empty({grid.grid_rows, grid.grid_cols}, options(at::kFloat));
    }
    if (spec.rotation.fresh) q.signs = at::empty({16}, options(at::kByte));
    return q;
}

}  // namespace

std::int64_t QuantizedTensor::bytes() const {
    std::int64_t total = 0;
    for (const at::Tensor* t : {&codes, &scales, &global_scale, &signs}) {
        if (t->defined()) total += static_cast<std::int64_t>(t->nbytes());
    }
    return total;
}

formats::PackedView QuantizedTensor::view() const {
    TORCH_INTERNAL_ASSERT(codes.is_contiguous());
    formats::PackedView view;
    view.codes = static_cast<std::uint8_t*>(codes.mutable_data_ptr());
    if (scales.defined()) {
        if (spec.scale == formats::ScaleFormat::kFp32) {
            view.scales_f32 = scales.mutable_data_ptr<float>();
        } else {
            view.scale_codes = scales.mutable_data_ptr<std::uint8_t>();
        }
    }
    if (global_scale.defined()) view.global_scale = global_scale.mutable_data_ptr<float>();
    if (signs.defined()) view.signs = static_cast<std::uint32_t*>(signs.mutable_data_ptr());
    return view;
}

QuantizedTensor quantize(const at::Tensor& x, const formats::QuantSpec& spec,
                         const NoiseAddress& noise) {
    check_source(x);
    use_torch_threads();
    if (spec.is_fp32()) return as_it_is(x);
    if (is_bf16(spec) && !spec.stochastic() && x.is_contiguous()) {
        return {spec, x.size(0), x.size(1), x.detach().to(at::kBFloat16), {}, {}, {}};
    }
    QuantizedTensor q = room_for(spec, x.size(0), x.size(1));
    kernels::quantize(matrix(x), spec, noise, q.view());
    return q;
}

QuantizedPair quantize_both(const at::Tensor& x, const QuantizedCopy& rows,
                            const QuantizedCopy& columns) {
    check_source(x);
    if (rows.spec.is_fp32() || columns.spec.is_fp32()) {
        return {quantize(x, rows.spec, rows.noise), quantize(x.t(), columns.spec, columns.noise)};
    }
    use_torch_threads();
    QuantizedPair pair{room_for(rows.spec, x.size(0), x.size(1)),
                       room_for(columns.spec, x.size(1), x.size(0))};
    kernels::quantize_both(matrix(x), {rows.spec, rows.noise, pair.rows.view()},
                           {columns.spec, columns.noise, pair.columns.view()});
    return pair;
}

std::vector<QuantizedPair> quantize_computed(const kernels::ComputedMatrices& x,
                                             std::initializer_list<QuantizedCopies> copies) {
    use_torch_threads();
    std::vector<QuantizedPair> pairs;
    std::vector<kernels::QuantizeTargets> targets;
    for (const QuantizedCopies& copy : copies) {
        pairs.push_back({room_for(copy.rows.spec, x.rows, x.cols),
                         room_for(copy.columns.spec, x.cols, x.rows)});
        targets.push_back({{copy.rows.spec, copy.rows.noise, pairs.back().rows.view()},
                           {copy.columns.spec, copy.columns.noise, pairs.back().columns.view()}});
    }
    kernels::quantize_computed(x, targets);
    return pairs;
}

at::Tensor dequantize(const QuantizedTensor& q) {
    if (q.spec.is_fp32()) return q.codes;
    if (q.codes.scalar_type() == at::kBFloat16) return q.codes.to(at::kFloat);
    use_torch_threads();
    at::Tensor out = at::empty({q.rows, q.cols}, options(at::kFloat));
    kernels::dequantize(q.view(), q.spec, q.rows, q.cols, out.mutable_data_ptr<float>());
    return out;
}

at::Tensor fake_quantize(const at::Tensor& x, const formats::QuantSpec& spec,
                         const NoiseAddress& noise) {
    const std::int64_t cols = x.dim() == 0 ? 1 : x.size(-1);
    const std::int64_t rows = cols == 0 ? 0 : x.numel() / cols;
    return dequantize(quantize(x.reshape({rows, cols}), spec, noise)).reshape(x.sizes());
}

at::Tensor gemm(const QuantizedTensor& a, const QuantizedTensor& b, std::string_view op) {
    check_lengths(a, b);
    if (a.spec.is_fp32() || b.spec.is_fp32()) return dense_matmul(dequantize(a), dequantize(b), op);
    at::Tensor d = at::empty({a.rows, b.rows}, options(at::kFloat));
    run_gemm(a, b, d, op, false);
    return d;
}

void add_gemm(const QuantizedTensor& a, const QuantizedTensor& b, at::Tensor& d,
              std::string_view op) {
    check_lengths(a, b);
    TORCH_INTERNAL_ASSERT(d.scalar_type() == at::kFloat && d.is_contiguous() &&
                          d.sizes() == at::IntArrayRef({a.rows, b.rows}));
    if (a.spec.is_fp32() || b.spec.is_fp32()) {
        d.add_(dense_matmul(dequantize(a), dequantize(b), op));
        return;
    }
    run_gemm(a, b, d, op, true);
    d.unsafeGetTensorImpl()->bump_version();
}

}  // namespace subbyte::ops
