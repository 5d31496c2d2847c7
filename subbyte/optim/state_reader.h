// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "subbyte/optim/adam_kernel.h"
#include "subbyte/optim/json_fields.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::optim {

// Takes a saved optimizer state apart, parameter by parameter, and complains (Error kData) about
// what is missing, does not fit, or is left over. Changes nothing, so a failed load leaves the
// optimizer as it was.
class StateReader {
public:
    // `optimizer`: the kind that must have saved it. The other arguments must outlive the reader.
    StateReader(const NamedTensors& tensors, const nlohmann::json& numbers,
                const std::string& optimizer);

    // The saved numbers of a parameter; nullptr: it had not been updated when the state was saved.
    const nlohmann::json* numbers_of(const Parameter& parameter);

    // A copy of tensor "<parameter>.<state>", which must have the parameter's shape and state
    // dtype.
    at::Tensor tensor(const Parameter& parameter, const std::string& state);
    Moments moments(const Parameter& parameter, bool amsgrad);

    void finish() const;  // Error when a tensor or a set of numbers was not asked for

private:
    std::map<std::string, at::Tensor> tensors_;             // not yet taken
    std::map<std::string, const nlohmann::json*> numbers_;  // not yet taken
};

// Appends the tensors that StateReader::moments reads.
void append_moments(NamedTensors& out, const Parameter& parameter, const Moments& moments);

}  // namespace subbyte::optim
