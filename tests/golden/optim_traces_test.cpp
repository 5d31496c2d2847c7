// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Step-by-step traces of torch.optim.AdamW and of StableSPAM.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/optim/make_optimizer.h"

namespace subbyte::optim {
namespace {

using nlohmann::json;

json load(const std::string& name) {
    std::ifstream in(std::string(SUBBYTE_GOLDEN_DIR) + "/" + name);
    return json::parse(in);
}

double number(const json& value) {
    if (!value.is_string()) return value.get<double>();
    if (value == "nan") return std::nan("");
    return value == "inf" ? HUGE_VAL : -HUGE_VAL;
}

at::Tensor tensor(const json& list, const json& shape, at::ScalarType dtype) {
    std::vector<double> values;
    for (const json& x : list) values.push_back(number(x));
    return at::tensor(values, at::kDouble).to(dtype).view(shape.get<std::vector<std::int64_t>>());
}

std::vector<Parameter> parameters(const json& run, const json& shapes, at::ScalarType dtype) {
    std::vector<Parameter> result;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        result.push_back({fmt::format("p{}", i),
                          tensor(run["p0"][i], shapes[i], dtype).set_requires_grad(true)});
    }
    return result;
}

// |got - expected| <= relative |expected| + absolute, elementwise.
void expect_close(const at::Tensor& got, const json& expected, double relative, double absolute,
                  const std::string& what) {
    const at::Tensor flat = got.detach().to(at::kDouble).contiguous();
    ASSERT_EQ(static_cast<std::size_t>(flat.numel()), expected.size()) << what;
    for (std::size_t j = 0; j < expected.size(); ++j) {
        const double e = number(expected[j]);
        EXPECT_NEAR(flat.const_data_ptr<double>()[j], e, relative * std::fabs(e) + absolute)
            << what << "[" << j << "]";
    }
}

void expect_close(double got, double expected, const std::string& what) {
    EXPECT_NEAR(got, expected, 1e-11 * std::fabs(expected)) << what;
}

at::Tensor state(const Optimizer& optimizer, const std::string& name) {
    for (const auto& [key, value] : optimizer.state_tensors()) {
        if (key == name) return value;
    }
    ADD_FAILURE() << "no state " << name;
    return {};
}

bool step(Optimizer& optimizer, const json& gradients, const json& shapes, at::ScalarType dtype) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        at::Tensor value = optimizer.parameters()[i].value;
        value.mutable_grad() = tensor(gradients[i], shapes[i], dtype);
    }
    return optimizer.step().applied;
}

TEST(GoldenAdamW, FollowsTorch) {
    int runs = 0;
    const json file = load("adamw_sgd.json");
    for (const json& run : file["runs"]) {
        if (run["hyper"]["optimizer"] != "AdamW") continue;
        ++runs;
        json options = run["hyper"];
        options.erase("optimizer");
        const json& shapes = run["parameter_shapes"];
        for (const auto dtype : {at::kDouble, at::kFloat}) {
            auto optimizer = make_optimizer("adamw", parameters(run, shapes, dtype), options);
            for (std::size_t t = 0; t < run["gradients"].size(); ++t) {
                ASSERT_TRUE(step(*optimizer, run["gradients"][t], shapes, dtype));
                for (std::size_t i = 0; i < shapes.size(); ++i) {
                    const at::Tensor& value = optimizer->parameters()[i].value;
                    const std::string name = fmt::format("p{}", i);
                    const std::string what = fmt::format("{} step {}", name, t + 1);
                    if (dtype == at::kFloat) {
                        expect_close(value, run["float32"][t][i]["p"], 0, 1e-6, what);
                        continue;
                    }
                    const json& expected = run["float64"][t][i];
                    expect_close(value, expected["p"], 1e-12, 0, what);
                    expect_close(state(*optimizer, name + ".m"), expected["m"], 1e-12, 0, what);
                    expect_close(state(*optimizer, name + ".v"), expected["v"], 1e-12, 0, what);
                    if (options.value("amsgrad", false)) {
                        expect_close(state(*optimizer, name + ".v_max"), expected["vmax"], 1e-12, 0,
                                     what);
                    }
                }
            }
        }
    }
    EXPECT_EQ(runs, 4);
}

