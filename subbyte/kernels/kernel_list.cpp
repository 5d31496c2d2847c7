// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/kernel_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "subbyte/core/error.h"

namespace subbyte::kernels {
namespace {

using ForcedMap = std::map<std::string, std::string, std::less<>>;

constexpr std::array<std::string_view, 3> kOps{"quantize", "dequantize", "gemm"};

ForcedMap parse(std::string_view text) {
    ForcedMap forced;
    while (!text.empty()) {
        const std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), item.size() + 1));
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
            throw Error(
                ErrorCode::kUsage,
                fmt::format("SUBBYTE_FORCE_KERNEL holds '{}', which is not op=kernel", item),
                "write for example gemm=reference,quantize=avx2");
        }
        const std::string_view op = item.substr(0, equals);
        if (std::find(kOps.begin(), kOps.end(), op) == kOps.end()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("SUBBYTE_FORCE_KERNEL names the unknown op '{}'", op),
                        fmt::format("use one of: {}", fmt::join(kOps, ", ")));
        }
        forced[std::string(op)] = item.substr(equals + 1);
    }
    return forced;
}

ForcedMap& forced_map() {
    static ForcedMap map = [] {
        const char* text = std::getenv("SUBBYTE_FORCE_KERNEL");
        return parse(text == nullptr ? "" : text);
    }();
    return map;
}

}  // namespace

std::string_view forced_kernel(std::string_view op) {
    const ForcedMap& map = forced_map();
    const auto entry = map.find(op);
    return entry == map.end() ? std::string_view{} : std::string_view{entry->second};
}

void force_kernels(std::string_view text) { forced_map() = parse(text); }

namespace detail {

Refusal isa_refusal(Isa needed) {
    if (needed <= max_isa()) return {};
    if (needed > detected_isa()) {
        return fmt::format("needs {}, this processor has {}", isa_name(needed),
                           isa_name(detected_isa()));
    }
    return fmt::format("needs {}, capped at {} by SUBBYTE_MAX_ISA", isa_name(needed),
                       isa_name(max_isa()));
}

void fail_unknown(std::string_view op, std::string_view name,
                  const std::vector<std::string_view>& known) {
    throw Error(ErrorCode::kUsage,
                fmt::format("SUBBYTE_FORCE_KERNEL asks for {}={}, which does not exist", op, name),
                fmt::format("kernels of {}: {}", op, fmt::join(known, ", ")));
}

void fail_refused(std::string_view op, const std::vector<Candidate>& candidates) {
    std::string reasons;
    for (const Candidate& candidate : candidates) {
        reasons += fmt::format("\n  {}: {}", candidate.kernel, candidate.refusal);
    }
    throw Error(ErrorCode::kUsage, fmt::format("no {} kernel takes this problem:{}", op, reasons),
                "unset SUBBYTE_FORCE_KERNEL or change the format");
}

}  // namespace detail
}  // namespace subbyte::kernels
