// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subbyte {

// The candidate with the smallest edit distance to `name`; empty when none is close enough to be
// meant (more than half of the letters differ).
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'x'?", or a list of the candidates when none is close.
std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace subbyte
