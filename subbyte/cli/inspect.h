// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace subbyte::cli {

// Parts of the verb inspect that look at no file.
void add_inspect_kernels(CLI::App& inspect);
void add_inspect_formats(CLI::App& inspect);

// inspect plan FILE and inspect stats FILE: plans and statistics explained layer by layer.
void add_inspect_plan(CLI::App& inspect);

// The folder of a run, alone or beside another one (`against` not empty).
void inspect_run(const std::string& dir, const std::string& against, bool json);

}  // namespace subbyte::cli
