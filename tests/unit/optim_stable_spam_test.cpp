// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Properties of StableSPAM. With beta1 = 0 the first moment is the gradient that Adam sees.
#include <cmath>
#include <memory>

#include "subbyte/optim/adamw.h"
#include "subbyte/optim/stable_spam.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

at::Tensor values(std::initializer_list<double> list) {
    return at::tensor(std::vector<double>(list), at::kDouble);
}

void step_with(Optimizer& optimizer, const at::Tensor& grad) {
    at::Tensor(optimizer.parameters()[0].value).mutable_grad() = grad;
    optimizer.step();
}

std::vector<Parameter> one(const at::Tensor& start) {
    return {{"w", start.detach().clone().set_requires_grad(true)}};
}

// Puts T, mu, nu and the counters of the only parameter in place.
void set_statistics(StableSpam& optimizer, double largest, double mu, double nu, std::int64_t k) {
    NamedTensors tensors;
    const at::Tensor zero = optimizer.parameters()[0].value.detach().mul(0);
    tensors.emplace_back("w.m", zero);
    tensors.emplace_back("w.v", zero);
    nlohmann::json numbers = optimizer.state_numbers();
    numbers["parameters"]["w"] = {
        {"k_stat", k}, {"k_adam", k}, {"T", largest}, {"mu", mu}, {"nu", nu}};
    optimizer.load_state(tensors, numbers);
}

at::Tensor first_moment(const Optimizer& optimizer) { return optimizer.state_tensors()[0].second; }

// The largest entry lands on T^ = 1; an entry just above it ends below one that was not clipped.
TEST(StableSpam, AdaClipShrinksEntriesAboveTheThreshold) {
    StableSpam optimizer(one(values({0, 0, 0})), {.beta1 = 0, .gamma3 = 0.5, .adagn = false});
    set_statistics(optimizer, 0.0, 0.0, 0.0, 1000);
    step_with(optimizer, values({-2, 1.05, 0.99}));
    expect_same_bits(first_moment(optimizer), values({-1, 1.05 / 2, 0.99}));
    EXPECT_EQ(optimizer.state_numbers()["parameters"]["w"]["T"], 1.0);
}

TEST(StableSpam, FirstGradientIsNotClipped) {
    StableSpam optimizer(one(values({0, 0})), {.beta1 = 0, .adagn = false});
    step_with(optimizer, values({3, -0.25}));
    EXPECT_NEAR(first_moment(optimizer)[0].item<double>(), 3, 1e-14);
    EXPECT_EQ(first_moment(optimizer)[1].item<double>(), -0.25);
}

// |g^| = c, computed here from the norms alone.
TEST(StableSpam, AdaGnHandsOverTheNormC) {
    const double g1 = 0.7, g2 = 0.9, eps = 1e-8;
    StableSpam optimizer(one(noise({50}, 1, at::kDouble)), {.beta1 = 0, .adaclip = false});
    double mu = 0, nu = 0;
    for (int t = 1; t <= 20; ++t) {
        const at::Tensor grad =
            noise({50}, static_cast<std::uint32_t>(t), at::kDouble).mul(t % 6 == 0 ? 40.0 : 1.0);
        const double n = grad.norm().item<double>();
        mu = g1 * mu + (1 - g1) * n;
        nu = g2 * nu + (1 - g2) * n * n;
        const double c = mu / (1 - std::pow(g1, t)) / (std::sqrt(nu / (1 - std::pow(g2, t))) + eps);
        step_with(optimizer, grad);
        EXPECT_NEAR(first_moment(optimizer).norm().item<double>(), c, 1e-12 * c);
    }
}

TEST(StableSpam, ConstantScaleOfTheGradientDoesNotMatter) {
    StableSpam a(one(noise({50}, 1, at::kDouble)), {.update_gap = 5});
    StableSpam b(one(noise({50}, 1, at::kDouble)), {.update_gap = 5});
    for (std::uint32_t t = 1; t <= 20; ++t) {
        const at::Tensor grad = noise({50}, t, at::kDouble);
        step_with(a, grad);
        step_with(b, grad.mul(4096.0));
    }
    const at::Tensor x = a.parameters()[0].value, y = b.parameters()[0].value;
    EXPECT_LT(x.sub(y).abs().max().item<double>(), 1e-8);
}

