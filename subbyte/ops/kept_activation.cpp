// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/kept_activation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "subbyte/core/error.h"

namespace subbyte::ops {

std::vector<std::string> keep_names() { return {"auto", "fp32", "bf16", "int8"}; }

std::optional<Keep> keep_of(std::string_view name) {
    const std::vector<std::string> names = keep_names();
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
        throw Error(ErrorCode::kUsage, fmt::format("activations cannot be kept as \"{}\"", name),
                    fmt::format("{}", fmt::join(names, ", ")));
    }
    if (at == names.begin()) return std::nullopt;
    return static_cast<Keep>(at - names.begin() - 1);
}

const formats::QuantSpec& kept_spec(Keep keep) {
    static const std::array<formats::QuantSpec, 3> specs{formats::parse_spec("fp32"),
                                                         formats::parse_spec("bf16"),
                                                         formats::parse_spec("int8:1x128:f32")};
    return specs[static_cast<std::size_t>(keep)];
}

KeptActivation::KeptActivation(const at::Tensor& x, Keep keep) {
    if (keep == Keep::kInt8) {
        shape_ = x.sizes().vec();
        int8_ = quantize(x.reshape({-1, x.size(-1)}), kept_spec(keep));
    } else {
        plain_ = keep == Keep::kBf16 ? x.to(at::kBFloat16) : x;
    }
}

at::Tensor KeptActivation::load(std::string_view op) const {
    if (int8_.defined()) return dequantize(int8_).reshape(shape_);
    if (!plain_.defined()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("backward was called twice through the same {}", op),
                    "run the forward pass again before the second backward");
    }
    return plain_;
}

void KeptActivation::release() {
    plain_.reset();
    int8_ = {};
}

}  // namespace subbyte::ops
