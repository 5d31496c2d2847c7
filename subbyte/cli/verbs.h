// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace subbyte::cli {

// Each adds one verb to the program: its arguments, and a callback that does the work. Callbacks
// report failure by throwing; main() prints it and chooses the exit code.
void add_bench(CLI::App& program);
void add_config(CLI::App& program);
void add_eval(CLI::App& program);
void add_generate(CLI::App& program);
void add_import(CLI::App& program);
void add_info(CLI::App& program);
void add_inspect(CLI::App& program);
void add_plan(CLI::App& program);
void add_quantize(CLI::App& program);
void add_train(CLI::App& program);

}  // namespace subbyte::cli
