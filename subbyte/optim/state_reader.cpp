// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/state_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace subbyte::optim {
namespace {

constexpr const char* kFirst = "m";
constexpr const char* kSecond = "v";
constexpr const char* kSecondMax = "v_max";

std::string describe(at::IntArrayRef sizes, at::ScalarType dtype) {
    return fmt::format("{} [{}]", c10::toString(dtype), fmt::join(sizes.vec(), ", "));
}

}  // namespace

StateReader::StateReader(const NamedTensors& tensors, const nlohmann::json& numbers,
                         const std::string& optimizer) {
    const plan::JsonReader reader(numbers, "optimizer state");
    const std::string& saved = reader["optimizer"].text();
    if (saved != optimizer) {
        throw Error(ErrorCode::kData,
                    fmt::format("optimizer state: saved by '{}', cannot be loaded into '{}'", saved,
                                optimizer),
                    "continue with the same optimizer, or start it fresh");
    }
    reader["parameters"].keys();  // an object
    for (const auto& [name, value] : numbers.at("parameters").items()) numbers_[name] = &value;
    for (const auto& [name, tensor] : tensors) {
        if (!tensors_.emplace(name, tensor).second) {
            throw Error(ErrorCode::kData, fmt::format("optimizer state: '{}' appears twice", name));
        }
    }
}

const nlohmann::json* StateReader::numbers_of(const Parameter& parameter) {
    const auto found = numbers_.find(parameter.name);
    if (found == numbers_.end()) return nullptr;
    const nlohmann::json* result = found->second;
    numbers_.erase(found);
    return result;
}

at::Tensor StateReader::tensor(const Parameter& parameter, const std::string& state) {
    const std::string name = parameter.name + "." + state;
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || !found->second.defined()) {
        throw Error(ErrorCode::kData, fmt::format("optimizer state: tensor '{}' is missing", name),
                    "the state was saved with other optimizer options, or is incomplete");
    }
    const at::Tensor saved = found->second;
    const at::ScalarType dtype = state_dtype(parameter.value);
    if (saved.sizes() != parameter.value.sizes() || saved.scalar_type() != dtype) {
        throw Error(ErrorCode::kData,
                    fmt::format("optimizer state: '{}' is {}, must be {}", name,
                                describe(saved.sizes(), saved.scalar_type()),
                                describe(parameter.value.sizes(), dtype)),
                    "the state belongs to another model");
    }
    tensors_.erase(found);
    return saved.detach().clone(at::MemoryFormat::Contiguous);
}

Moments StateReader::moments(const Parameter& parameter, bool amsgrad) {
    Moments result{tensor(parameter, kFirst), tensor(parameter, kSecond), {}};
    if (amsgrad) result.second_max = tensor(parameter, kSecondMax);
    return result;
}

void StateReader::finish() const {
    if (!tensors_.empty()) {
        throw Error(ErrorCode::kData,
                    fmt::format("optimizer state: tensor '{}' belongs to no parameter",
                                tensors_.begin()->first),
                    "the state was saved for another model or with other optimizer options");
    }
    if (!numbers_.empty()) {
        throw Error(ErrorCode::kData,
                    fmt::format("optimizer state: the model has no parameter '{}'",
                                numbers_.begin()->first),
                    "the state was saved for another model");
    }
}

void append_moments(NamedTensors& out, const Parameter& parameter, const Moments& moments) {
    out.emplace_back(parameter.name + "." + kFirst, moments.first);
    out.emplace_back(parameter.name + "." + kSecond, moments.second);
    if (moments.second_max.defined()) {
        out.emplace_back(parameter.name + "." + kSecondMax, moments.second_max);
    }
}

}  // namespace subbyte::optim