TEST(StableSpam, ZeroGradientOnlyDecays) {
    for (const auto compat : {StableSpamCompat::kClean, StableSpamCompat::kOfficial}) {
        StableSpam optimizer(one(values({1, -2})),
                             {.lr = 0.5, .weight_decay = 0.25, .update_gap = 2, .compat = compat});
        for (int t = 0; t < 3; ++t) step_with(optimizer, values({0, 0}));
        const double d = 1 - 0.5 * 0.25;
        expect_same_bits(optimizer.parameters()[0].value.detach(),
                         values({d * d * d, -2 * d * d * d}));
    }
}

TEST(StableSpam, ResetsExactlyAtMultiplesOfTheGap) {
    StableSpam clean(one(noise({9}, 1)), {.update_gap = 3});
    StableSpam never(one(noise({9}, 1)), {.update_gap = 0});
    StableSpam official(one(noise({9}, 1)),
                        {.update_gap = 3, .compat = StableSpamCompat::kOfficial});
    for (std::uint32_t t = 1; t <= 9; ++t) {
        for (StableSpam* o : {&clean, &never, &official}) step_with(*o, noise({9}, t));
        const auto numbers = [](const StableSpam& o) {
            return o.state_numbers()["parameters"]["w"];
        };
        EXPECT_EQ(numbers(clean)["k_adam"], t < 3 ? t : t % 3 + 1);
        EXPECT_EQ(numbers(clean)["k_stat"], t);
        EXPECT_EQ(numbers(never)["k_adam"], t);
        EXPECT_EQ(numbers(official)["k_stat"], t < 3 ? t : t % 3 + 1);
        const bool zero = first_moment(official).abs().max().item<float>() == 0;
        EXPECT_EQ(zero, t % 3 == 0) << t;
        EXPECT_GT(first_moment(clean).abs().max().item<float>(), 0);
    }
}

// All parts off: plain AdamW, bit for bit.
TEST(StableSpam, WithoutItsPartsIsAdamW) {
    const auto a = small_model(), b = small_model();
    StableSpam spam(a, {.lr = 0.01,
                        .weight_decay = 0.1,
                        .update_gap = 0,
                        .adaclip = false,
                        .adagn = false,
                        .max_grad_norm = 0});
    AdamW adam(b, {.lr = 0.01, .weight_decay = 0.1});
    for (std::uint32_t t = 1; t <= 10; ++t) {
        set_gradients(a, t);
        set_gradients(b, t);
        for (std::size_t i = 0; i < a.size(); ++i) {
            EXPECT_EQ(spam.update_sensitivity(i, a[i].value.grad()),
                      adam.update_sensitivity(i, b[i].value.grad()));
        }
        spam.step();
        adam.step();
        for (std::size_t i = 0; i < a.size(); ++i) {
            expect_same_bits(a[i].value.detach(), b[i].value.detach());
        }
    }
}

// Averages with a rate near 1 stall in BF16; the statistics do not.
TEST(StableSpam, StatisticsAreWideForBf16Weights) {
    StableSpam optimizer(one(at::full({4}, 0.0f).to(at::kBFloat16)),
                         {.lr = 0, .gamma2 = 0.9999, .gamma3 = 0.999});
    for (int t = 0; t < 3000; ++t) step_with(optimizer, at::full({4}, 1.0f).to(at::kBFloat16));
    const auto numbers = optimizer.state_numbers()["parameters"]["w"];
    EXPECT_NEAR(numbers["T"].get<double>(), 1 - std::pow(0.999, 3000), 1e-11);
    EXPECT_NEAR(numbers["nu"].get<double>(), 4 * (1 - std::pow(0.9999, 3000)), 1e-11);
}

