// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace subbyte::train {

// Where a value comes from.
struct Origin {
    enum class Kind { kDefault, kFile, kSet };
    Kind kind = Kind::kDefault;
    std::string file;  // kFile: path or preset name; kSet: the argument as written
    int line = 0, column = 0;

    static Origin whole_file(std::string file) { return {Kind::kFile, std::move(file), 0, 0}; }
    static Origin set(std::string argument) { return {Kind::kSet, std::move(argument), 0, 0}; }
    // "default", "run.toml:3", "--set optim.lr=1"; `with_column` for messages.
    std::string text(bool with_column = false) const;
};

// One thing that is wrong in a configuration.
struct Mistake {
    Origin where;
    std::string what;  // "unknown key lr in [train]"
    std::string fix;   // "did you mean optim.lr?"; may be empty
};

// Nothing when the list is empty, else Error kUsage that shows all of them, in the order of the
// file.
void throw_mistakes(std::vector<Mistake> mistakes);

}  // namespace subbyte::train
