// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect FILE | kernels | formats
#include "subbyte/cli/inspect.h"

#include <CLI/App.hpp>

#include "subbyte/cli/verbs.h"

namespace subbyte::cli {

void add_inspect(CLI::App& program) {
    CLI::App* verb = program.add_subcommand("inspect", "Look into files, kernels and formats");
    verb->require_subcommand(1);
    add_inspect_kernels(*verb);
    add_inspect_formats(*verb);
}

}  // namespace subbyte::cli
