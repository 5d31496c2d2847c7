// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "subbyte/formats/spec.h"

namespace subbyte::formats {

// The option words of the spec grammar. Options that exclude each other share a group.
enum class OptionGroup { kRotation, kMsEden, kFourOverSix, kOrder, kGuard, kRounding };

struct OptionWord {
    std::string_view word;
    OptionGroup group;
    void (*apply)(QuantSpec& spec);
};

// Every word; "sr1" ... "sr15" among them.
std::span<const OptionWord> option_words();

// Words that say what the spec has, in canonical order.
std::string option_text(const QuantSpec& spec);

// Why this group of options does not fit to the rest of the spec; empty when it does.
std::string option_conflict(const QuantSpec& spec, OptionGroup group);

}  // namespace subbyte::formats
