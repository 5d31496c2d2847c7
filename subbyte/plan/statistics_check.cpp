// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/statistics_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/error.h"

namespace subbyte::plan {
namespace {

struct Number {
    const char* name;
    double LayerStatistics::*member;
};

constexpr Number kForwardNumbers[] = {
    {"|X|", &LayerStatistics::x}, {"|W|", &LayerStatistics::w}, {"|Y|", &LayerStatistics::y},
    {"T", &LayerStatistics::t},   {"K", &LayerStatistics::k},   {"N", &LayerStatistics::n},
};
constexpr Number kBackwardNumbers[] = {
    {"|G|", &LayerStatistics::g},
    {"|dX|", &LayerStatistics::dx},
    {"|dW|", &LayerStatistics::dw},
    {"|J|", &LayerStatistics::jacobian},
    {"numel", &LayerStatistics::update_numel},
};

class StatisticsCheck {
public:
    explicit StatisticsCheck(const ModelStatistics& statistics) : statistics_(statistics) {}

    void run() const {
        const std::size_t layers = statistics_.layers.size();
        if (statistics_.table.size() != layers) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("statistics of step {}: {} layers in the table, {} measured",
                                    statistics_.step, statistics_.table.size(), layers),
                        "the layers of the statistics are parallel to their table");
        }
        for (std::size_t l = 0; l < layers; ++l) {
            for (const Number& number : kForwardNumbers) {
                check(l, number.name, statistics_.layers[l].*number.member);
            }
        }
        if (!std::isfinite(statistics_.loss)) {
            fail(fmt::format("the loss is {}", statistics_.loss));
        }
        for (std::size_t l = layers; l-- > 0;) {
            for (const Number& number : kBackwardNumbers) {
                check(l, number.name, statistics_.layers[l].*number.member);
            }
        }
        for (std::size_t l = 0; l < layers; ++l) check_gains(l);
    }

private:
    void check(std::size_t l, const char* what, double value) const {
        if (std::isfinite(value)) return;
        fail(fmt::format("{} of '{}' is {}", what, statistics_.table[l].name, value));
    }

    void check_gains(std::size_t l) const {
        const LayerStatistics& layer = statistics_.layers[l];
        for (const std::vector<double>* gains : {&layer.backward, &layer.forward}) {
            if (!gains->empty() && gains->size() != statistics_.layers.size()) {
                throw Error(ErrorCode::kUsage,
                            fmt::format("statistics of '{}': {} noise gains for {} layers",
                                        statistics_.table[l].name, gains->size(),
                                        statistics_.layers.size()),
                            "one gain per layer, or none when they were not measured");
            }
            for (const double gain : *gains) check(l, "a noise gain", gain);
        }
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw Error(ErrorCode::kDiverged,
                    fmt::format("statistics of step {}: {}", statistics_.step, what),
                    "the training step was not finite; no plan can be made of it");
    }

    const ModelStatistics& statistics_;
};

std::string describe(const LayerInfo& layer) {
    return fmt::format("'{}' of {} x {}", layer.name, layer.out_features, layer.in_features);
}

}  // namespace

void check_statistics(const ModelStatistics& statistics) { StatisticsCheck(statistics).run(); }

void check_same_model(const ModelStatistics& statistics, const LayerTable& table) {
    const auto fail = [](const std::string& difference) {
        throw Error(ErrorCode::kData, "the statistics are of another model: " + difference,
                    "measure this model, or name the model that was measured");
    };
    const std::size_t common = std::min(statistics.table.size(), table.size());
    for (std::size_t l = 0; l < common; ++l) {
        const std::string measured = describe(statistics.table[l]), here = describe(table[l]);
        if (measured != here) {
            fail(fmt::format("its linear layer {} is {}, here {}", l, measured, here));
        }
    }
    if (statistics.table.size() != table.size()) {
        fail(fmt::format("it has {} linear layers, here are {}", statistics.table.size(),
                         table.size()));
    }
}

}  // namespace subbyte::plan
