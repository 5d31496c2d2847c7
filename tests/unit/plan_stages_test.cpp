// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "subbyte/core/error.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::plan {
namespace {

// Blocks of one layer each with the given work, and a head.
LayerTable table_of(const std::vector<int>& work, int head = 0) {
    LayerTable table;
    for (std::size_t b = 0; b < work.size(); ++b) {
        table.push_back(make_layer("blocks." + std::to_string(b) + ".fc", work[b], 1, 1));
    }
    if (head > 0) table.push_back(make_layer("head", head, 1, 1));
    return table;
}

std::vector<double> loads(const LayerTable& table) {
    std::vector<double> result(static_cast<std::size_t>(stage_count(table)), 0.0);
    for (const LayerInfo& layer : table) {
        result[static_cast<std::size_t>(layer.stage)] += layer.slot_flops();
    }
    return result;
}

double largest(const std::vector<double>& loads) {
    return *std::max_element(loads.begin(), loads.end());
}

double squares(const std::vector<double>& loads) {
    double sum = 0;
    for (const double load : loads) sum += load * load;
    return sum;
}

// Every way to cut `blocks` into `stages` runs.
void all_cuts(int blocks, int stages, std::vector<int>& firsts,
              const std::function<void(const std::vector<int>&)>& use) {
    if (static_cast<int>(firsts.size()) == stages) return use(firsts);
    for (int first = firsts.back() + 1; first < blocks; ++first) {
        firsts.push_back(first);
        all_cuts(blocks, stages, firsts, use);
        firsts.pop_back();
    }
}

TEST(Stages, AreBalancedAsNoOtherCutIs) {
    std::mt19937 random(3);
    for (int trial = 0; trial < 60; ++trial) {
        const int blocks = 1 + static_cast<int>(random() % 9);
        std::vector<int> work;
        for (int b = 0; b < blocks; ++b) work.push_back(1 + static_cast<int>(random() % 7));
        const int head = static_cast<int>(random() % 12);
        for (int stages = 1; stages <= blocks; ++stages) {
            LayerTable table = table_of(work, head);
            balance_stages(table, stages);
            const std::vector<double> found = loads(table);
            double least = std::numeric_limits<double>::infinity();
            double least_squares = least;
            std::vector<int> firsts{0}, best;
            all_cuts(blocks, stages, firsts, [&](const std::vector<int>& cut) {
                LayerTable other = table;
                set_stages(other, cut);
                const std::vector<double> l = loads(other);
                const bool better =
                    largest(l) < least || (largest(l) == least && squares(l) < least_squares) ||
                    (largest(l) == least && squares(l) == least_squares && cut > best);
                if (!better) return;
                least = largest(l);
                least_squares = squares(l);
                best = cut;
            });
            EXPECT_EQ(largest(found), least);
            EXPECT_EQ(first_blocks(table), best) << trial << " " << stages;
        }
    }
}

TEST(Stages, TheHeadCountsInTheLastStage) {
    LayerTable table = table_of({1, 1, 1, 1, 1, 1}, 3);
    balance_stages(table, 3);
    EXPECT_EQ(first_blocks(table), (std::vector<int>{0, 3, 5}));
    EXPECT_EQ(table.back().stage, 2);
    EXPECT_EQ(loads(table), (std::vector<double>{6, 4, 8}));
}

TEST(Stages, SeventyBillionParameters) {
    LayerTable table = llama_table(80, 8192, 28672, 1024);
    balance_stages(table, 8);
    EXPECT_EQ(first_blocks(table), (std::vector<int>{0, 10, 20, 30, 40, 50, 60, 70}));
}

TEST(Stages, FirstBlocksSayWhereStagesBegin) {
    LayerTable table = table_of({1, 1, 1, 1, 1}, 1);
    set_stages(table, {0, 1, 4});
    EXPECT_EQ(first_blocks(table), (std::vector<int>{0, 1, 4}));
    EXPECT_EQ(table[3].stage, 1);
    EXPECT_EQ(table.back().stage, 2);
}

TEST(Stages, WhatCannotBeIsRefused) {
    LayerTable table = table_of({1, 1, 1});
    for (const int stages : {0, -1, 4}) EXPECT_THROW(balance_stages(table, stages), Error);
    using Firsts = std::vector<int>;
    for (const Firsts& firsts :
         {Firsts{}, Firsts{1}, Firsts{0, 0}, Firsts{0, 2, 1}, Firsts{0, 3}, Firsts{-1}}) {
        EXPECT_THROW(set_stages(table, firsts), Error);
    }
    LayerTable balanced = table, listed = table;
    assign_stages(balanced, {2});
    EXPECT_EQ(first_blocks(balanced), (Firsts{0, 2}));
    assign_stages(listed, {0, 1});
    EXPECT_EQ(first_blocks(listed), (Firsts{0, 1}));
    for (const Firsts& firsts : {Firsts{}, Firsts{4}, Firsts{-1}, Firsts{2, 3}}) {
        EXPECT_THROW(assign_stages(table, firsts), Error);
    }
    LayerTable none{make_layer("fc", 4, 4, 1)};  // no blocks: one stage
    balance_stages(none, 1);
    EXPECT_EQ(none[0].stage, 0);
    EXPECT_THROW(balance_stages(none, 2), Error);
}

}  // namespace
}  // namespace subbyte::plan
