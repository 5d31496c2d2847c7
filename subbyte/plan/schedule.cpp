// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::plan {
namespace {

template <typename Number>
void demand(bool good, const char* field, Number value, const char* range) {
    if (good) return;
    throw Error(ErrorCode::kUsage, fmt::format("plan schedule: {} = {}", field, value),
                fmt::format("{} must be {}", field, range));
}

bool is_share(double value) { return value >= 0 && value <= 1; }

}  // namespace

std::string_view schedule_name(TargetSchedule schedule) {
    switch (schedule) {
        case TargetSchedule::kConstant: return "constant";
        case TargetSchedule::kArticle: return "article";
        case TargetSchedule::kQualityHeld: return "quality-held";
    }
    throw Error(ErrorCode::kInternal, "a target schedule without a name");
}

std::vector<std::string> schedule_names() { return {"constant", "article", "quality-held"}; }

TargetSchedule schedule_from_name(std::string_view name) {
    for (const TargetSchedule schedule :
         {TargetSchedule::kConstant, TargetSchedule::kArticle, TargetSchedule::kQualityHeld}) {
        if (name == schedule_name(schedule)) return schedule;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown schedule of the target '{}'", name),
                nearest_hint(name, schedule_names()));
}

void PlanSchedule::check() const {
    demand(is_share(initial_target), "initial_target", initial_target, "between 0 and 1");
    demand(is_share(max_target), "max_target", max_target, "between 0 and 1");
    demand(initial_target <= max_target, "max_target", max_target, "at least initial_target");
    demand(is_share(target_increment), "target_increment", target_increment, "between 0 and 1");
    demand(increment_every >= 1, "increment_every", increment_every, "1 or more");
    demand(update_interval >= 1, "update_interval", update_interval, "1 or more");
    demand(warmup_steps >= 0, "warmup_steps", warmup_steps, "0 or more");
    demand(is_share(freeze_fraction), "freeze_fraction", freeze_fraction, "between 0 and 1");
    demand(total_steps >= 0, "total_steps", total_steps, "0 or more");
    demand(swap_delay >= 1 && swap_delay <= update_interval, "swap_delay", swap_delay,
           "between 1 and update_interval");
}

std::int64_t PlanSchedule::freeze_start() const {
    if (total_steps == 0) return std::numeric_limits<std::int64_t>::max();
    // 1e-9: a share that makes whole steps must not lose one to rounding.
    const double frozen = std::floor(freeze_fraction * static_cast<double>(total_steps) + 1e-9);
    return total_steps - static_cast<std::int64_t>(frozen);
}

bool PlanSchedule::frozen_at(std::int64_t step) const { return step >= freeze_start(); }

bool PlanSchedule::collects_at(std::int64_t step) const {
    return !never && step >= warmup_steps && (step - warmup_steps) % update_interval == 0 &&
           !frozen_at(step + swap_delay);
}

double PlanSchedule::target_at(std::int64_t step) const {
    if (step < warmup_steps) return 0.0;
    if (target == TargetSchedule::kConstant) return initial_target;
    if (target == TargetSchedule::kQualityHeld) return max_target;
    const std::int64_t counted = std::max(std::min(step, freeze_start() - 1), warmup_steps);
    const std::int64_t raises = (counted - warmup_steps) / increment_every;
    return std::min(max_target, initial_target + static_cast<double>(raises) * target_increment);
}

}  // namespace subbyte::plan
