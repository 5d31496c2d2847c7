// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::ops {

// Quantised copies of one weight, shared by the micro-batches of a step: W packed along K for fprop
// and W^T packed along N for dgrad. A copy is valid as long as the weight tensor is the same object
// in the same version (every in-place operation counts the version up) and the spec and noise
// address are the ones it was made with; otherwise it is made anew. Nothing outlives a change of
// its source, except one that LibTorch does not count: weight.data().copy_() and writes through a
// pointer need clear() (nn::clear_weight_caches() for a model).
class WeightCache {
public:
    const QuantizedTensor& get(const at::Tensor& weight, bool transposed,
                               const QuantizedCopy& wanted);
    // Makes the copy of W and that of W^T from one pass over W, unless one is there already.
    void make_both(const at::Tensor& weight, const QuantizedCopy& rows,
                   const QuantizedCopy& columns);
    void clear();
    std::int64_t bytes() const;

private:
    // The weak reference keeps the address of a freed storage from being taken for a new one.
    struct Source {
        c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
        std::int64_t offset = 0;
        std::int64_t version = 0;
        friend bool operator==(const Source& a, const Source& b) {
            return a.storage == b.storage && a.offset == b.offset && a.version == b.version;
        }
    };
    struct Entry {
        QuantizedTensor copy;
        NoiseAddress noise;
        bool holds(const QuantizedCopy& wanted) const;
    };
    void follow(const at::Tensor& weight);
    Source source_;     // what both copies were made of
    Entry entries_[2];  // [transposed]
};

}  // namespace subbyte::ops
