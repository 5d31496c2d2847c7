// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Saving and restoring optimizers.
#include <memory>

#include "subbyte/optim/make_optimizer.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

struct Kind {
    const char* label;
    const char* name;
    nlohmann::json options;
};

std::vector<Kind> kinds() {
    return {{"adamw", "adamw", {{"lr", 0.01}, {"max_grad_norm", 2.0}}},
            {"amsgrad", "adamw", {{"lr", 0.01}, {"amsgrad", true}}},
            {"clean", "stable-spam", {{"lr", 0.01}, {"update_gap", 4}, {"total_steps", 15}}},
            {"official",
             "stable-spam",
             {{"lr", 0.01}, {"update_gap", 4}, {"total_steps", 15}, {"compat", "official"}}},
            {"parts", "stable-spam", {{"adaclip", false}, {"amsgrad", true}, {"update_gap", 3}}}};
}

void train(Optimizer& optimizer, std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t t = first; t <= last; ++t) {
        set_gradients(optimizer.parameters(), t);
        optimizer.step();
    }
}

std::vector<Parameter> copy_of(const std::vector<Parameter>& model) {
    std::vector<Parameter> result = model;
    for (Parameter& p : result) p.value = p.value.detach().clone().set_requires_grad(true);
    return result;
}

// Also through text, as a checkpoint stores the numbers.
TEST(OptimState, ResumedRunEqualsStraightRun) {
    for (const Kind& kind : kinds()) {
        for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
            for (const std::uint32_t cut : {1u, 3u, 4u, 9u}) {
                SCOPED_TRACE(kind.label + std::to_string(cut));
                auto straight = make_optimizer(kind.name, small_model(dtype), kind.options);
                train(*straight, 1, 20);
                auto first = make_optimizer(kind.name, small_model(dtype), kind.options);
                train(*first, 1, cut);
                first->set_lr(0.25);  // the rate in force is restored, too
                const std::string numbers = first->state_numbers().dump();
                auto second = make_optimizer(kind.name, copy_of(first->parameters()), kind.options);
                second->load_state(first->state_tensors(), nlohmann::json::parse(numbers));
                expect_same_state(*first, *second);
                EXPECT_EQ(second->lr(), 0.25);
                EXPECT_EQ(second->steps(), cut);
                second->set_lr(straight->lr());
                train(*second, cut + 1, 20);
                expect_same_state(*straight, *second);
                for (std::size_t i = 0; i < 3; ++i) {
                    expect_same_bits(straight->parameters()[i].value.detach(),
                                     second->parameters()[i].value.detach());
                }
            }
        }
    }
}

TEST(OptimState, LoadedTensorsAreCopies) {
    auto a = make_optimizer("adamw", small_model());
    train(*a, 1, 3);
    const NamedTensors tensors = a->state_tensors();
    auto b = make_optimizer("adamw", copy_of(a->parameters()));
    b->load_state(tensors, a->state_numbers());
    const at::Tensor before = b->state_tensors()[0].second.clone();
    tensors[0].second.zero_();
    expect_same_bits(b->state_tensors()[0].second, before);
}

TEST(OptimState, StatesAreFp32ForBf16Weights) {
    for (const char* name : {"adamw", "stable-spam"}) {
        auto optimizer = make_optimizer(name, small_model(at::kBFloat16));
        train(*optimizer, 1, 2);
        const NamedTensors tensors = optimizer->state_tensors();
        ASSERT_EQ(tensors.size(), 6u);
        EXPECT_EQ(tensors[0].first, "matrix.m");
        EXPECT_EQ(tensors[1].first, "matrix.v");
        for (const auto& [key, tensor] : tensors)
            EXPECT_EQ(tensor.scalar_type(), at::kFloat) << key;
    }
}

// Every refused load leaves the optimizer as it was.
TEST(OptimState, RefusesWhatDoesNotFit) {
    for (const Kind& kind : kinds()) {
        SCOPED_TRACE(kind.label);
        auto saved = make_optimizer(kind.name, small_model(), kind.options);
        train(*saved, 1, 3);
        const NamedTensors tensors = saved->state_tensors();
        const nlohmann::json numbers = saved->state_numbers();

        auto live = make_optimizer(kind.name, small_model(), kind.options);
        auto twin = make_optimizer(kind.name, small_model(), kind.options);
        train(*live, 5, 6);
        train(*twin, 5, 6);
        const auto refuse = [&](const std::string& part, const NamedTensors& t,
                                const nlohmann::json& n) {
            expect_error(ErrorCode::kData, part, [&] { live->load_state(t, n); });
            expect_same_state(*live, *twin);
        };
        NamedTensors t = tensors;
        t.pop_back();
        refuse("is missing", t, numbers);
        t = tensors;
        t[0].second = t[0].second.view({11, 37});
        refuse("'matrix.m' is Float [11, 37], must be Float [37, 11]", t, numbers);
        t = tensors;
        t[1].second = t[1].second.to(at::kDouble);
        refuse("'matrix.v' is Double", t, numbers);
        t = tensors;
        t.emplace_back("other.m", t[0].second);
        refuse("'other.m' belongs to no parameter", t, numbers);
        t = tensors;
        t.push_back(t[0]);
        refuse("'matrix.m' appears twice", t, numbers);

        nlohmann::json n = numbers;
        n["parameters"]["other"] = n["parameters"]["matrix"];
        refuse("no parameter 'other'", tensors, n);
        n = numbers;
        n["parameters"].erase("vector");
        refuse("'vector.m' belongs to no parameter", tensors, n);
        n = numbers;
        n["optimizer"] = "lion";
        refuse("saved by 'lion'", tensors, n);
        for (const char* key : {"steps", "skipped"}) {
            n = numbers;
            n[key] = -1;
            refuse(std::string(key) + ": -1 is not in", tensors, n);
            n[key] = 1.5;
            refuse(std::string(key) + ": a whole number expected, found 1.5", tensors, n);
            n.erase(key);
            refuse(std::string("'") + key + "' is missing", tensors, n);
        }
        n = numbers;
        n["lr"] = "fast";
        refuse("lr: a number expected, found \"fast\"", tensors, n);
        refuse("an object expected", tensors, nlohmann::json::array());
        live->load_state(tensors, numbers);
        expect_same_state(*live, *saved);
    }
}

TEST(OptimState, RefusesAnotherCompat) {
    auto clean = make_optimizer("stable-spam", small_model());
    auto official = make_optimizer("stable-spam", small_model(), {{"compat", "official"}});
    train(*clean, 1, 2);
    expect_error(ErrorCode::kData, "compat 'clean'",
                 [&] { official->load_state(clean->state_tensors(), clean->state_numbers()); });
}

}  // namespace
}  // namespace subbyte::optim
