// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/adam_loops-inl.h"

namespace subbyte::optim {

const AdamLoops& avx512_adam_loops() { return kAdamLoops; }

}  // namespace subbyte::optim
