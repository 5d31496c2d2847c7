// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/snip/snip.h"
#include "subbyte/train/config.h"

namespace subbyte::train {

// The precision of a run: a fixed recipe or plan, or SNIP.
struct PrecisionSetup {
    std::shared_ptr<nn::Precision> precision;
    std::unique_ptr<SNIP> snip;  // null: the plan never changes
};

// What [precision.snip] says to the controller.
SnipOptions snip_options(const Config& config);

// Connects the model to its precision as [precision] says. Order of rights: [[precision.rule]] over
// precision.head over the plan (given, uniform or SNIP's). Errors: kUsage for a rule that matches
// no layer, kData for a plan file, kHardware with precision.require_native when a recipe would be
// emulated here.
PrecisionSetup set_up_precision(const Config& config, torch::nn::Module& model,
                                optim::Optimizer& optimizer);

// Pins the layers that no plan changes: the head and what the rules match, see fixed_layers().
void fix_layers(const Config::Precision& config, nn::Precision& precision);

// One line per recipe of the plan's options: "fp8: decode_dense (emulated)" with the reason.
std::vector<std::string> kernel_lines(const std::vector<std::string>& recipes);

// Recipes that can be in force during the run.
std::vector<std::string> recipes_in_use(const Config& config, const nn::Precision& precision);

}  // namespace subbyte::train
