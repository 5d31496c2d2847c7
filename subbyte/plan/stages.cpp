// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "subbyte/core/error.h"

namespace subbyte::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

int block_count(const LayerTable& table) {
    int blocks = 0;
    for (const LayerInfo& layer : table) blocks = std::max(blocks, layer.block + 1);
    return blocks;
}

// Work before each block; the last entry, of all blocks, includes the layers outside of them.
std::vector<double> work_before(const LayerTable& table, std::size_t blocks) {
    std::vector<double> before(blocks + 1, 0.0);
    double outside = 0;
    for (const LayerInfo& layer : table) {
        // Without tokens all layers are taken to have the same number.
        const double work = layer.tokens > 0 ? layer.slot_flops() : layer.weights();
        if (layer.block < 0) {
            outside += work;
        } else {
            before[static_cast<std::size_t>(layer.block) + 1] += work;
        }
    }
    for (std::size_t b = 1; b <= blocks; ++b) before[b] += before[b - 1];
    before[blocks] += outside;
    return before;
}

// best[s][b]: the least cost of stages s.. when stage s begins with block b.
using Best = std::vector<std::vector<double>>;

// Cuts by dynamic programming from the last stage to the first. join(load, rest) is the cost of a
// stage of this load in front of stages that cost `rest`.
template <typename Join>
Best best_cuts(const std::vector<double>& before, std::size_t stages, const Join& join) {
    const std::size_t blocks = before.size() - 1;
    Best best(stages + 1, std::vector<double>(blocks + 1, kNever));
    best[stages][blocks] = 0;
    for (std::size_t s = stages; s-- > 0;) {
        for (std::size_t first = 0; first < blocks; ++first) {
            for (std::size_t end = first + 1; end <= blocks; ++end) {
                if (best[s + 1][end] == kNever) continue;
                const double cost = join(before[end] - before[first], best[s + 1][end]);
                best[s][first] = std::min(best[s][first], cost);
            }
        }
    }
    return best;
}

std::vector<int> balanced(const std::vector<double>& before, std::size_t stages) {
    const std::size_t blocks = before.size() - 1;
    const auto largest = [](double load, double rest) { return std::max(load, rest); };
    const double limit = best_cuts(before, stages, largest)[0][0] * (1 + 1e-12);
    const auto squares = [&](double load, double rest) {
        return load <= limit ? load * load + rest : kNever;
    };
    const Best best = best_cuts(before, stages, squares);
    std::vector<int> firsts;
    std::size_t first = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        firsts.push_back(static_cast<int>(first));
        std::size_t chosen = first + 1;
        for (std::size_t end = first + 1; end <= blocks; ++end) {
            if (best[s + 1][end] == kNever) continue;
            const double cost = squares(before[end] - before[first], best[s + 1][end]);
            if (cost <= best[s][first] * (1 + 1e-12)) chosen = end;  // of equal ones the longest
        }
        first = chosen;
    }
    return firsts;
}

}  // namespace

void balance_stages(LayerTable& table, int stages) {
    const int blocks = block_count(table);
    if (stages < 1 || stages > std::max(blocks, 1)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("{} pipeline stages for {} blocks", stages, blocks),
                    "every stage needs a block: give 1 .. the number of blocks");
    }
    if (blocks == 0) {
        for (LayerInfo& layer : table) layer.stage = 0;
        return;
    }
    set_stages(table, balanced(work_before(table, static_cast<std::size_t>(blocks)),
                               static_cast<std::size_t>(stages)));
}

void set_stages(LayerTable& table, const std::vector<int>& first_blocks) {
    const int blocks = block_count(table);
    for (std::size_t s = 0; s < first_blocks.size(); ++s) {
        const int least = s == 0 ? 0 : first_blocks[s - 1] + 1;
        const int first = first_blocks[s];
        if ((s == 0 ? first == 0 : first >= least) && first < std::max(blocks, 1)) continue;
        throw Error(ErrorCode::kUsage,
                    fmt::format("pipeline stage {} begins with block {} of {}", s, first, blocks),
                    "the first blocks of the stages ascend from 0, e.g. 0,4,8");
    }
    if (first_blocks.empty()) {
        throw Error(ErrorCode::kUsage, "no pipeline stages",
                    "name the first block of every stage, e.g. 0,4,8");
    }
    for (LayerInfo& layer : table) {
        const auto next = std::upper_bound(first_blocks.begin(), first_blocks.end(), layer.block);
        layer.stage = layer.block < 0 ? static_cast<int>(first_blocks.size()) - 1
                                      : static_cast<int>(next - first_blocks.begin()) - 1;
    }
}

void assign_stages(LayerTable& table, const std::vector<int>& stages) {
    if (stages.size() == 1 && stages.front() > 0) {
        balance_stages(table, stages.front());
    } else {
        set_stages(table, stages);
    }
}

std::vector<int> first_blocks(const LayerTable& table) {
    std::vector<int> firsts(static_cast<std::size_t>(stage_count(table)), -1);
    for (const LayerInfo& layer : table) {
        int& first = firsts[static_cast<std::size_t>(layer.stage)];
        if (layer.block >= 0 && (first < 0 || layer.block < first)) first = layer.block;
    }
    return firsts;
}

}  // namespace subbyte::plan
