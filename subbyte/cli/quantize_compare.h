// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/train/quantize_file.h"

namespace subbyte::cli {

// Prints what each spec would do to every floating tensor of `in`: a .safetensors or .npy file, or
// the weights of a model folder or checkpoint. One tensor is in memory at a time; nothing is
// written. Noise is addressed as by `quantize --spec`. Errors: kUsage for the specs (before the
// file is read), kData for the file.
void compare_specs(const std::string& in, const std::vector<std::string>& specs, std::uint64_t seed,
                   bool json);

// The numbers of a report's line, without its name and shape.
nlohmann::json errors_json(const train::TensorReport& line);

}  // namespace subbyte::cli