json stable_spam_options(const json& hyper, const char* compat) {
    json options = hyper;
    options["update_gap"] = hyper["update_proj_gap"];
    options["total_steps"] = hyper["total_T"].is_null() ? json(0) : hyper["total_T"];
    options["compat"] = compat;
    options.erase("update_proj_gap");
    options.erase("total_T");
    return options;
}

// Calls check(run, shapes, t, optimizer) after each step of each run that has the trace `field`.
template <typename Check>
int follow(const char* field, const char* compat, at::ScalarType dtype, Check check) {
    const json file = load("stablespam.json");
    int runs = 0;
    for (const json& run : file["runs"]) {
        if (!run.contains(field)) continue;
        ++runs;
        SCOPED_TRACE(run["name"].get<std::string>());
        const json& shapes =
            run.contains("parameter_shapes") ? run["parameter_shapes"] : file["parameter_shapes"];
        auto optimizer = make_optimizer("stable-spam", parameters(run, shapes, dtype),
                                        stable_spam_options(run["hyper"], compat));
        for (std::size_t t = 0; t < run["gradients"].size(); ++t) {
            const bool applied = step(*optimizer, run["gradients"][t], shapes, dtype);
            EXPECT_EQ(applied, run[field][t] != "skipped");
            if (!applied) continue;
            for (std::size_t i = 0; i < shapes.size(); ++i) {
                check(run[field][t][i], *optimizer, i, fmt::format("p{} step {}", i, t + 1));
            }
        }
    }
    return runs;
}

// Parameters, stored moments and statistics; m, v and some statistics are given for some runs only.
void check_float64(const json& expected, const Optimizer& optimizer, std::size_t i,
                   const std::string& what, const char* counter) {
    const std::string name = fmt::format("p{}", i);
    expect_close(optimizer.parameters()[i].value, expected["p"], 1e-11, 0, what);
    if (expected.contains("m")) {
        expect_close(state(optimizer, name + ".m"), expected["m"], 1e-11, 1e-18, what + " m");
        expect_close(state(optimizer, name + ".v"), expected["v"], 1e-11, 1e-18, what + " v");
    }
    const json saved = optimizer.state_numbers()["parameters"][name];
    for (const char* key : {"T", "mu", "nu"}) {
        if (expected.contains(key)) expect_close(saved[key], expected[key], what + " " + key);
    }
    EXPECT_EQ(saved["k_stat"], expected[counter]) << what;
    if (expected.contains("k_adam")) {
        EXPECT_EQ(saved["k_adam"], expected["k_adam"]) << what;
    }
}

TEST(GoldenStableSpam, FollowsTheOfficialProgramInDouble) {
    EXPECT_EQ(follow("official_float64", "official", at::kDouble,
                     [](const json& expected, const Optimizer& optimizer, std::size_t i,
                        const std::string& what) {
                         check_float64(expected, optimizer, i, what, "step");
                     }),
              11);
}

TEST(GoldenStableSpam, FollowsTheOfficialProgramInSingle) {
    EXPECT_EQ(follow("official_float32_p", "official", at::kFloat,
                     [](const json& expected, const Optimizer& optimizer, std::size_t i,
                        const std::string& what) {
                         expect_close(optimizer.parameters()[i].value, expected, 0, 2e-6, what);
                     }),
              10);
}

TEST(GoldenStableSpam, FollowsTheCleanEquations) {
    EXPECT_EQ(follow("clean_float64", "clean", at::kDouble,
                     [](const json& expected, const Optimizer& optimizer, std::size_t i,
                        const std::string& what) {
                         check_float64(expected, optimizer, i, what, "k_stat");
                     }),
              11);
}

}  // namespace
}  // namespace subbyte::optim
