// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/run_report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "subbyte/train/config_rules.h"
#include "subbyte/train/plan_table.h"

namespace subbyte::train {
namespace {

plan::LayerTable table_of(int blocks) {
    plan::LayerTable table;
    for (int b = 0; b < blocks; ++b) {
        for (const char* type : {"self_attn.q_proj", "mlp.up_proj"}) {
            plan::LayerInfo layer;
            layer.name = "model.layers." + std::to_string(b) + "." + type;
            plan::set_type_and_block(layer);
            table.push_back(layer);
        }
    }
    plan::LayerInfo head;
    head.name = "lm_head";
    plan::set_type_and_block(head);
    head.candidate = false;
    table.push_back(head);
    return table;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

TEST(PlanTable, HasARowPerTypeAndAColumnPerBlock) {
    plan::Plan plan;
    plan.fallback = "fp8";
    plan.set("model.layers.1.mlp.up_proj", "nvfp4");
    EXPECT_EQ(lines_of(plan_table(plan, table_of(3))),
              (std::vector<std::string>{"block            0     1     2",
                                        "q_proj         fp8   fp8   fp8",
                                        "up_proj        fp8 nvfp4   fp8"}));
    plan.layers["model.layers.2.self_attn.q_proj"] = {"fp8", "nvfp4", "bf16"};
    EXPECT_EQ(lines_of(plan_table(plan, table_of(3))),
              (std::vector<std::string>{
                  "block            0     1     2", "q_proj         fp8   fp8 8/4/b",
                  "up_proj        fp8 nvfp4   fp8", "a/b/c: bits of fprop, dgrad and wgrad"}));
}

TEST(PlanTable, NamesRecipesWhenBitsDoNotTellThemApart) {
    plan::Plan plan;
    plan.fallback = "fp8";
    plan.set("model.layers.0.mlp.up_proj", "fp4");
    plan.layers["model.layers.1.mlp.up_proj"] = {"fp8", "nvfp4", "fp4"};
    EXPECT_EQ(lines_of(plan_table(plan, table_of(2))),
              (std::vector<std::string>{"block                    0             1",
                                        "q_proj                 fp8           fp8",
                                        "up_proj                fp4 fp8/nvfp4/fp4",
                                        "a/b/c: recipes of fprop, dgrad and wgrad"}));
}

TEST(PlanTable, HasACharacterPerBlockWhenThereAreMany) {
    plan::Plan plan;
    plan.fallback = "fp8";
    for (int b = 0; b < 40; b += 4) {
        plan.set("model.layers." + std::to_string(b) + ".mlp.up_proj", "mxfp4");
    }
    plan.set("model.layers.1.self_attn.q_proj", "bf16");
    plan.set("model.layers.2.self_attn.q_proj", "fp32");
    plan.layers["model.layers.3.self_attn.q_proj"] = {"fp4", "fp8", "fp4"};
    plan.set("model.layers.39.self_attn.q_proj", "int4");
    EXPECT_EQ(lines_of(plan_table(plan, table_of(40))),
              (std::vector<std::string>{"block        0          10         20         30",
                                        "q_proj fprop 8bf4888888 8888888888 8888888888 8888888884",
                                        "q_proj dgrad 8bf8888888 8888888888 8888888888 8888888884",
                                        "q_proj wgrad 8bf4888888 8888888888 8888888888 8888888884",
                                        "up_proj      4888488848 8848884888 4888488848 8848884888",
                                        "one character per block: 4 and 8 bits, b bf16, f wider"}));
}

TEST(PlanTable, SaysWhenNothingIsPlanned) {
    plan::LayerTable table = table_of(2);
    for (plan::LayerInfo& layer : table) layer.candidate = false;
    EXPECT_EQ(plan_table({}, table), "no layer inside the blocks is planned\n");
}

TEST(RuleLines, SayWhatTheRulesComeToPerKindOfLayer) {
    Config::Precision precision;
    precision.recipe = "snip";
    EXPECT_EQ(rule_lines(precision, table_of(4)), std::vector<std::string>{"lm_head: bf16"});
    precision.head = "snip";
    EXPECT_EQ(rule_lines(precision, table_of(4)), std::vector<std::string>{"lm_head: as planned"});
    precision.head = "bf16";
    precision.rules = {{"*.up_proj", "fp8", "wgrad"},
                       {"model.layers.1.*", "fp32", ""},
                       {"model.layers.3.*.up_proj", "fp4", "wgrad"},
                       {"lm_head", "fp8", "dgrad"}};
    EXPECT_EQ(rule_lines(precision, table_of(6)),
              (std::vector<std::string>{
                  "up_proj of blocks 0, 2, 4-5: fprop as planned, dgrad as planned, wgrad fp8",
                  "q_proj of block 1: fp32", "up_proj of block 1: fp32",
                  "up_proj of block 3: fprop as planned, dgrad as planned, wgrad fp4",
                  "lm_head: fprop bf16, dgrad fp8, wgrad bf16"}));
}

TEST(RunEnd, OverheadIsAShareOfTheTrainingWithoutIt) {
    RunEnd end;
    EXPECT_EQ(end.share(1.0), 0.0);
    EXPECT_EQ(end.share_at(1.0, 500), 0.0);
    end.train_seconds = 110;  // 1000 steps of 0.1 s and 10 s of planning, 20 times
    end.steps_run = 1000;
    end.measurements = 20;
    end.statistics_seconds = 6;
    end.probe_seconds = 3;
    end.wait_seconds = 1;
    EXPECT_DOUBLE_EQ(end.share(end.overhead_seconds()), 0.1);
    // 0.5 s per plan against 500 steps of 0.1 s.
    EXPECT_DOUBLE_EQ(end.share_at(end.overhead_seconds(), 500), 0.01);
}

}  // namespace
}  // namespace subbyte::train
