// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/diverged.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace subbyte::snip {
namespace {

std::string first_nonfinite(const plan::LayerTable& table,
                            const std::vector<plan::LayerStatistics>& layers) {
    const auto place = [&](std::size_t l, const char* role) {
        return fmt::format("the first tensor that is not finite is {} of '{}'", role,
                           table[l].name);
    };
    for (std::size_t l = 0; l < layers.size(); ++l) {
        if (!std::isfinite(layers[l].x)) return place(l, "the input X");
        if (!std::isfinite(layers[l].w)) return place(l, "the weight W");
        if (!std::isfinite(layers[l].y)) return place(l, "the output Y");
    }
    for (std::size_t l = layers.size(); l-- > 0;) {
        if (!std::isfinite(layers[l].g)) return place(l, "the output gradient G");
        if (!std::isfinite(layers[l].dx)) return place(l, "the input gradient dX");
    }
    return "all tensors of linear layers are finite";
}

}  // namespace

Error diverged(std::int64_t step, double loss, const plan::LayerTable& table,
               const std::vector<plan::LayerStatistics>& layers) {
    return Error(
        ErrorCode::kDiverged,
        fmt::format("step {}: the loss of a measuring step is {}; {}", step,
                    std::isnan(loss) ? "nan" : "infinite", first_nonfinite(table, layers)),
        "lower optim.lr, lengthen the warm-up, or give that layer a higher precision; the last "
        "checkpoint is kept");
}

}  // namespace subbyte::snip
