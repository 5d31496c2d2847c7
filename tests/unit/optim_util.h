// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Small tensors and comparisons for the tests of optim/.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/philox.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::optim {

// Trainable values in [-1, 1), the same for equal arguments.
inline at::Tensor noise(at::IntArrayRef shape, std::uint32_t seed,
                        at::ScalarType dtype = at::kFloat) {
    at::Tensor result = at::empty(shape, at::kDouble);
    double* data = result.mutable_data_ptr<double>();
    const NoiseAddress address{seed, 0, 0, 0};
    for (std::int64_t i = 0; i < result.numel(); ++i) {
        const auto bits = noise_bits16(address, static_cast<std::uint64_t>(i));
        data[i] = (static_cast<double>(bits) - 32768.0) / 32768.0;
    }
    return result.to(dtype);
}

inline void expect_same_bits(const at::Tensor& a, const at::Tensor& b,
                             const std::string& what = {}) {
    ASSERT_EQ(a.scalar_type(), b.scalar_type()) << what;
    ASSERT_EQ(a.sizes(), b.sizes()) << what;
    const at::Tensor x = a.contiguous(), y = b.contiguous();
    EXPECT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()), 0) << what;
}

inline void expect_same_state(const Optimizer& a, const Optimizer& b) {
    const NamedTensors x = a.state_tensors(), y = b.state_tensors();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(x[i].first, y[i].first);
        expect_same_bits(x[i].second, y[i].second, x[i].first);
    }
    EXPECT_EQ(a.state_numbers().dump(), b.state_numbers().dump());
}

// A small model: a matrix, a vector and a single number.
inline std::vector<Parameter> small_model(at::ScalarType dtype = at::kFloat) {
    std::vector<Parameter> model = {{"matrix", noise({37, 11}, 1, dtype), true},
                                    {"vector", noise({129}, 2, dtype), false},
                                    {"number", noise({1}, 3, dtype), true}};
    for (Parameter& parameter : model) parameter.value.set_requires_grad(true);
    return model;
}

// Gradients of step t for `model`; every fifth step has a spike.
inline void set_gradients(const std::vector<Parameter>& model, std::uint32_t t) {
    for (std::size_t i = 0; i < model.size(); ++i) {
        at::Tensor value = model[i].value;
        const auto seed = 100 + 10 * t + static_cast<std::uint32_t>(i);
        at::Tensor grad = noise(value.sizes(), seed, value.scalar_type());
        if (t % 5 == 0) grad.view(-1)[0].fill_(37.5);
        value.mutable_grad() = grad;
    }
}

template <typename Call>
Error error_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    ADD_FAILURE() << "no error was thrown";
    return Error(ErrorCode::kInternal, "");
}

// Error `code` with `part` in its message.
template <typename Call>
void expect_error(ErrorCode code, const std::string& part, Call call) {
    const Error error = error_of(call);
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

}  // namespace subbyte::optim
