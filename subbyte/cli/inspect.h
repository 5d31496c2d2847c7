// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace subbyte::cli {

// Parts of the verb inspect that look at no file.
void add_inspect_kernels(CLI::App& inspect);
void add_inspect_formats(CLI::App& inspect);

}  // namespace subbyte::cli
