// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::snip {

// Position of each weight among the optimizer's parameters. Error kUsage when one is not trained by
// it.
inline std::vector<std::size_t> parameter_indices(const optim::Optimizer& optimizer,
                                                  const std::vector<at::Tensor>& weights) {
    std::vector<std::size_t> result;
    for (std::size_t w = 0; w < weights.size(); ++w) {
        std::size_t found = optimizer.parameters().size();
        for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
            if (optimizer.parameters()[i].value.is_same(weights[w])) found = i;
        }
        if (found == optimizer.parameters().size()) {
            throw Error(
                ErrorCode::kUsage,
                fmt::format("the weight of linear layer {} is not among the optimizer's "
                            "parameters",
                            w),
                "give the optimizer all parameters of the model, e.g. parameters_of(*model)");
        }
        result.push_back(found);
    }
    return result;
}

}  // namespace subbyte::snip
