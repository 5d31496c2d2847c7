// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/weight_cache.h"

namespace subbyte::ops {
namespace {

bool same_noise(const formats::QuantSpec& spec, const NoiseAddress& a, const NoiseAddress& b) {
    return !spec.uses_noise() ||
           (a.seed == b.seed && a.step == b.step && a.layer == b.layer && a.role == b.role);
}

}  // namespace

const QuantizedTensor& WeightCache::get(const at::Tensor& weight, bool transposed,
                                        const formats::QuantSpec& spec, const NoiseAddress& noise) {
    Source source{weight.storage().getWeakStorageImpl(), weight.storage_offset(),
                  weight._version()};
    if (!(source_ == source)) clear();
    source_ = std::move(source);
    Entry& entry = entries_[transposed ? 1 : 0];
    const bool valid =
        entry.copy.defined() && entry.copy.spec == spec && same_noise(spec, entry.noise, noise);
    if (!valid) {
        const at::Tensor w = weight.detach();
        entry.copy = quantize(transposed ? w.t() : w, spec, noise);
        entry.noise = noise;
    }
    return entry.copy;
}

void WeightCache::clear() {
    for (Entry& entry : entries_) entry = Entry{};
}

std::int64_t WeightCache::bytes() const {
    std::int64_t total = 0;
    for (const Entry& entry : entries_) {
        if (entry.copy.defined() && !entry.copy.spec.is_fp32()) total += entry.copy.bytes();
    }
    return total;
}

}  // namespace subbyte::ops
