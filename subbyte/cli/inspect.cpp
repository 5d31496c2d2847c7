// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect FILE | RUN_DIR [--against OTHER_RUN] | plan | stats | kernels | formats
#include "subbyte/cli/inspect.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"
#include "subbyte/train/inspect_file.h"

namespace subbyte::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_table(const Json& value) {
    return value.is_array() && !value.empty() && value.front().is_object();
}

// Scalars and short lists as lines "name value", lists of objects as tables.
void print_object(const Json& json) {
    std::string text;
    for (const auto& [name, value] : json.items()) {
        if (is_table(value)) continue;
        if (!value.is_object()) {
            text += fmt::format("{:<12} {}\n", name, cell(value));
            continue;
        }
        for (const auto& [inner, entry] : value.items()) {
            text += fmt::format("{:<12} {} = {}\n", name, inner, cell(entry));
        }
    }
    for (const auto& [name, value] : json.items()) {
        if (!is_table(value)) continue;
        std::vector<std::vector<std::string>> rows(1);
        for (const auto& [head, entry] : value.front().items()) rows[0].push_back(head);
        for (const Json& line : value) {
            rows.emplace_back();
            for (const auto& [head, entry] : line.items()) rows.back().push_back(cell(entry));
        }
        text += "\n" + table_text(rows);
    }
    print(text);
}

struct InspectArguments {
    std::string path, against;
    bool json = false;
};

void show_file(const InspectArguments& arguments) {
    if (arguments.path.empty()) {
        throw Error(ErrorCode::kUsage, "inspect: nothing to look into",
                    "give a FILE, or one of: plan, stats, kernels, formats");
    }
    const std::filesystem::path path = arguments.path;
    if (!arguments.against.empty() || std::filesystem::exists(path / "log.jsonl") ||
        std::filesystem::exists(path / "config.resolved.toml")) {
        return inspect_run(arguments.path, arguments.against, arguments.json);
    }
    const Json content = train::inspect_file(arguments.path);
    if (arguments.json) return print_json(content);
    print_object(content);
}

}  // namespace

void add_inspect(CLI::App& program) {
    CLI::App* verb = program.add_subcommand("inspect", "Look into files, kernels and formats");
    auto arguments = std::make_shared<InspectArguments>();
    verb->add_option("FILE", arguments->path,
                     "Folder of a run, tensor file, token shard, plan, statistics, checkpoint or "
                     "model folder");
    verb->add_option("--against", arguments->against, "Another run to set beside the first")
        ->type_name("RUN_DIR");
    verb->add_flag("--json", arguments->json, "As JSON");
    verb->require_subcommand(0, 1);
    add_inspect_kernels(*verb);
    add_inspect_formats(*verb);
    add_inspect_plan(*verb);
    verb->callback([verb, arguments] {
        if (verb->get_subcommands().empty()) show_file(*arguments);
    });
}

}  // namespace subbyte::cli