TEST(StableSpam, ScheduleIsHeldAfterItsEndUnlessOfficial) {
    const StableSpam clean(one(values({0})), {.total_steps = 20000});
    const StableSpam official(one(values({0})),
                              {.total_steps = 20000, .compat = StableSpamCompat::kOfficial});
    const StableSpam none(one(values({0})), {});
    EXPECT_NEAR(clean.beta_scale(20000), 0.5, 1e-8);
    EXPECT_EQ(clean.beta_scale(21000), clean.beta_scale(20000));
    EXPECT_NEAR(official.beta_scale(21000), 0.50307, 5e-6);
    EXPECT_EQ(none.beta_scale(12345), 1.0);
}

// The factors of AdaClip and AdaGN are constants of the derivative: compared with AdamW, one
// element at a time, at the gradient that Adam sees.
TEST(StableSpam, SensitivityIsAdamsTimesTheFactors) {
    const std::vector<double> g = {-2, 1.05, 0.99}, m = {0.3, -0.1, 0.2}, v = {0.2, 0.1, 0.4};
    const double lr = 0.01, b1 = 0.9, b2 = 0.99, eps = 1e-4;
    for (const bool reset : {false, true}) {
        for (const auto compat : {StableSpamCompat::kClean, StableSpamCompat::kOfficial}) {
            const bool official = compat == StableSpamCompat::kOfficial;
            StableSpam spam(one(values({0, 0, 0})), {.lr = lr,
                                                     .beta1 = b1,
                                                     .beta2 = b2,
                                                     .eps = eps,
                                                     .gamma3 = 0.5,
                                                     .update_gap = reset ? 1 : 0,
                                                     .compat = compat});
            NamedTensors tensors = {{"w.m", at::tensor(m, at::kDouble)},
                                    {"w.v", at::tensor(v, at::kDouble)}};
            nlohmann::json numbers = spam.state_numbers();
            numbers["parameters"]["w"] = {
                {"k_stat", 1000}, {"k_adam", 1000}, {"T", 0.0}, {"mu", 0.5}, {"nu", 0.5}};
            spam.load_state(tensors, numbers);

            const double clip[] = {0.5, 0.5, 1};  // T^ = 1, max|g| = 2
            double n = 0;
            for (int j = 0; j < 3; ++j) n += std::pow(clip[j] * g[static_cast<std::size_t>(j)], 2);
            n = std::sqrt(n);
            const double c = (0.7 * 0.5 + 0.3 * n) / (std::sqrt(0.9 * 0.5 + 0.1 * n * n) + eps);
            double squares = 0;
            for (std::size_t j = 0; j < 3; ++j) {
                AdamW adam(one(values({0})), {.lr = lr, .beta1 = b1, .beta2 = b2, .eps = eps});
                nlohmann::json count = adam.state_numbers();
                // Reset: clean starts from zero moments, official keeps them but counts from 1.
                const bool fresh = reset && !official;
                count["parameters"]["w"] = {{"count", reset ? 0 : 1000}};
                adam.load_state(
                    {{"w.m", values({fresh ? 0 : m[j]})}, {"w.v", values({fresh ? 0 : v[j]})}},
                    count);
                const double factor = clip[j] * c / n;
                squares +=
                    std::pow(factor * adam.update_sensitivity(0, values({factor * g[j]})), 2);
            }
            EXPECT_NEAR(spam.update_sensitivity(0, at::tensor(g, at::kDouble)), std::sqrt(squares),
                        1e-12 * std::sqrt(squares));
        }
    }
}

TEST(StableSpam, ChecksItsOptions) {
    const auto refuse = [](const std::string& part, StableSpamOptions options) {
        expect_error(ErrorCode::kUsage, part, [&] { StableSpam o(small_model(), options); });
    };
    refuse("beta1 is 1.5", {.beta1 = 1.5});
    refuse("eps is -1", {.eps = -1});
    refuse("gamma1 is -0.5, must be in [0, 1), or -1 for beta1", {.gamma1 = -0.5});
    refuse("gamma2 is 1, must be in [0, 1)", {.gamma2 = 1});
    refuse("gamma3 is nan", {.gamma3 = std::nan("")});
    refuse("update_gap is -1, must be at least 0", {.update_gap = -1});
    refuse("total_steps is -5", {.total_steps = -5});
    refuse("eta_min is 1.01, must be in [0, 1]", {.eta_min = 1.01});
}

}  // namespace
}  // namespace subbyte::optim
