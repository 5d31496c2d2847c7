// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte info
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/core/cpu.h"
#include "subbyte/train/gemm_support.h"

namespace subbyte::cli {
namespace {

constexpr std::int64_t kSize = 1024;  // of the layer whose kernels are shown

const char* native_word(const train::GemmSupport& support) {
    return support.native ? "native" : "emulated";
}

nlohmann::json recipes_json() {
    nlohmann::json recipes = nlohmann::json::object();
    for (const std::string& name : plan::recipe_names()) {
        const auto support = train::recipe_support(plan::find_recipe(name), kSize, kSize, kSize);
        for (const plan::Slot slot : plan::kSlots) {
            const train::GemmSupport& gemm = support[static_cast<std::size_t>(slot)];
            recipes[name][std::string(plan::slot_name(slot))] = {{"kernel", gemm.kernel},
                                                                 {"native", gemm.native}};
        }
    }
    return recipes;
}

std::string recipes_text() {
    std::vector<std::vector<std::string>> rows{{"recipe", "fprop", "dgrad", "wgrad"}};
    for (const std::string& name : plan::recipe_names()) {
        std::vector<std::string> row{name};
        for (const auto& gemm :
             train::recipe_support(plan::find_recipe(name), kSize, kSize, kSize)) {
            row.push_back(fmt::format("{} ({})", native_word(gemm), gemm.kernel));
        }
        rows.push_back(std::move(row));
    }
    return table_text(rows);
}

void show_info(bool json) {
    const std::string detected(isa_name(detected_isa())), used(isa_name(max_isa()));
    const int threads = at::get_num_threads();
    if (json) {
        return print_json({{"version", SUBBYTE_VERSION},
                           {"cpu", cpu_model_name()},
                           {"isa", {{"detected", detected}, {"used", used}}},
                           {"threads", threads},
                           {"torch", TORCH_VERSION},
                           {"recipes", recipes_json()}});
    }
    print(fmt::format(
        "subbyte      {}\n"
        "processor    {}\n"
        "instructions {}{}\n"
        "threads      {}\n"
        "LibTorch     {}\n\n",
        SUBBYTE_VERSION, cpu_model_name(), used,
        used == detected ? "" : fmt::format(" (SUBBYTE_MAX_ISA; detected: {})", detected), threads,
        TORCH_VERSION));
    print(recipes_text());
}

}  // namespace

void add_info(CLI::App& program) {
    CLI::App* verb = program.add_subcommand(
        "info", "Processor, instruction set, LibTorch; which recipes are native here");
    auto json = std::make_shared<bool>(false);
    verb->add_flag("--json", *json, "As JSON");
    verb->callback([json] { show_info(*json); });

    program.add_subcommand("version", "The version")->callback([] {
        print("subbyte " SUBBYTE_VERSION "\n");
    });
}

}  // namespace subbyte::cli
