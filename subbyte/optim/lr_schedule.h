// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace subbyte::optim {

struct LrScheduleOptions {
    std::string shape = "cosine";   // after the warm-up: constant | linear | cosine
    double peak = 1e-3;             // >= 0
    double min_ratio = 0.1;         // [0, 1], end of the curve / peak; not used by constant
    std::int64_t warmup_steps = 0;  // >= 0, at most total_steps
    std::int64_t total_steps = 0;   // >= 1; constant: may be 0, without end
};

// Learning rate of each applied step: a linear warm-up, then from the peak down to the minimum.
//
//   warm-up, step k    peak (k+1) / warmup_steps            (reaches the peak in its last step)
//   after it           x = (step - warmup_steps) / (total_steps - warmup_steps)
//   linear             min + (peak - min) (1 - x)
//   cosine             min + (peak - min) (1 + cos(pi x)) / 2
//   from total_steps on  min for ever, it never rises
//
// A curve that is all warm-up (warmup_steps == total_steps) ends with the peak. A longer warm-up is
// an error: the run would end before the peak.
class LrSchedule {
public:
    // Error kUsage names the option, its value and its range; an unknown shape gets the nearest
    // name.
    explicit LrSchedule(const LrScheduleOptions& options);

    // `step`: steps applied so far (Optimizer::steps()), so a skipped step does not move along the
    // curve. Error kUsage when negative.
    double lr_at(std::int64_t step) const;

    const LrScheduleOptions& options() const { return options_; }

    // The curve as saved with a run; from_json (Error kData) restores it with the same bits.
    nlohmann::json to_json() const;
    static LrSchedule from_json(const nlohmann::json& saved);

    // One line: "cosine 0.001 -> 0.0001 over 100 steps, warm-up 5".
    std::string describe() const;

    // The same rate at every step.
    friend bool operator==(const LrSchedule& a, const LrSchedule& b);

private:
    LrScheduleOptions options_;
};

}  // namespace subbyte::optim
