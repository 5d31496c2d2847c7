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
    // The copy of `x` and, where wanted, that of its transpose; `x` is the same at every call.
    QuantizedPair get(const at::Tensor& x, const QuantizedCopy& rows,
                      const QuantizedCopy* columns) {
        TORCH_INTERNAL_ASSERT(!x_.defined() || x_.const_data_ptr() == x.const_data_ptr());
        x_ = x;
        QuantizedPair pair{find(false, rows), columns != nullptr ? find(true, *columns) : none()};
        if (columns != nullptr && !pair.rows.defined() && !pair.columns.defined()) {
            pair = quantize_both(x, rows, *columns);
            keep(false, rows, pair.rows);
            keep(true, *columns, pair.columns);
            return pair;
        }
        if (!pair.rows.defined()) {
            pair.rows = quantize(x, rows.spec, rows.noise);
            keep(false, rows, pair.rows);
        }
        if (columns != nullptr && !pair.columns.defined()) {
            pair.columns = quantize(x.t(), columns->spec, columns->noise);
            keep(true, *columns, pair.columns);
        }
        return pair;
    }

private:
    struct Entry {
        bool columns;
        QuantizedTensor copy;
    };
    static QuantizedTensor none() { return {}; }
    QuantizedTensor find(bool columns, const QuantizedCopy& wanted) const {
        for (const Entry& entry : entries_) {
            if (entry.columns == columns && entry.copy.spec == wanted.spec) return entry.copy;
        }
        return {};
    }
    void keep(bool columns, const QuantizedCopy& made, const QuantizedTensor& copy) {
        if (!made.spec.uses_noise()) entries_.push_back({columns, copy});
    }
    at::Tensor x_;
    std::vector<Entry> entries_;
};

}  // namespace subbyte::ops
