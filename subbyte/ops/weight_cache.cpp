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

bool WeightCache::Entry::holds(const QuantizedCopy& wanted) const {
    return copy.defined() && copy.spec == wanted.spec &&
           same_noise(wanted.spec, noise, wanted.noise);
}

// Forgets the copies of another tensor or of another version.
void WeightCache::follow(const at::Tensor& weight) {
    Source source{weight.storage().getWeakStorageImpl(), weight.storage_offset(),
                  weight._version()};
    if (!(source_ == source)) clear();
    source_ = std::move(source);
}

const QuantizedTensor& WeightCache::get(const at::Tensor& weight, bool transposed,
                                        const QuantizedCopy& wanted) {
    follow(weight);
    Entry& entry = entries_[transposed ? 1 : 0];
    if (!entry.holds(wanted)) {
        const at::Tensor w = weight.detach();
        entry = {quantize(transposed ? w.t() : w, wanted.spec, wanted.noise), wanted.noise};
    }
    return entry.copy;
}

void WeightCache::make_both(const at::Tensor& weight, const QuantizedCopy& rows,
                            const QuantizedCopy& columns) {
    follow(weight);
    if (entries_[0].holds(rows) || entries_[1].holds(columns)) return;
    QuantizedPair pair = quantize_both(weight.detach(), rows, columns);
    entries_[0] = {std::move(pair.rows), rows.noise};
    entries_[1] = {std::move(pair.columns), columns.noise};
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
