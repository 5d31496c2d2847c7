// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/nn/precision.h"

namespace subbyte::snip {

// Puts plan, observer and layer table back as they were, whatever happens in between.
class PlanGuard {
public:
    explicit PlanGuard(nn::Precision& precision)
        : precision_(precision),
          plan_(precision.plan()),
          observer_(precision.observer),
          table_(precision.table()) {}
    ~PlanGuard() {
        precision_.set_plan(plan_);
        precision_.observer = observer_;
        for (std::uint32_t i = 0; i < table_.size(); ++i)
            precision_.set_tokens(i, table_[i].tokens);
    }
    PlanGuard(const PlanGuard&) = delete;
    PlanGuard& operator=(const PlanGuard&) = delete;

private:
    nn::Precision& precision_;
    plan::Plan plan_;
    ops::LinearObserver* observer_;
    plan::LayerTable table_;
};

// Lets plans decide over pinned slots too: what those do belongs to the damage.
class PinsLifted {
public:
    explicit PinsLifted(nn::Precision& precision)
        : precision_(precision), table_(precision.table()) {
        for (std::uint32_t l = 0; l < table_.size(); ++l) {
            if (table_[l].candidate) precision_.free_layer(l);
        }
    }
    ~PinsLifted() {
        for (std::uint32_t l = 0; l < table_.size(); ++l) {
            if (table_[l].candidate) precision_.fix_layer(l, table_[l].pinned);
        }
    }
    PinsLifted(const PinsLifted&) = delete;
    PinsLifted& operator=(const PinsLifted&) = delete;

private:
    nn::Precision& precision_;
    plan::LayerTable table_;
};

}  // namespace subbyte::snip
