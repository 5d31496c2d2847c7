// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace subbyte {

enum class LogLevel { kDebug, kInfo, kWarning };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// Installs the receiver of the library's messages and returns the one before. The library itself
// never prints: without a sink, messages are dropped.
LogSink set_log_sink(LogSink sink);

// Hands one message (no newline at its end) to the sink. Safe from any thread.
void log(LogLevel level, std::string_view message);

}  // namespace subbyte
