// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "subbyte/data/text_reader.h"
#include "subbyte/data/tokenizer.h"

namespace subbyte::data {

// Hands the ids of a text file to `sink`, in order and in pieces, then the tokenizer's end mark.
// Uses all threads; the ids do not depend on their number. Error kData as TextReader.
void encode_file(const TextRange& text, const Tokenizer& tokenizer,
                 const std::function<void(std::span<const std::int32_t>)>& sink);

}  // namespace subbyte::data
