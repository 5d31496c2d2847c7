// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_candidates.h"

#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/train/config_rules.h"

namespace subbyte::train {
namespace {

void set_candidate(plan::LayerTable& table, const std::string& glob, bool candidate) {
    bool matched = false;
    for (plan::LayerInfo& layer : table) {
        if (!glob_match(glob, layer.name)) continue;
        if (candidate && !layer.candidate) layer.pinned = {};
        layer.candidate = candidate;
        matched = true;
    }
    if (matched) return;
    if (glob_match(glob, "model.embed_tokens") || glob.find("embed") != std::string::npos) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("'{}': an embedding is a table look-up, there is no GEMM to choose "
                                "a precision for",
                                glob),
                    "plans are for linear layers; the head is one: lm_head");
    }
    throw Error(ErrorCode::kUsage, fmt::format("'{}' matches no layer", glob),
                unmatched_hint(glob, table));
}

}  // namespace

void choose_candidates(plan::LayerTable& table, const std::vector<std::string>& include,
                       const std::vector<std::string>& exclude) {
    for (const std::string& glob : include) set_candidate(table, glob, true);
    for (const std::string& glob : exclude) set_candidate(table, glob, false);
}

}  // namespace subbyte::train
