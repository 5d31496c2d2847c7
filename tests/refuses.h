// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "tests/error_of.h"

namespace subbyte {

// Whether `body` throws an Error of kind `code` whose message or hint says `part`, for EXPECT_TRUE.
inline ::testing::AssertionResult refuses(ErrorCode code, const std::function<void()>& body,
                                          std::string_view part) {
    const std::string text = refusal(code, body);
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace subbyte
