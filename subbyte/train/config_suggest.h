// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subbyte::train {

// For a key `name` that `section` ("" = top level) does not have: the full paths of the known keys
// that may have been meant - the same name in another section, the name that other programs give
// it, or the nearest spelling. Empty when nothing is near.
std::vector<std::string> suggest_key(std::string_view section, std::string_view name);

// The same for a section path ("optimizer" -> "optim"); "" when nothing is near.
std::string suggest_section(std::string_view path);

}  // namespace subbyte::train
