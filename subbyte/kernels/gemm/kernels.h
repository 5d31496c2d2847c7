// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/kernels/gemm/panels.h"

namespace subbyte::kernels {

// The kernels on packed codes, for `block` = scale_block(problem) codes per scale: 128, 64, 32 or
// 16. Which elements each takes stands in the list of gemm.cpp.
const PanelKernel& avx512_vnni_panels(int block);
const PanelKernel& avx512_bf16_panels(int block);
const PanelKernel& avx2_maddubs_panels(int block);
const PanelKernel& avx2_maddwd_panels(int block);
const PanelKernel& avx2_fma_panels(int block);

}  // namespace subbyte::kernels
