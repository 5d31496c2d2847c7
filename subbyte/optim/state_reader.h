// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "subbyte/optim/adam_kernel.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/plan/json_reader.h"

namespace subbyte::optim {

void append_moments(NamedTensors& out, const Parameter& parameter, const Moments& moments);

// Takes a saved optimizer state apart, parameter by parameter, and complains (Error kData) about
// what is missing, does not fit, or is left over. Changes nothing, so a failed load leaves the
// optimizer as it was.
class StateReader {
public:
    // `optimizer`: the kind that must have saved it. The other arguments must outlive the reader.
    StateReader(const NamedTensors& tensors, const nlohmann::json& numbers,
                const std::string& optimizer);

    // The state of every parameter: its moments, and what `read_numbers(reader, state)` takes from
    // the saved numbers. Parameters that had not been updated keep an empty one.
    template <typename State, typename ReadNumbers>
    std::vector<State> states(const std::vector<Parameter>& parameters, bool amsgrad,
                              ReadNumbers read_numbers) {
        std::vector<State> result(parameters.size());
        for (std::size_t i = 0; i < result.size(); ++i) {
            const nlohmann::json* saved = numbers_of(parameters[i]);
            if (saved == nullptr) continue;
            read_numbers(plan::JsonReader(*saved, parameters[i].name), result[i]);
            result[i].moments = moments(parameters[i], amsgrad);
        }
        finish();
        return result;
    }

private:
    const nlohmann::json* numbers_of(const Parameter& parameter);  // nullptr: none
    // A copy of tensor "<parameter>.<state>", which must have the parameter's shape and state
    // dtype.
    at::Tensor tensor(const Parameter& parameter, const std::string& state);
    Moments moments(const Parameter& parameter, bool amsgrad);
    void finish() const;  // Error when a tensor or a set of numbers was not asked for

    std::map<std::string, at::Tensor> tensors_;             // not yet taken
    std::map<std::string, const nlohmann::json*> numbers_;  // not yet taken
};

// The tensors that StateReader reads, of the parameters that were updated.
template <typename State>
NamedTensors moment_tensors(const std::vector<Parameter>& parameters,
                            const std::vector<State>& states) {
    NamedTensors result;
    for (std::size_t i = 0; i < states.size(); ++i) {
        if (states[i].moments.defined()) append_moments(result, parameters[i], states[i].moments);
    }
    return result;
}

}  // namespace subbyte::optim
