// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subbyte::train {

// The files of configs/, built into the program, so that `extends = "llama-60m"` works wherever it
// runs.
std::vector<std::string> config_presets();
std::string_view config_preset_text(std::string_view name);  // data() == nullptr: no such preset

}  // namespace subbyte::train
