// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::ops {

// What the ops between the linear layers keep of their inputs for backward: SwiGLU as it is named,
// kInt8 with one FP32 scale per 128 of a row, so 8.25 bits a value; norms see below. The forward
// pass is the same; gradients see what was kept.
enum class Keep { kFp32, kBf16, kInt8 };

std::vector<std::string> keep_names();               // "auto", then those of the enumeration
std::optional<Keep> keep_of(std::string_view name);  // none: "auto". Error kUsage for other names

// How that is stored.
const formats::QuantSpec& kept_spec(Keep keep);

// What norms keep: the residual stream goes on in FP32 anyway, so only kInt8 takes less.
inline Keep kept_by_norms(Keep keep) { return keep == Keep::kInt8 ? keep : Keep::kFp32; }

// An FP32 [..., D] input of the op called `op`, from its forward to its backward.
class KeptActivation {
public:
    KeptActivation() = default;
    KeptActivation(const at::Tensor& x, Keep keep);

    // FP32 or, for kBf16, BF16; INT8 is decoded. Error kUsage after release(): a second backward.
    at::Tensor load(std::string_view op) const;
    void release();

private:
    at::Tensor plain_;
    QuantizedTensor int8_;
    std::vector<std::int64_t> shape_;
};

}  // namespace subbyte::ops
