// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace subbyte::cli {

// Thrown by a verb that ends early without an error (interrupted: 130, 143); main() leaves with the
// code.
struct Exit {
    explicit Exit(int exit_code) : code(exit_code) {}
    int code;
};

}  // namespace subbyte::cli
