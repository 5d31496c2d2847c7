// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/run_report.h"

#include <gtest/gtest.h>

#include <sstream>

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
    plan.layers["model.layers.2.self_attn.q_proj"] = {"fp4", "fp8", "fp4"};
    EXPECT_EQ(lines_of(plan_table(plan, table_of(3))),
              (std::vector<std::string>{"block            0     1     2",
                                        "q_proj         fp8   fp8 mixed",
                                        "up_proj        fp8 nvfp4   fp8"}));
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
              (std::vector<std::string>{
                  "block        0          10         20         30",
                  "q_proj       8bfm888888 8888888888 8888888888 8888888884",
                  "up_proj      4888488848 8848884888 4888488848 8848884888",
                  "one character per block: 4 and 8 bits, b bf16, f wider, m mixed"}));
}

}  // namespace
}  // namespace subbyte::train
