// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace subbyte {

// XXH64 with seed 0, fed piece by piece. Finds damage, not forgery.
class Checksum {
public:
    Checksum();
    ~Checksum();
    Checksum(Checksum&&) noexcept;
    Checksum& operator=(Checksum&&) noexcept;
    void update(std::span<const std::byte> bytes);
    std::uint64_t value() const;  // of everything so far

private:
    struct State;
    std::unique_ptr<State> state_;
};

std::uint64_t checksum_of(std::string_view text);

}  // namespace subbyte
