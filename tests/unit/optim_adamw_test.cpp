// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>

#include "subbyte/core/cpu.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/optim/make_optimizer.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

// |d W_new / d g| by central differences of preview(); all elements move at once because the update
// is elementwise.
double difference_quotient(const Optimizer& optimizer, std::size_t i, const at::Tensor& grad) {
    const double h = 1e-6;
    const at::Tensor up = optimizer.preview(i, grad.add(h));
    const at::Tensor down = optimizer.preview(i, grad.add(-h));
    return up.sub(down).div(2 * h).norm().item<double>();
}

// A constant gradient makes every update about lr, whatever the number of steps: 1000 steps of 1e-3
// take ones to zero. (A count kept in a short format stops and leaves 0.2.)
TEST(AdamW, ConstantGradientForAThousandSteps) {
    for (const std::uint32_t cut : {0u, 300u}) {
        at::Tensor weight = at::full({4096}, 1.0f).set_requires_grad(true);
        const AdamWOptions options{.lr = 1e-3, .weight_decay = 0};
        auto optimizer = std::make_unique<AdamW>(std::vector<Parameter>{{"w", weight}}, options);
        for (std::uint32_t t = 1; t <= 1000; ++t) {
            weight.mutable_grad() = at::full({4096}, 0.1f);
            optimizer->step();
            if (t == cut) {
                weight = weight.detach().clone().set_requires_grad(true);
                auto resumed =
                    std::make_unique<AdamW>(std::vector<Parameter>{{"w", weight}}, options);
                resumed->load_state(optimizer->state_tensors(), optimizer->state_numbers());
                optimizer = std::move(resumed);
            }
        }
        EXPECT_LT(weight.detach().abs().max().item<float>(), 1e-4f);
        const nlohmann::json numbers = optimizer->state_numbers();
        EXPECT_EQ(numbers["steps"], 1000);
        EXPECT_EQ(numbers["parameters"]["w"]["count"], 1000);
    }
}

// The bias correction counts updates of the parameter, as in PyTorch: a tensor that is first
// reached late starts with a step of lr, not with (1-b1)/sqrt(1-b2) lr.
TEST(AdamW, CountsPerParameter) {
    const auto model = small_model(at::kDouble);
    AdamW optimizer(model, {.lr = 0.01, .weight_decay = 0});
    for (std::uint32_t t = 1; t <= 50; ++t) {
        set_gradients(model, t);
        at::Tensor number = model[2].value;
        if (t < 50) number.mutable_grad().reset();
        const double before = number.item<double>();
        optimizer.step();
        if (t < 50) continue;
        EXPECT_NEAR(std::fabs(number.item<double>() - before), 0.01, 1e-8);
    }
}

TEST(AdamW, DecaysOnlyWhereAsked) {
    const auto model = small_model(at::kDouble);
    const at::Tensor matrix = model[0].value.detach().clone();
    const at::Tensor vector = model[1].value.detach().clone();
    AdamW optimizer(model, {.lr = 0.5, .weight_decay = 0.25});
    for (const auto& p : model) at::Tensor(p.value).mutable_grad() = p.value.detach().mul(0);
    optimizer.step();
    expect_same_bits(model[0].value.detach(), matrix.mul(1 - 0.5 * 0.25));
    expect_same_bits(model[1].value.detach(), vector);
}

TEST(AdamW, Bf16WeightsAreComputedInFp32AndRoundedOnce) {
    const at::Tensor start = noise({333}, 4, at::kBFloat16);
    const at::Tensor half = start.clone().set_requires_grad(true);
    const at::Tensor single = start.to(at::kFloat).set_requires_grad(true);
    AdamW a({{"w", half}}, {.lr = 0.05}), b({{"w", single}}, {.lr = 0.05});
    for (std::uint32_t t = 1; t <= 5; ++t) {
        set_gradients(a.parameters(), t);
        at::Tensor(single).mutable_grad() = half.grad().to(at::kFloat);
        a.step();
        b.step();
        expect_same_bits(half.detach(), single.detach().to(at::kBFloat16));
        const at::NoGradGuard guard;
        at::Tensor(single).copy_(half);
    }
}

// The update is compiled for several instruction sets; tails and odd lengths included.
TEST(AdamW, SameBitsOnEveryInstructionSet) {
    const Isa before = max_isa();
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        for (const bool amsgrad : {false, true}) {
            std::vector<std::unique_ptr<AdamW>> runs;
            for (const Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512}) {
                if (isa > detected_isa()) continue;
                set_max_isa(isa);
                runs.push_back(std::make_unique<AdamW>(
                    small_model(dtype),
                    AdamWOptions{.lr = 0.01, .max_grad_norm = 0.5, .amsgrad = amsgrad}));
                for (std::uint32_t t = 1; t <= 6; ++t) {
                    set_gradients(runs.back()->parameters(), t);
                    runs.back()->step();
                }
                expect_same_state(*runs.back(), *runs.front());
                for (std::size_t i = 0; i < 3; ++i) {
                    expect_same_bits(runs.back()->parameters()[i].value.detach(),
                                     runs.front()->parameters()[i].value.detach());
                }
            }
        }
    }
    set_max_isa(before);
}

