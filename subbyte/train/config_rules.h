// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/train/config.h"

namespace subbyte::train {

// True when the glob (`*` any text, `?` one character, `[ab]` one of them) covers the whole name.
bool glob_match(const std::string& pattern, const std::string& name);

// Hint for a pattern that matches no layer: the nearest layer name.
std::string unmatched_hint(const std::string& pattern, const plan::LayerTable& table);

// What the rules say about each layer: recipe names per plan::Slot, "" where no rule speaks. Layers
// without any rule are absent. The last match wins. Error kUsage for a rule that matches no layer.
std::map<std::string, std::array<std::string, 3>> resolve_rules(
    const std::vector<Config::Rule>& rules, const plan::LayerTable& table);

// What fixed_layers() comes to, one line per kind of layer and recipe: "down_proj of blocks 0-21:
// bf16", "lm_head: fprop fp8, dgrad fp8, wgrad as planned". Same error.
std::vector<std::string> rule_lines(const Config::Precision& precision,
                                    const plan::LayerTable& table);

// What no plan changes, as recipes per plan::Slot ("": the plan's): what the rules match, and the
// rest of the head ("lm_head") as precision.head says. Error kUsage for a rule that matches no
// layer.
std::map<std::string, std::array<std::string, 3>> fixed_layers(const Config::Precision& precision,
                                                               const plan::LayerTable& table);

}  // namespace subbyte::train
