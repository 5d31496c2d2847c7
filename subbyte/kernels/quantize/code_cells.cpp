// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/quantize/code_cells.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/core/float_mode.h"
#include "subbyte/formats/element.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::kernels {
namespace {

CodeCells make_cells(const formats::ElementFormat& element, formats::Rounding rounding) {
    const IeeeFloatScope exact;
    CodeCells cells;
    for (std::uint32_t i = 0; i < 2 * CodeCells::kHalf; ++i) {
        const std::uint32_t at = i % CodeCells::kHalf, sign = i < CodeCells::kHalf ? 0 : 1u << 31;
        const auto code = [&](std::uint32_t magnitude) {
            return formats::encode(element, formats::from_bits(magnitude | sign), rounding);
        };
        const std::uint32_t first = at == 0 ? 0 : (at + CodeCells::kLowest) << CodeCells::kShift;
        const std::uint32_t last = ((at + CodeCells::kLowest + 1) << CodeCells::kShift) - 1;
        const std::uint32_t low = code(first), high = code(last);
        // The smallest magnitude whose code is not `low`.
        std::uint32_t below = first, threshold = last;
        while (low != high && threshold - below > 1) {
            const std::uint32_t middle = below + (threshold - below) / 2;
            (code(middle) == low ? below : threshold) = middle;
        }
        if (code(threshold) != high) {
            throw Error(ErrorCode::kInternal,
                        fmt::format("{} has three codes in one cell", element.name));
        }
        cells.cell[i] = {threshold, low | high << 8};
    }
    return cells;
}

const formats::ElementFormat& element_named(std::string_view name) {
    const formats::ElementFormat* const element = formats::find_element(name);
    if (element == nullptr) {
        throw Error(ErrorCode::kInternal, fmt::format("no element format '{}'", name));
    }
    return *element;
}

}  // namespace

const CodeCells& code_cells(std::string_view name, formats::Rounding rounding) {
    static std::mutex mutex;
    static std::map<std::pair<std::string_view, formats::Rounding>, CodeCells> tables;
    const std::lock_guard lock(mutex);
    const auto found = tables.find({name, rounding});
    if (found != tables.end()) return found->second;
    return tables.emplace(std::pair{name, rounding}, make_cells(element_named(name), rounding))
        .first->second;
}

const float* decoded_codes(std::string_view name) {
    static std::mutex mutex;
    static std::map<std::string_view, std::array<float, 256>> tables;
    const std::lock_guard lock(mutex);
    const auto [found, fresh] = tables.try_emplace(name);
    if (fresh) {
        const formats::ElementFormat& element = element_named(name);
        for (std::uint32_t i = 0; i < 256; ++i) {
            found->second[i] =
                formats::decode(element, i % static_cast<std::uint32_t>(element.code_count()));
        }
    }
    return found->second.data();
}

}  // namespace subbyte::kernels
