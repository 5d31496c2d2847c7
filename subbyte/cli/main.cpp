// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "subbyte/cli/exit.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/ops/block_cache.h"

namespace subbyte::cli {
namespace {

std::vector<std::string> verb_names(const CLI::App& program) {
    std::vector<std::string> names;
    for (const CLI::App* verb : program.get_subcommands({})) names.push_back(verb->get_name());
    return names;
}

// CLI11 would call a misspelled verb "an argument that was not expected".
void check_verb(const CLI::App& program, int argc, char** argv) {
    if (argc < 2) {
        throw Error(
            ErrorCode::kUsage, "no verb given",
            fmt::format("`subbyte --help`; verbs: {}", fmt::join(verb_names(program), ", ")));
    }
    const std::string verb = argv[1];
    if (verb.starts_with('-')) return;
    const std::vector<std::string> known = verb_names(program);
    if (std::find(known.begin(), known.end(), verb) == known.end()) {
        throw Error(ErrorCode::kUsage, fmt::format("unknown verb '{}'", verb),
                    nearest_hint(verb, known));
    }
}

// "subbyte config show --help": the innermost verb that was recognised.
std::string help_hint(const CLI::App& program) {
    std::string command = "subbyte";
    const CLI::App* at = &program;
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().front();
        command += " " + at->get_name();
    }
    return fmt::format("`{} --help` shows what it takes", command);
}

int run(int argc, char** argv) {
    ops::keep_tensor_blocks();
    CLI::App program{
        "subbyte trains neural networks in 8-bit and 4-bit arithmetic and decides while it "
        "trains\nwhich precision each matrix multiplication of each layer gets.",
        "subbyte"};
    program.set_version_flag("--version", std::string("subbyte " SUBBYTE_VERSION));
    bool quiet = false, verbose = false;
    program.add_flag("-q,--quiet", quiet, "Only warnings and results");
    program.add_flag("-v,--verbose", verbose, "More messages");
    program.parse_complete_callback([&] { show_messages(quiet, verbose); });
    program.require_subcommand(1);
    program.fallthrough();
    program.get_formatter()->label("SUBCOMMAND", "VERB");
    program.get_formatter()->label("Subcommands", "Verbs");
    add_train(program);
    add_config(program);
    add_eval(program);
    add_generate(program);
    add_import(program);
    add_info(program);
    add_inspect(program);
    add_plan(program);
    add_quantize(program);
    add_bench(program);

    try {
        check_verb(program, argc, argv);
        program.parse(argc, argv);
    } catch (const Exit& request) {
        return request.code;
    } catch (const CLI::Success& request) {  // --help, --version
        return program.exit(request);
    } catch (const CLI::ParseError& error) {
        return print_error(Error(ErrorCode::kUsage, error.what(), help_hint(program)));
    } catch (const std::exception& error) {
        return print_error(error);
    }
    return 0;
}

}  // namespace
}  // namespace subbyte::cli

int main(int argc, char** argv) {
    // A file beyond the limit of the process (ulimit -f, some quotas) is an error like a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    try {
        return subbyte::cli::run(argc, argv);
    } catch (...) {
        std::fputs(
            "error: out of memory while reporting an error\n  hint: use a smaller model or batch\n",
            stderr);
        return 1;
    }
}
