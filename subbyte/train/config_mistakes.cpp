// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "subbyte/core/error.h"

namespace subbyte::train {
namespace {

constexpr const char* kGeneralHint = "`subbyte config schema` lists every key";

std::string located(const Mistake& mistake) {
    return fmt::format("{}: {}", mistake.where.text(true), mistake.what);
}

}  // namespace

std::string Origin::text(bool with_column) const {
    switch (kind) {
        case Kind::kDefault: return "default";
        case Kind::kSet: return "--set " + file;
        case Kind::kFile: break;
    }
    if (line == 0) return file;
    return with_column && column > 0 ? fmt::format("{}:{}:{}", file, line, column)
                                     : fmt::format("{}:{}", file, line);
}

void throw_mistakes(std::vector<Mistake> mistakes) {
    if (mistakes.empty()) return;
    if (mistakes.size() == 1) {
        const Mistake& only = mistakes.front();
        throw Error(ErrorCode::kUsage, located(only), only.fix.empty() ? kGeneralHint : only.fix);
    }
    // By file and place; arguments stay in their order.
    const auto order = [](const Mistake& m) {
        const bool in_file = m.where.kind == Origin::Kind::kFile;
        return std::make_tuple(m.where.kind, in_file ? m.where.file : std::string(), m.where.line,
                               m.where.column);
    };
    std::stable_sort(mistakes.begin(), mistakes.end(),
                     [&](const Mistake& a, const Mistake& b) { return order(a) < order(b); });
    std::string message = fmt::format("{} mistakes in the configuration", mistakes.size());
    for (const Mistake& mistake : mistakes) {
        message += "\n  " + located(mistake);
        if (!mistake.fix.empty()) message += "; " + mistake.fix;
    }
    throw Error(ErrorCode::kUsage, message, kGeneralHint);
}

}  // namespace subbyte::train
