// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ops/argmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>

#include "subbyte/ops/gaussian.h"

namespace example {

struct Batch {
    at::Tensor x, labels;
};

// An endless labelled data set: Gaussian inputs, labelled by a fixed random two-layer network.
class TeacherData {
public:
    TeacherData(std::int64_t width, std::int64_t classes)
        : width_(width),
          inner_(subbyte::ops::gaussian({width, width}, {99, 0, 0, 0}).mul_(0.2)),
          outer_(subbyte::ops::gaussian({width, classes}, {99, 0, 1, 0})) {}

    // Batch number `index`; equal numbers give equal batches.
    Batch batch(std::uint32_t index, std::int64_t size) const {
        const at::Tensor x = subbyte::ops::gaussian({size, width_}, {7, index, 0, 0});
        return {x, at::argmax(at::matmul(at::tanh(at::matmul(x, inner_)), outer_), 1)};
    }

private:
    std::int64_t width_;
    at::Tensor inner_, outer_;
};

}  // namespace example