TEST(AdamW, SensitivityIsTheDerivative) {
    for (const bool amsgrad : {false, true}) {
        const auto model = small_model(at::kDouble);
        AdamW optimizer(model, {.lr = 0.01, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = amsgrad});
        for (std::uint32_t t = 1; t <= 12; ++t) {
            set_gradients(model, t);
            for (std::size_t i = 0; i < model.size(); ++i) {
                const at::Tensor grad = model[i].value.grad();
                const double exact = difference_quotient(optimizer, i, grad);
                EXPECT_NEAR(optimizer.update_sensitivity(i, grad), exact, 1e-5 * exact + 1e-12)
                    << t << " " << i;
            }
            optimizer.step();
        }
    }
}

// Rows that have never had a gradient (0 / 0) cost nothing.
TEST(AdamW, SensitivityOfUnreachedElementsIsZero) {
    const at::Tensor weight = noise({4}, 1).set_requires_grad(true);
    AdamW optimizer({{"w", weight}});
    EXPECT_EQ(optimizer.update_sensitivity(0, at::full({4}, 0.0f)), 0.0);
}

TEST(AdamW, ChecksItsOptions) {
    const auto refuse = [](const std::string& part, AdamWOptions options) {
        expect_error(ErrorCode::kUsage, part, [&] { AdamW optimizer(small_model(), options); });
    };
    refuse("lr is nan", {.lr = std::nan("")});
    refuse("beta1 is 1, must be in [0, 1)", {.beta1 = 1});
    refuse("beta2 is -0.5, must be in [0, 1)", {.beta2 = -0.5});
    refuse("eps is 0, must be at least 1.2e-38", {.eps = 0});
    refuse("weight_decay is -0.1, must be at least 0", {.weight_decay = -0.1});
    refuse("max_grad_norm is inf", {.max_grad_norm = HUGE_VAL});
}

TEST(MakeOptimizer, BuildsByName) {
    EXPECT_EQ(make_optimizer("adamw", small_model())->name(), "adamw");
    EXPECT_EQ(make_optimizer("stable-spam", small_model())->name(), "stable-spam");
    auto made = make_optimizer("adamw", small_model(),
                               {{"lr", 2},
                                {"betas", {0.5, 0.75}},
                                {"eps", 1e-6},
                                {"weight_decay", 0.3},
                                {"max_grad_norm", 4},
                                {"amsgrad", true}});
    const AdamWOptions& o = dynamic_cast<const AdamW&>(*made).options();
    EXPECT_EQ(made->lr(), 2.0);
    EXPECT_EQ(made->max_grad_norm(), 4.0);
    EXPECT_EQ(o.beta1, 0.5);
    EXPECT_EQ(o.beta2, 0.75);
    EXPECT_EQ(o.eps, 1e-6);
    EXPECT_EQ(o.weight_decay, 0.3);
    EXPECT_TRUE(o.amsgrad);
    auto spam = make_optimizer("stable-spam", small_model(),
                               {{"gamma1", -1},
                                {"gamma2", 0.5},
                                {"gamma3", 0.25},
                                {"update_gap", 7},
                                {"total_steps", 9},
                                {"eta_min", 0.125},
                                {"compat", "official"},
                                {"adaclip", false},
                                {"adagn", false}});
    const StableSpamOptions& s = dynamic_cast<const StableSpam&>(*spam).options();
    EXPECT_EQ(s.gamma1, -1.0);
    EXPECT_EQ(s.gamma2, 0.5);
    EXPECT_EQ(s.gamma3, 0.25);
    EXPECT_EQ(s.update_gap, 7);
    EXPECT_EQ(s.total_steps, 9);
    EXPECT_EQ(s.eta_min, 0.125);
    EXPECT_EQ(s.compat, StableSpamCompat::kOfficial);
    EXPECT_FALSE(s.adaclip);
    EXPECT_FALSE(s.adagn);
}

TEST(MakeOptimizer, NamesTheNearestKey) {
    const auto refuse = [](const std::string& name, const nlohmann::json& options,
                           const std::string& part, const std::string& hint) {
        const Error error = error_of([&] { make_optimizer(name, small_model(), options); });
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
    };
    const nlohmann::json none = nlohmann::json::object();
    refuse("adam", none, "optimizer 'adam' is unknown", "did you mean 'adamw'?");
    refuse("stablespam", none, "'stablespam'", "did you mean 'stable-spam'?");
    refuse("xyz", none, "'xyz'", "known: adamw, stable-spam");
    refuse("adamw", {{"weight_decy", 0.1}}, "unknown key 'weight_decy'",
           "did you mean 'weight_decay'?");
    refuse("adamw", {{"gamma1", 0.1}}, "unknown key 'gamma1'", "");
    refuse("stable-spam", {{"compat", "oficial"}}, "compat: 'oficial' is unknown",
           "did you mean 'official'?");
    refuse("adamw", {{"lr", "1e-3"}}, "lr: a number expected, found \"1e-3\"", "");
    refuse("adamw", {{"betas", {0.9}}}, "betas: two numbers expected", "");
    refuse("adamw", {{"betas", {0.9, 1.0}}}, "beta2 is 1", "");
    refuse("stable-spam", {{"update_gap", -1}}, "update_gap: -1 is not in", "");
    refuse("stable-spam", {{"adagn", 1}}, "adagn: true or false expected, found 1", "");
    refuse("adamw", nlohmann::json::array(), "an object expected", "");
}

}  // namespace
}  // namespace subbyte::optim
