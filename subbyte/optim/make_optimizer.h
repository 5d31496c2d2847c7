// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/optim/adamw.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/optim/stable_spam.h"

namespace subbyte::optim {

// The names make_optimizer knows: adamw, stable-spam.
const std::vector<std::string>& optimizer_names();

// The optimizer of that name. `options`: a JSON object; its keys are the members of AdamWOptions or
// StableSpamOptions, except that beta1 and beta2 are one pair "betas": [0.9, 0.95], and "compat" is
// "clean" or "official". Missing keys keep their defaults. Error kUsage, with the nearest known
// name, for an unknown optimizer, key or compat, and for a value of the wrong type or out of range.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<Parameter> parameters,
                                          const nlohmann::json& options = nlohmann::json::object());

}  // namespace subbyte::optim
