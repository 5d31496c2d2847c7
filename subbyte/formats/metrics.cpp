// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "subbyte/core/parallel.h"
#include "subbyte/formats/code_stream.h"

namespace subbyte::formats {
namespace {

// Sums of one row. Eight accumulators by column modulo 8 shorten the chain of additions; they are
// added up in a fixed order, and rows are added up in theirs.
struct RowSums {
    double error = 0.0, source = 0.0, max_error = 0.0;
    std::int64_t saturated = 0, underflow = 0, nonfinite = 0;
};

RowSums sum_row(const MatrixView& source, const QuantSpec& spec, const PackedView& packed,
                const float* decoded, std::int64_t r) {
    constexpr double kClipped = 1.0 - 0x1p-20;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool coded = spec.is_scaled() && spec.rotation.size == 0;
    const int bits = coded ? spec.element->bits : 0;
    const std::uint32_t top = coded ? encode(*spec.element, kInfinity, Rounding::kNearestEven) : 0;
    const std::uint32_t bottom =
        coded ? encode(*spec.element, -kInfinity, Rounding::kNearestEven) : 0;
    const std::uint8_t* const row =
        coded ? packed.codes + r * row_bytes(spec, source.cols) : nullptr;
    std::array<double, 8> error{}, power{};
    RowSums sums;
    for (std::int64_t c = 0; c < source.cols; ++c) {
        const double x = source.at(r, c);
        const double y = decoded[r * source.cols + c];
        if (!std::isfinite(x) || !std::isfinite(y)) {
            ++sums.nonfinite;
            continue;
        }
        const double difference = y - x;
        const auto lane = static_cast<std::size_t>(c % 8);
        error[lane] += difference * difference;
        power[lane] += x * x;
        sums.max_error = std::max(sums.max_error, std::abs(difference));
        if (y == 0.0 && x != 0.0) ++sums.underflow;
        if (coded && std::abs(y) < std::abs(x) * kClipped) {
            const std::uint32_t code = load_code(row, bits, c);
            if (code == (x > 0.0 ? top : bottom)) ++sums.saturated;
        }
    }
    for (std::size_t lane = 0; lane < error.size(); ++lane) {
        sums.error += error[lane];
        sums.source += power[lane];
    }
    return sums;
}

}  // namespace

QuantizationError measure_error(const MatrixView& source, const QuantSpec& spec,
                                const PackedView& packed, const float* decoded) {
    std::vector<RowSums> rows(static_cast<std::size_t>(source.rows));
    const std::int64_t grain =
        std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, source.cols));
    parallel_for(source.rows, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
            rows[static_cast<std::size_t>(r)] = sum_row(source, spec, packed, decoded, r);
        }
    });
    RowSums total;
    for (const RowSums& row : rows) {
        total.error += row.error;
        total.source += row.source;
        total.max_error = std::max(total.max_error, row.max_error);
        total.saturated += row.saturated;
        total.underflow += row.underflow;
        total.nonfinite += row.nonfinite;
    }
    QuantizationError result;
    result.error_norm = std::sqrt(total.error);
    result.source_norm = std::sqrt(total.source);
    result.max_abs_error = total.max_error;
    result.nonfinite = total.nonfinite;
    if (total.source > 0.0) result.relative_error = std::sqrt(total.error / total.source);
    result.sqnr_db = result.relative_error > 0.0 ? -20.0 * std::log10(result.relative_error)
                                                 : std::numeric_limits<double>::infinity();
    const auto counted = static_cast<double>(source.rows * source.cols - total.nonfinite);
    if (counted > 0.0) {
        result.saturated_share = static_cast<double>(total.saturated) / counted;
        result.underflow_share = static_cast<double>(total.underflow) / counted;
    }
    return result;
}

}  // namespace subbyte::formats
