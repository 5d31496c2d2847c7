// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/log.h"

#include <mutex>
#include <utility>

namespace subbyte {
namespace {

std::mutex& sink_mutex() {
    static std::mutex mutex;
    return mutex;
}

LogSink& current_sink() {
    static LogSink sink;
    return sink;
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
    std::lock_guard lock(sink_mutex());
    return std::exchange(current_sink(), std::move(sink));
}

void log(LogLevel level, std::string_view message) {
    std::lock_guard lock(sink_mutex());
    if (current_sink()) current_sink()(level, message);
}

}  // namespace subbyte
