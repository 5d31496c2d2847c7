// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace subbyte::data {

struct Hash64::State {
    XXH64_state_t value;
};

Hash64::Hash64() : state_(std::make_unique<State>()) { XXH64_reset(&state_->value, 0); }
Hash64::~Hash64() = default;
Hash64::Hash64(Hash64&&) noexcept = default;
Hash64& Hash64::operator=(Hash64&&) noexcept = default;

void Hash64::update(const void* data, std::size_t size) {
    XXH64_update(&state_->value, data, size);
}

std::uint64_t Hash64::digest() const { return XXH64_digest(&state_->value); }

std::uint64_t hash64(std::string_view bytes) {
    Hash64 hash;
    hash.update(bytes.data(), bytes.size());
    return hash.digest();
}

}  // namespace subbyte::data
