// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte config show | check | schema
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/config_arguments.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/train/config_writer.h"

namespace subbyte::cli {
namespace {

void add_show(CLI::App& config) {
    CLI::App* verb =
        config.add_subcommand("show", "The resolved configuration, with the origin of each value");
    auto arguments = std::make_shared<ConfigArguments>();
    auto json = std::make_shared<bool>(false);
    add_config_arguments(*verb, *arguments);
    verb->add_flag("--json", *json, "As JSON");
    verb->callback([arguments, json] {
        const train::LoadedConfig loaded = load(*arguments);
        if (*json) return print_json(train::to_json(loaded));
        print(train::to_toml(loaded));
    });
}

void add_check(CLI::App& config) {
    CLI::App* verb = config.add_subcommand("check", "All mistakes of a configuration, or \"good\"");
    auto arguments = std::make_shared<ConfigArguments>();
    add_config_arguments(*verb, *arguments);
    verb->callback([arguments] {
        load(*arguments);
        print(fmt::format("{}: good\n", arguments->file));
    });
}

void add_schema(CLI::App& config) {
    CLI::App* verb =
        config.add_subcommand("schema", "Every key with type, default, range and meaning");
    auto json = std::make_shared<bool>(false);
    verb->add_flag("--json", *json, "As JSON");
    verb->callback([json] {
        if (*json) return print_json(train::schema_json());
        print(train::schema_text());
    });
}

}  // namespace

void add_config_arguments(CLI::App& verb, ConfigArguments& arguments) {
    verb.add_option("CONFIG", arguments.file, "TOML file, or the name of a preset")->required();
    verb.add_option("--set", arguments.sets, "Change one key: section.key=value (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
}

train::LoadedConfig load(const ConfigArguments& arguments) {
    return train::load_config(arguments.file, arguments.sets);
}

void add_config(CLI::App& program) {
    CLI::App* verb = program.add_subcommand("config", "Show, check and explain configurations");
    verb->require_subcommand(1);
    add_show(*verb);
    add_check(*verb);
    add_schema(*verb);
}

}  // namespace subbyte::cli
