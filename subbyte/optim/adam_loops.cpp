// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/cpu.h"
#include "subbyte/optim/adam_loops-inl.h"

namespace subbyte::optim {

const AdamLoops& adam_loops() {
    switch (max_isa()) {
        case Isa::kAvx512: return avx512_adam_loops();
        case Isa::kAvx2: return avx2_adam_loops();
        case Isa::kReference: break;
    }
    return kAdamLoops;
}

}  // namespace subbyte::optim
