// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/profile_file.h"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "subbyte/core/cpu.h"
#include "subbyte/io/json_file.h"

namespace subbyte::train {

std::shared_ptr<const plan::MachineProfile> load_profile(const std::string& path, int threads,
                                                         bool foreign) {
    auto profile =
        std::make_shared<plan::MachineProfile>(plan::profile_from_json(io::read_json(path)));
    if (!foreign) {
        plan::check_machine(*profile, {cpu_model_name(), std::string(isa_name(max_isa())),
                                       threads > 0 ? threads : at::get_num_threads()});
    }
    return profile;
}

}  // namespace subbyte::train
