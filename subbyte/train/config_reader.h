// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/train/config.h"
#include "subbyte/train/config_mistakes.h"

namespace subbyte::train {

// A configuration and where each of its values comes from.
struct LoadedConfig {
    Config config;
    std::map<std::string, Origin, std::less<>>
        origins;                     // by key path, rules also as precision.rule.N; absent: default
    std::vector<std::string> files;  // in the order read, the base first

    Origin origin(std::string_view path) const;
};

// Reads a TOML file, or a preset by name when there is no such file. Precedence, weakest first:
// built-in defaults, what the file `extends` (a file relative to it, or a preset), the file, `sets`
// in order. Each of `sets` is "section.key=value"; the value is TOML, a bare word is text. A list
// replaces a list. Error kData when the file cannot be read. Error kUsage that shows all mistakes
// of all files at once: unknown keys and sections, types, ranges, syntax, cycles of `extends`,
// contradictions between keys.
LoadedConfig load_config(const std::string& file_or_preset,
                         const std::vector<std::string>& sets = {});

// optim.grad_clip where nobody gives one. Stable-SPAM clips by itself; a global norm on top of it
// would hide the spikes that it looks for.
inline double default_grad_clip(std::string_view optimizer) {
    return optimizer == "stable-spam" ? 0.0 : Config{}.optim.grad_clip;
}

// The same for a text in memory; `name` stands for the file in messages and for relative `extends`.
LoadedConfig parse_config(std::string_view text, const std::string& name,
                          const std::vector<std::string>& sets = {});

}  // namespace subbyte::train
