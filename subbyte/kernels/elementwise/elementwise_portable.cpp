// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/elementwise/elementwise-inl.h"

namespace subbyte::kernels {

const ElementwiseOps& portable_elementwise_ops() { return kElementwiseOps; }

}  // namespace subbyte::kernels
