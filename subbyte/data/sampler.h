// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "subbyte/data/windows.h"

namespace subbyte::data {

// The order in which training goes through its windows: every window once per epoch, each epoch in
// an order of its own. The order is a function of (seed, position), so the position is the whole
// state and batches do not depend on how a run was cut into micro-batches, steps or sessions.
class Sampler {
public:
    // `batch_size`: sequences of a step. When there are fewer windows, they repeat within a step,
    // which is logged once (kInfo) here.
    Sampler(Windows windows, std::int64_t batch_size, std::uint64_t seed, bool shuffle = true);

    const Windows& windows() const { return windows_; }
    std::int64_t position() const { return position_; }  // samples handed out since the run began
    std::int64_t epoch() const { return position_ / windows_.count(); }

    // The next `rows` windows. A step asks once for all its sequences or once per micro-batch: the
    // windows are the same.
    Batch next(std::int64_t rows);

    // {"samples": position, ...}; the other members tell which data and order it belongs to.
    nlohmann::json state() const;
    // Continues at the saved position. Another seed, window length or other data are allowed, since
    // the user may have asked for them: the position stays, the order is the new one, and a line in
    // the log (kWarning) says what differs. Error kData for a state that is not one.
    void restore(const nlohmann::json& state);

private:
    std::int64_t window_at(std::int64_t position) const;

    Windows windows_;
    std::uint64_t seed_;
    bool shuffle_;
    std::int64_t position_ = 0;
};

}  // namespace subbyte::data
