// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace subbyte {

struct Checksum::State {
    XXH64_state_t xxh64;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh64, 0); }

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
    XXH64_update(&state_->xxh64, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH64_digest(&state_->xxh64); }

std::uint64_t checksum_of(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

}  // namespace subbyte
