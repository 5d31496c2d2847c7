// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::snip {

// Sums over two FP32 matrices G and E [T, N], in a fixed order.
struct RowProducts {
    double squared = 0;   // sum E^2
    double elements = 0;  // sum G^2 E^2
    double rows = 0;      // sum_t <G_t, E_t>^2
};
RowProducts row_products(const at::Tensor& g, const at::Tensor& e);

// sum_t |G_t|^2 |X_t|^2 of FP32 G [T, N] and X [T, K]: the squared norms of the weight gradients
// of the single tokens.
double outer_norms(const at::Tensor& g, const at::Tensor& x);

}  // namespace subbyte::snip
