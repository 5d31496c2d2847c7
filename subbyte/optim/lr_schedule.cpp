// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/optim/option_check.h"
#include "subbyte/plan/json_reader.h"

namespace subbyte::optim {
namespace {

const std::vector<std::string> kShapes = {"constant", "linear", "cosine"};

}  // namespace

LrSchedule::LrSchedule(const LrScheduleOptions& options) : options_(options) {
    if (std::find(kShapes.begin(), kShapes.end(), options.shape) == kShapes.end()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("learning-rate shape '{}' is unknown", options.shape),
                    nearest_hint(options.shape, kShapes));
    }
    const bool constant = options.shape == "constant";
    const std::int64_t total = options.total_steps;
    const std::int64_t warmup = options.warmup_steps;
    check_option("peak", options.peak, options.peak >= 0, "at least 0");
    check_option("min_ratio", options.min_ratio, options.min_ratio >= 0 && options.min_ratio <= 1,
                 "in [0, 1]");
    check_option("total_steps", static_cast<double>(total), total >= (constant ? 0 : 1),
                 constant ? "at least 0 (0: no end)" : "at least 1");
    check_option("warmup_steps", static_cast<double>(warmup),
                 warmup >= 0 && (warmup <= total || (constant && total == 0)),
                 fmt::format("in 0 .. {}, the length of the curve", total));
}

double LrSchedule::lr_at(std::int64_t step) const {
    check_option("step", static_cast<double>(step), step >= 0, "at least 0");
    const auto& [shape, peak, min_ratio, warmup, total] = options_;
    if (step < warmup) {
        return peak * (static_cast<double>(step + 1) / static_cast<double>(warmup));
    }
    if (shape == "constant") return peak;
    const double minimum = peak * min_ratio;
    if (step >= total) return minimum;
    const double x = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
    const double height = shape == "linear" ? 1 - x : (1 + std::cos(std::numbers::pi * x)) / 2;
    return minimum + (peak - minimum) * height;
}

nlohmann::json LrSchedule::to_json() const {
    return {{"shape", options_.shape},
            {"peak", options_.peak},
            {"min_ratio", options_.min_ratio},
            {"warmup_steps", options_.warmup_steps},
            {"total_steps", options_.total_steps}};
}

LrSchedule LrSchedule::from_json(const nlohmann::json& saved) {
    const plan::JsonReader reader(saved, "learning-rate curve");
    reader.allow({"shape", "peak", "min_ratio", "warmup_steps", "total_steps"});
    const LrScheduleOptions options{.shape = reader["shape"].text(),
                                    .peak = reader["peak"].number(),
                                    .min_ratio = reader["min_ratio"].number(),
                                    .warmup_steps = reader["warmup_steps"].count(),
                                    .total_steps = reader["total_steps"].count()};
    try {
        return LrSchedule(options);
    } catch (const Error& error) {
        throw Error(ErrorCode::kData, fmt::format("learning-rate curve: {}", error.what()),
                    error.hint());
    }
}

std::string LrSchedule::describe() const {
    const auto& [shape, peak, min_ratio, warmup, total] = options_;
    if (shape == "constant") return fmt::format("constant {:g}, warm-up {}", peak, warmup);
    return fmt::format("{} {:g} -> {:g} over {} steps, warm-up {}", shape, peak, peak * min_ratio,
                       total, warmup);
}

bool operator==(const LrSchedule& a, const LrSchedule& b) {
    const LrScheduleOptions& x = a.options_;
    const LrScheduleOptions& y = b.options_;
    const bool start = x.shape == y.shape && x.peak == y.peak && x.warmup_steps == y.warmup_steps;
    // A constant rate has neither end nor minimum.
    return start && (x.shape == "constant" ||
                     (x.min_ratio == y.min_ratio && x.total_steps == y.total_steps));
}

}  // namespace subbyte::optim
