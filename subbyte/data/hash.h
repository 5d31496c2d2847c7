// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace subbyte::data {

// XXH64 with seed 0 (xxHash specification 0.1.1): a checksum against damage and for recognising
// content, not against forgery.
class Hash64 {
public:
    Hash64();
    ~Hash64();
    Hash64(Hash64&&) noexcept;
    Hash64& operator=(Hash64&&) noexcept;

    void update(const void* data, std::size_t size);
    std::uint64_t digest() const;  // of everything so far

private:
    struct State;
    std::unique_ptr<State> state_;
};

std::uint64_t hash64(std::string_view bytes);

}  // namespace subbyte::data
