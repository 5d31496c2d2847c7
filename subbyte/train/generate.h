// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "subbyte/models/llama.h"

namespace subbyte::train {

struct SamplingOptions {
    std::int64_t tokens = 64;     // new tokens at most
    double temperature = 0.8;     // 0: always the most likely token
    std::int64_t top_k = 40;      // 0: all
    std::int64_t vocabulary = 0;  // ids from here on are never drawn; 0: all may be
    std::int64_t stop_id = -1;    // ends the text (not returned); -1: never
    std::uint64_t seed = 0;
};

// Continues `prompt` (ids, at least one). Token i is drawn with noise addressed by (seed, i), so
// equal seeds give equal text. The context is cut to max_position from the left. Error kUsage for
// an empty prompt or options out of range, kData when the model gives logits that are no numbers.
std::vector<std::int64_t> generate(models::Llama& model, std::vector<std::int64_t> prompt,
                                   const SamplingOptions& options);

}  // namespace subbyte::train
