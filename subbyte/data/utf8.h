// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace subbyte::data {

// Length in bytes of the well-formed UTF-8 character at the front of `text` (not empty); 0 when
// there is none: stray or missing continuation bytes, overlong forms, surrogates, beyond U+10FFFF
// (Unicode 15, table 3-7).
std::size_t utf8_character(std::string_view text);

// Offset of the first byte that does not begin a well-formed character; npos for good UTF-8.
std::size_t find_invalid_utf8(std::string_view text);

// Each byte that begins no well-formed character becomes U+FFFD, the replacement character.
std::string repair_utf8(std::string_view text);

// The largest number <= `at` that does not lie inside a character of `text` (good UTF-8).
std::size_t utf8_boundary(std::string_view text, std::size_t at);

}  // namespace subbyte::data
