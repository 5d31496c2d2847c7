// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/loss_adjuster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"

namespace subbyte::snip {

LossAdjuster::LossAdjuster(const LossAdjustOptions& options) : options_(options) {
    const auto demand = [](bool good, const std::string& what, const char* range) {
        if (!good) throw Error(ErrorCode::kUsage, "loss adjustment: " + what, range);
    };
    demand(options.step >= 0 && options.step <= 1, fmt::format("step {}", options.step),
           "the step of the target is between 0 (off) and 1");
    demand(options.window >= 1, fmt::format("window {}", options.window),
           "the window is 1 step or more");
    demand(options.progress >= 0 && options.progress < 1,
           fmt::format("progress {}", options.progress),
           "the progress that is enough is 0 or more and below 1");
    demand(options.range >= 0 && options.range <= 1, fmt::format("range {}", options.range),
           "the range of the target is between 0 and 1");
}

std::vector<ControlEvent> LossAdjuster::end_step(double loss) {
    if (!active() || !std::isfinite(loss)) return {};
    sum_ += loss;
    if (++count_ < options_.window) return {};
    const double mean = sum_ / static_cast<double>(count_);
    sum_ = 0;
    count_ = 0;
    const std::optional<double> before = std::exchange(last_, mean);
    if (!before) return {};
    const double progress = (*before - mean) / std::max(1e-12, std::abs(*before));
    const bool good = progress >= options_.progress;
    const double moved = std::clamp(offset_ + (good ? options_.step : -options_.step),
                                    -options_.range, options_.range);
    if (moved == offset_) return {};
    ControlEvent event{.control = "loss-adjust", .action = good ? "lower" : "raise"};
    event.reason = fmt::format(
        "loss {:.4f} after {:.4f} in the {} steps before: progress {:.2f} %, {:.2f} % are enough; "
        "target {:+.3f} instead of {:+.3f} from its schedule",
        mean, *before, options_.window, 100 * progress, 100 * options_.progress, moved, offset_);
    offset_ = moved;
    return {event};
}

double LossAdjuster::adjusted(double target, double most) const {
    return active() ? std::clamp(target + offset_, 0.0, most) : target;
}

nlohmann::json LossAdjuster::state() const {
    nlohmann::json json{{"offset", offset_}, {"sum", sum_}, {"count", count_}};
    if (last_) json["last"] = *last_;
    return json;
}

void LossAdjuster::load_state(const nlohmann::json& state) {
    offset_ = state.at("offset").get<double>();
    sum_ = state.at("sum").get<double>();
    count_ = state.at("count").get<std::int64_t>();
    last_.reset();
    if (state.contains("last")) last_ = state.at("last").get<double>();
}

}  // namespace subbyte::snip
