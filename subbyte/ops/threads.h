// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace subbyte::ops {

// Lets subbyte::parallel_for run on LibTorch's thread pool. Idempotent; every entry point of ops/
// that reaches a kernel calls it.
void use_torch_threads();

}  // namespace subbyte::ops
