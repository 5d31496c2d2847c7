// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables and statistics that several tests of the planner share.
#pragma once

#include <cmath>
#include <random>
#include <string>

#include "subbyte/plan/statistics.h"

namespace subbyte::plan {

inline LayerInfo make_layer(const std::string& name, std::int64_t in, std::int64_t out,
                            std::int64_t tokens) {
    LayerInfo layer;
    layer.name = name;
    set_type_and_block(layer);
    layer.in_features = in;
    layer.out_features = out;
    layer.tokens = tokens;
    return layer;
}

// The linear layers of a LLaMA: `blocks` of q, k, v, o, gate, up, down, then the head, which is no
// candidate.
inline LayerTable llama_table(int blocks, std::int64_t hidden, std::int64_t inter, std::int64_t kv,
                              int stages = 1, std::int64_t tokens = 128) {
    LayerTable table;
    for (int b = 0; b < blocks; ++b) {
        const std::string path = "model.layers." + std::to_string(b) + ".";
        const auto add = [&](const std::string& name, std::int64_t in, std::int64_t out) {
            table.push_back(make_layer(path + name, in, out, tokens));
            table.back().stage = b * stages / blocks;
        };
        add("self_attn.q_proj", hidden, hidden);
        add("self_attn.k_proj", hidden, kv);
        add("self_attn.v_proj", hidden, kv);
        add("self_attn.o_proj", hidden, hidden);
        add("mlp.gate_proj", hidden, inter);
        add("mlp.up_proj", hidden, inter);
        add("mlp.down_proj", inter, hidden);
    }
    table.push_back(make_layer("lm_head", hidden, 4 * hidden, tokens));
    table.back().candidate = false;
    table.back().stage = stages - 1;
    return table;
}

inline LayerTable tiny_llama(int stages = 1) { return llama_table(22, 2048, 5632, 256, stages); }
inline LayerTable open_llama_7b() { return llama_table(32, 4096, 11008, 4096); }

// Random but sensible statistics for a table; 4 bit hurts about 16 times as much as 8 bit.
inline ModelStatistics random_statistics(const LayerTable& table, unsigned seed) {
    std::mt19937 random(seed), more(seed + 1000);
    std::uniform_real_distribution<double> u(0.5, 2.0);
    ModelStatistics statistics;
    statistics.step = 100;
    statistics.loss = 3.0;
    statistics.table = table;
    for (const LayerInfo& info : table) {
        LayerStatistics s;
        s.t = double(info.tokens);
        s.k = double(info.in_features);
        s.n = double(info.out_features);
        s.update_numel = s.k * s.n;
        s.x = u(random) * std::sqrt(s.t * s.k);
        s.w = u(random) * std::sqrt(s.n);
        s.y = u(random) * std::sqrt(s.t * s.n);
        s.g = u(random) * 1e-3;
        s.dx = u(random) * 1e-3;
        s.dw = u(random) * 1e-2;
        s.jacobian = u(random) * 1e-3 * std::sqrt(s.update_numel);
        for (const auto& [name, size] : {std::pair("fp8", 0.025), std::pair("fp4", 0.11)}) {
            s.errors[name] = {.ex = size * u(random) * s.x,
                              .ew = size * u(random) * s.w,
                              .eg = size * u(random) * s.g,
                              .first_order = 1e-3 * size * (u(random) - 1.0)};
            const double e = size * u(more);
            s.errors[name].output = {.squared = e * e * s.y * s.y,
                                     .elements = 1e-3 * e * e / s.t,
                                     .tokens = 1e-3 * e * e * u(more) / s.t};
        }
        s.outer = u(more) * s.g * s.g * s.k;
        s.curvature = 1e-6 * u(more);
        for (std::size_t k = 0; k < table.size(); ++k) {
            s.backward.push_back(statistics.layers.size() > k ? 0.1 * u(random) : 0.0);
            s.forward.push_back(1e-3 * u(random));
        }
        statistics.layers.push_back(std::move(s));
    }
    return statistics;
}

// A layer with round numbers: T = 4 tokens, K = 9 inputs, N = 16 outputs, errors of fp4.
inline LayerStatistics round_numbers() {
    LayerStatistics layer;
    layer.x = 2;
    layer.w = 3;
    layer.y = 1;
    layer.g = 4;
    layer.dx = 5;
    layer.dw = 6;
    layer.t = 4;
    layer.k = 9;
    layer.n = 16;
    layer.outer = 7;
    layer.curvature = 10;
    layer.errors["fp4"] = {.ex = 0.2, .ew = 0.3, .eg = 0.4, .first_order = -0.5};
    layer.errors["fp4"].output = {.squared = 1, .elements = 0.02, .tokens = 0.03};
    return layer;
}

}  // namespace subbyte::plan
