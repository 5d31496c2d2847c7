// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>

#include <cstdio>

#include "subbyte/ops/quantized_tensor.h"

int main() {
    const at::Tensor x = at::rand({128, 128}).sub(0.5);
    const at::Tensor y = subbyte::ops::fake_quantize(x, subbyte::formats::parse_spec("fp4"));
    std::printf("fp4 error %.4f\n", y.sub(x).norm().item<double>() / x.norm().item<double>());
}
