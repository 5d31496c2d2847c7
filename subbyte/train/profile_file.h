// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "subbyte/plan/machine_profile.h"

namespace subbyte::train {

// Reads a machine profile and checks that it is of this machine, with `threads` threads (0: as many
// as LibTorch uses now), unless `foreign`. Errors kData for the file, kUsage for another machine.
std::shared_ptr<const plan::MachineProfile> load_profile(const std::string& path, int threads,
                                                         bool foreign);

}  // namespace subbyte::train
