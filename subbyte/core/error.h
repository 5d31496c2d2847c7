// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace subbyte {

// What kind of thing went wrong. The values are the exit codes of the command line.
enum class ErrorCode {
    kInternal = 1,  // a broken promise of our own
    kUsage = 2,     // command line, configuration, or a wrong argument of a public function
    kData = 3,      // a file or its content
    kDiverged = 4,  // training became non-finite or left its bounds
    kHardware = 5,  // this machine lacks what was demanded
};

// The one exception type of the library.
// `message` says what happened, where, and with which values; `hint` says what to try (may be
// empty).
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message, std::string hint = {})
        : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

    ErrorCode code() const { return code_; }
    const std::string& hint() const { return hint_; }

private:
    ErrorCode code_;
    std::string hint_;
};

}  // namespace subbyte
