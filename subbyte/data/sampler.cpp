// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/sampler.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
#include "subbyte/data/permutation.h"

namespace subbyte::data {

Sampler::Sampler(Windows windows, std::int64_t batch_size, std::uint64_t seed, bool shuffle)
    : windows_(std::move(windows)), seed_(seed), shuffle_(shuffle) {
    if (windows_.count() < batch_size) {
        log(LogLevel::kInfo,
            fmt::format(
                "data: {} windows of {} tokens are fewer than the {} sequences of a step: they "
                "repeat within a step",
                windows_.count(), windows_.seq_len(), batch_size));
    }
}

std::int64_t Sampler::window_at(std::int64_t position) const {
    const std::int64_t count = windows_.count();
    const std::int64_t index = position % count;
    if (!shuffle_) return index;
    return shuffled(index, count, seed_, static_cast<std::uint32_t>(position / count));
}

Batch Sampler::next(std::int64_t rows) {
    std::vector<std::int64_t> windows(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < windows.size(); ++i) {
        windows[i] = window_at(position_ + static_cast<std::int64_t>(i));
    }
    Batch batch = windows_.read(windows);
    position_ += rows;
    return batch;
}

nlohmann::json Sampler::state() const {
    return {{"samples", position_},
            {"seq_len", windows_.seq_len()},
            {"windows", windows_.count()},
            {"seed", seed_},
            {"shuffle", shuffle_},
            {"data", fmt::format("{:016x}", windows_.tokens().checksum())}};
}

void Sampler::restore(const nlohmann::json& saved) {
    const auto samples = saved.is_object() ? saved.find("samples") : saved.end();
    if (samples == saved.end() || !samples->is_number_integer() ||
        (samples->is_number_unsigned()
             ? samples->get<std::uint64_t>() > std::uint64_t{INT64_MAX} / 2
             : samples->get<std::int64_t>() < 0)) {
        throw Error(ErrorCode::kData, "data position: \"samples\" must be a number of at least 0",
                    "the checkpoint is damaged: resume from an older one");
    }
    const nlohmann::json current = state();
    std::string differences;
    for (const char* key : {"data", "windows", "seq_len", "seed", "shuffle"}) {
        if (!saved.contains(key) || saved[key] == current[key]) continue;
        differences += fmt::format("{}{} {} -> {}", differences.empty() ? "" : ", ", key,
                                   saved[key].dump(), current[key].dump());
    }
    position_ = samples->get<std::int64_t>();
    if (!differences.empty()) {
        log(LogLevel::kWarning,
            fmt::format("data: not those of the checkpoint ({}): goes on at sample {}, that is in "
                        "epoch {}, in the order of the new data",
                        differences, position_, epoch()));
    }
}

}  // namespace subbyte::data
