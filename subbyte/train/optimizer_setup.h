// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "subbyte/models/llama.h"
#include "subbyte/optim/lr_schedule.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/train/config.h"

namespace subbyte::train {

// The optimizer that [optim] describes, over all parameters of the model; norm weights do not
// decay.
std::unique_ptr<optim::Optimizer> set_up_optimizer(const Config& config, models::LlamaImpl& model);

// The learning-rate curve that [optim] describes.
optim::LrSchedule lr_schedule_of(const Config& config);

}  // namespace subbyte::train
