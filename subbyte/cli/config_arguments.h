// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/train/config_reader.h"

namespace CLI {
class App;
}

namespace subbyte::cli {

// CONFIG [--set KEY=VALUE]..., shared by the verbs that read a configuration. `arguments` must
// outlive the parsing.
struct ConfigArguments {
    std::string file;
    std::vector<std::string> sets;
};
void add_config_arguments(CLI::App& verb, ConfigArguments& arguments);
train::LoadedConfig load(const ConfigArguments& arguments);

}  // namespace subbyte::cli
