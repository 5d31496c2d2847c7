// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/code_values.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>

#include "subbyte/core/error.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::kernels {
namespace {

CodeValues make(const formats::ElementFormat& element) {
    if (element.bits > 8) {
        throw Error(ErrorCode::kInternal, fmt::format("no table of {} codes", element.name));
    }
    CodeValues values{};
    values.unit = formats::power_of_two(element.kind == formats::ElementKind::kFloat
                                            ? 1 - element.bias - element.mantissa_bits
                                            : -element.bias);
    for (std::uint32_t i = 0; i < 256; ++i) {
        const float value =
            formats::decode(element, i % static_cast<std::uint32_t>(element.code_count()));
        const std::uint32_t bits = formats::to_bits(value);
        if ((bits & 0xFFFF) != 0) {
            throw Error(ErrorCode::kInternal,
                        fmt::format("code {} of {} is not exact in bf16", i, element.name));
        }
        values.f32[i] = value;
        values.bf16_low[i] = static_cast<std::uint8_t>(bits >> 16);
        values.bf16_high[i] = static_cast<std::uint8_t>(bits >> 24);
        const float integer = value / values.unit;
        if (std::abs(integer) <= 128 && integer < 128) {
            values.integers[i] = static_cast<std::int8_t>(integer);
        }
    }
    return values;
}

}  // namespace

const CodeValues& code_values(const formats::ElementFormat& element) {
    static std::mutex mutex;
    static std::map<const formats::ElementFormat*, CodeValues> tables;
    std::lock_guard lock(mutex);
    const auto found = tables.find(&element);
    if (found != tables.end()) return found->second;
    return tables.emplace(&element, make(element)).first->second;
}

}  // namespace subbyte::kernels
