// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::ops {

// Quantised copies of one input X that several layers read (q, k, v; gate, up): made once, shared.
// Lives on the stack of the forward pass of the module that holds these layers. Only copies that
// need no noise can be shared.
class InputCache {
public:
    // The copy of `x` (its transpose with `columns`) in `spec`; `x` is the same at every call.
    QuantizedTensor get(const at::Tensor& x, bool columns, const formats::QuantSpec& spec) {
        TORCH_INTERNAL_ASSERT(!x_.defined() || x_.const_data_ptr() == x.const_data_ptr());
        x_ = x;
        for (const Entry& entry : entries_) {
            if (entry.columns == columns && entry.copy.spec == spec) return entry.copy;
        }
        entries_.push_back({columns, quantize(columns ? x.t() : x, spec, {})});
        return entries_.back().copy;
    }

private:
    struct Entry {
        bool columns;
        QuantizedTensor copy;
    };
    at::Tensor x_;
    std::vector<Entry> entries_;
};

}  // namespace subbyte::ops
