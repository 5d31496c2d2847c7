// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "subbyte/core/error.h"

namespace subbyte {

// Message and hint, a line each, of the Error of kind `code` that `body` throws; "accepted" when
// there is none. Fails the test when it is of another kind.
inline std::string refusal(ErrorCode code, const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
        return std::string(error.what()) + "\n" + error.hint();
    }
    return "accepted";
}

// The same where there must be an error.
inline std::string error_of(ErrorCode code, const std::function<void()>& body) {
    const std::string text = refusal(code, body);
    EXPECT_NE(text, "accepted");
    return text;
}

}  // namespace subbyte
