// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/row_products.h"

namespace subbyte::snip {
namespace {

double squared_row(const float* row, std::int64_t size) {
    double sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += double(row[i]) * double(row[i]);
    return sum;
}

}  // namespace

RowProducts row_products(const at::Tensor& g, const at::Tensor& e) {
    const at::Tensor a = g.contiguous(), b = e.contiguous();
    const float *pa = a.const_data_ptr<float>(), *pb = b.const_data_ptr<float>();
    RowProducts result;
    for (std::int64_t t = 0; t < a.size(0); ++t) {
        double row = 0;
        for (std::int64_t n = 0; n < a.size(1); ++n) {
            const double error = *pb++, product = double(*pa++) * error;
            result.squared += error * error;
            result.elements += product * product;
            row += product;
        }
        result.rows += row * row;
    }
    return result;
}

double outer_norms(const at::Tensor& g, const at::Tensor& x) {
    const at::Tensor a = g.contiguous(), b = x.contiguous();
    const float *pa = a.const_data_ptr<float>(), *pb = b.const_data_ptr<float>();
    double sum = 0;
    for (std::int64_t t = 0; t < a.size(0); ++t) {
        sum +=
            squared_row(pa + t * a.size(1), a.size(1)) * squared_row(pb + t * b.size(1), b.size(1));
    }
    return sum;
}

}  // namespace subbyte::snip
