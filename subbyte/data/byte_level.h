// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace subbyte::data {

// GPT-2's alphabet (encoder.py, bytes_to_unicode): a printable character for each byte, so that
// every vocabulary entry is text. The 188 printable Latin-1 characters stand for themselves, the
// other bytes are U+0100, U+0101, ... in their order; a blank is U+0120.
const std::array<std::string, 256>& byte_letters();  // UTF-8 of one character each

// The bytes that a vocabulary entry stands for; nothing when a character is outside of the
// alphabet.
std::optional<std::string> bytes_from_letters(std::string_view letters);

}  // namespace subbyte::data
