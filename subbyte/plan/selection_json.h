// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "subbyte/plan/selection.h"

namespace subbyte::plan {

// Reads a selection problem written down as an instance:
//   options_sixteenths    gain of every option in sixteenths of a layer's weight, e.g. [0, 8, 16]
//   weights               work of every layer
//   cost                  per layer one number per option; the text "inf": never choose
//   constraints           [{"stage": S, "min_gain": G}, ...]: the layers of stage S must
//                         gain at least G, where choosing option j in layer i gains
//                         weights[i] * options_sixteenths[j]. One constraint with stage -1
//                         covers all layers.
//   stage_of_layer        (optional, default 0) pipeline stage of every layer; a stage without
//                         a constraint needs no gain
//   locked_to_option_0    (optional) layers that may only take option 0
//   names                 (optional) a name per layer, for messages
// Other members of such a file (name, layers, stages, known results) are not read, except that
// unknown ones are refused. Error kData that names the place.
SelectionProblem problem_from_json(const nlohmann::json& json);

// {"status", "objective", "choice", "gain", "best_gain", "gap", "seconds"}; choice holds one option
// per item and is empty, with objective null, when there is no solution.
nlohmann::json to_json(const Selection& selection);

}  // namespace subbyte::plan
