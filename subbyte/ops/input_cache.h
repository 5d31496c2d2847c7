// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "subbyte/ops/layer_input.h"
#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::ops {

// Quantised copies of one input X that several layers read (q, k, v; gate, up): made once, shared.
// Lives on the stack of the forward pass of the module that holds these layers. Only copies that
// need no noise can be shared.
class InputCache {
public:
    explicit InputCache(LayerInput x) : x_(std::move(x)) {}

    // The copy of X and, where wanted, that of its transpose. X becomes a tensor only where one of
    // them alone is missing, or is to be FP32.
    QuantizedPair get(const QuantizedCopy& rows, const QuantizedCopy* columns) {
        QuantizedPair pair{find(false, rows), columns != nullptr ? find(true, *columns) : none()};
        if (columns != nullptr && !pair.rows.defined() && !pair.columns.defined()) {
            const bool plain = rows.spec.is_fp32() || columns->spec.is_fp32();
            pair = x_.values() == nullptr || plain
                       ? quantize_both(matrix(), rows, *columns)
                       : std::move(quantize_computed(*x_.values(), {{rows, *columns}}).front());
            keep(false, rows, pair.rows);
            keep(true, *columns, pair.columns);
            return pair;
        }
        if (!pair.rows.defined()) {
            pair.rows = quantize(matrix(), rows.spec, rows.noise);
            keep(false, rows, pair.rows);
        }
        if (columns != nullptr && !pair.columns.defined()) {
            pair.columns = quantize(matrix().t(), columns->spec, columns->noise);
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
    at::Tensor matrix() const {
        const at::Tensor x = x_.tensor().detach();
        return x.reshape({-1, x.size(-1)}).contiguous();
    }
    LayerInput x_;
    std::vector<Entry> entries_;
};

}  // namespace subbyte::ops
