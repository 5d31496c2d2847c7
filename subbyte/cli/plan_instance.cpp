// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan --instance FILE
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/error.h"
#include "subbyte/core/file.h"
#include "subbyte/io/json_file.h"
#include "subbyte/plan/selection_json.h"

namespace subbyte::cli {
namespace {

// The instances of a file: one, or a list under "instances".
std::vector<nlohmann::json> read_instances(const std::string& file) {
    const nlohmann::json json = io::read_json(file);
    if (json.is_object() && json.contains("instances") && json["instances"].is_array()) {
        return json["instances"];
    }
    return {json};
}

std::string instance_name(const nlohmann::json& instance, std::size_t index) {
    const auto name = instance.is_object() ? instance.find("name") : instance.end();
    return name != instance.end() && name->is_string() ? name->get<std::string>()
                                                       : fmt::format("instance {}", index);
}

}  // namespace

void solve_instances(const PlanArguments& arguments) {
    nlohmann::json results = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows{
        {"instance", "status", "objective", "gap", "seconds"}};
    std::string unsolved;
    for (const nlohmann::json& instance : read_instances(arguments.instance)) {
        const std::string name = instance_name(instance, results.size());
        const plan::Selection selection =
            plan::solve_selection(plan::problem_from_json(instance), arguments.limits);
        const std::string status(plan::status_name(selection.status));
        const bool solved = !selection.choice.empty();
        if (!solved && unsolved.empty()) unsolved = fmt::format("{}: {}", name, status);
        results.push_back(plan::to_json(selection));
        results.back()["name"] = name;
        rows.push_back({name, status, solved ? fmt::format("{:.12g}", selection.objective) : "-",
                        fmt::format("{:.3g}", selection.gap),
                        fmt::format("{:.3f}", selection.seconds)});
    }
    const nlohmann::json result = results.size() == 1 ? results.front() : results;
    if (!arguments.out.empty()) write_text(arguments.out, result.dump(2) + "\n");
    if (arguments.json) {
        print_json(result);
    } else {
        print(table_text(rows));
    }
    if (!unsolved.empty()) {
        throw Error(ErrorCode::kUsage, unsolved,
                    "lower the target (best_gain in --json tells what is possible), or give more "
                    "--seconds");
    }
}

}  // namespace subbyte::cli
