// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What every optimizer does around the update of one tensor: checks, norm, clipping, skipping,
// counting.
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <memory>

#include "subbyte/optim/lr_schedule.h"
#include "subbyte/optim/make_optimizer.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class EveryOptimizer : public testing::TestWithParam<const char*> {
protected:
    // Clean and official StableSPAM are two optimizers here.
    static std::unique_ptr<Optimizer> make(std::vector<Parameter> model,
                                           nlohmann::json options = nlohmann::json::object()) {
        std::string name = GetParam();
        if (name != "adamw") {
            options["update_gap"] = 4;
            options["total_steps"] = 20;
            options["compat"] = name.substr(name.find('/') + 1);
            name = "stable-spam";
        }
        return make_optimizer(name, std::move(model), options);
    }
};

INSTANTIATE_TEST_SUITE_P(, EveryOptimizer,
                         testing::Values("adamw", "stable-spam/clean", "stable-spam/official"),
                         [](const auto& kind) {
                             std::string name = kind.param;
                             for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                             return name;
                         });

TEST_P(EveryOptimizer, RefusesUnusableParameters) {
    const at::Tensor a = noise({4}, 1);
    expect_error(ErrorCode::kUsage, "without parameters", [&] { make({}); });
    expect_error(ErrorCode::kUsage, "'w' is undefined", [&] { make({{"w", at::Tensor()}}); });
    expect_error(ErrorCode::kUsage, "'a' appears twice", [&] {
        make({{"a", a}, {"a", noise({4}, 2)}});
    });
    expect_error(ErrorCode::kUsage, "'a' and 'b' are the same", [&] {
        make({{"a", a}, {"b", a}});
    });
    expect_error(ErrorCode::kUsage, "'b' are the same", [&] {
        make({{"a", a}, {"b", a.view({2, 2})}});
    });
    expect_error(ErrorCode::kUsage, "'i' (Int on cpu)", [&] { make({{"i", a.to(at::kInt)}}); });
    expect_error(ErrorCode::kUsage, "'h' (Half", [&] { make({{"h", a.to(at::kHalf)}}); });
}

TEST_P(EveryOptimizer, RefusesBadNumbers) {
    for (const double bad : {-1e-3, kInf, kNan}) {
        expect_error(ErrorCode::kUsage, "lr is", [&] { make(small_model())->set_lr(bad); });
    }
    expect_error(ErrorCode::kUsage, "lr is -0.001, must be at least 0", [&] {
        make(small_model(), {{"lr", -1e-3}});
    });
    expect_error(ErrorCode::kUsage, "max_grad_norm is -1", [&] {
        make(small_model(), {{"max_grad_norm", -1}});
    });
    auto optimizer = make(small_model());
    expect_error(ErrorCode::kUsage, "without any gradient", [&] { optimizer->step(); });
    expect_error(ErrorCode::kUsage, "'matrix' does not fit", [&] {
        optimizer->preview(0, noise({11, 37}, 1));
    });
    expect_error(ErrorCode::kUsage, "'vector' does not fit",
                 [&] { optimizer->update_sensitivity(1, at::Tensor()); });
}

TEST_P(EveryOptimizer, LeavesParametersWithoutGradientAlone) {
    const auto model = small_model();
    auto optimizer = make(model);
    set_gradients(model, 1);
    at::Tensor vector = model[1].value;
    vector.mutable_grad().reset();
    const at::Tensor before = vector.detach().clone();
    const auto version = vector._version();
    EXPECT_TRUE(optimizer->step().applied);
    expect_same_bits(vector.detach(), before);
    EXPECT_EQ(vector._version(), version);
    EXPECT_FALSE(optimizer->state_numbers()["parameters"].contains("vector"));
}

TEST_P(EveryOptimizer, MovesTheVersionOfUpdatedTensors) {
    auto model = small_model();
    // A weight that is not contiguous takes another way.
    model[0].value = noise({11, 37}, 1).t().set_requires_grad(true);
    auto optimizer = make(model);
    set_gradients(model, 1);
    std::vector<std::uint32_t> before;
    for (const auto& p : model) before.push_back(static_cast<std::uint32_t>(p.value._version()));
    optimizer->step();
    for (std::size_t i = 0; i < model.size(); ++i) {
        EXPECT_GT(static_cast<std::uint32_t>(model[i].value._version()), before[i])
            << model[i].name;
    }
}

TEST_P(EveryOptimizer, TreatsAStridedWeightLikeItsCopy) {
    const at::Tensor strided = noise({11, 37}, 1).t().set_requires_grad(true);
    const at::Tensor dense = strided.detach().contiguous().set_requires_grad(true);
    auto a = make({{"w", strided}}), b = make({{"w", dense}});
    for (std::uint32_t t = 1; t <= 6; ++t) {
        set_gradients(a->parameters(), t);
        set_gradients(b->parameters(), t);
        a->step();
        b->step();
    }
    expect_same_bits(strided.detach(), dense.detach());
}

TEST_P(EveryOptimizer, ReportsTheGlobalNorm) {
    const auto model = small_model();
    auto optimizer = make(model);
    set_gradients(model, 5);
    double squares = 0;
    for (const auto& p : model) {
        const at::Tensor g = p.value.grad().to(at::kDouble).contiguous();
        for (std::int64_t i = 0; i < g.numel(); ++i) {
            squares += g.const_data_ptr<double>()[i] * g.const_data_ptr<double>()[i];
        }
    }
    StepResult seen;
    int calls = 0;
    optimizer->add_step_hook([&](const StepResult& r) { seen = r, ++calls; });
    const StepResult result = optimizer->step();
    EXPECT_NEAR(result.grad_norm, std::sqrt(squares), 1e-12 * std::sqrt(squares));
    EXPECT_TRUE(result.applied);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(seen.grad_norm, result.grad_norm);
    optimizer->zero_grad();
    for (const auto& p : model) EXPECT_FALSE(p.value.grad().defined());
}

TEST_P(EveryOptimizer, ClipsByGlobalNorm) {
    const auto clipped = small_model(at::kDouble), reference = small_model(at::kDouble);
    auto a = make(clipped, {{"max_grad_norm", 0.5}}), b = make(reference);
    EXPECT_EQ(a->clip_factor(1.0), 0.5 / (1.0 + 1e-6));
    EXPECT_EQ(a->clip_factor(0.25), 1.0);
    EXPECT_EQ(a->clip_factor(0.0), 1.0);
    EXPECT_EQ(b->clip_factor(1e9), 1.0);
    for (std::uint32_t t = 1; t <= 6; ++t) {
        set_gradients(clipped, t);
        set_gradients(reference, t);
        const double norm = a->step().grad_norm;
        ASSERT_GT(norm, 0.5);
        for (const auto& p : reference) {
            at::Tensor value = p.value;
            value.mutable_grad().mul_(0.5 / (norm + 1e-6));
        }
        b->step();
    }
    for (std::size_t i = 0; i < clipped.size(); ++i) {
        expect_same_bits(clipped[i].value.detach(), reference[i].value.detach());
    }
}

// What preview() says is what step() does, bit for bit, also under clipping and over resets.
TEST_P(EveryOptimizer, PreviewIsTheStep) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        for (const double max_norm : {0.0, 0.5}) {
            const auto model = small_model(dtype);
            auto optimizer = make(model, {{"max_grad_norm", max_norm}, {"weight_decay", 0.1}});
            for (std::uint32_t t = 1; t <= 9; ++t) {
                set_gradients(model, t);
                double squares = 0;
                for (const auto& p : model) {
                    const double n = p.value.grad().to(at::kDouble).norm().item<double>();
                    squares += n * n;
                }
                // The factor is taken from the step itself: norms of other software differ in bits.
                const auto twin_model = small_model(dtype);
                auto twin = make(twin_model, {{"max_grad_norm", max_norm}, {"weight_decay", 0.1}});
                if (t > 1) twin->load_state(optimizer->state_tensors(), optimizer->state_numbers());
                for (std::size_t i = 0; i < model.size(); ++i) {
                    const at::NoGradGuard guard;
                    at::Tensor(twin_model[i].value).copy_(model[i].value);
                    at::Tensor(twin_model[i].value).mutable_grad() = model[i].value.grad().clone();
                }
                const StepResult result = twin->step();
                EXPECT_NEAR(result.grad_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
                const double factor = optimizer->clip_factor(result.grad_norm);
                const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
                const std::string before = optimizer->state_numbers().dump();
                std::vector<at::Tensor> previews;
                for (std::size_t i = 0; i < model.size(); ++i) {
                    const at::Tensor& grad = model[i].value.grad();
                    previews.push_back(
                        optimizer->preview(i, factor == 1 ? grad : grad.to(wide).mul(factor)));
                }
                EXPECT_EQ(optimizer->state_numbers().dump(), before);
                optimizer->step();
                for (std::size_t i = 0; i < model.size(); ++i) {
                    expect_same_bits(previews[i], model[i].value.detach(), model[i].name);
                }
            }
        }
    }
}

TEST_P(EveryOptimizer, SkipsNonFiniteStepsAndChangesNothing) {
    for (const double poison : {kInf, -kInf, kNan}) {
        const auto hit = small_model(), clean = small_model();
        auto a = make(hit, {{"max_grad_norm", 1.0}}), b = make(clean, {{"max_grad_norm", 1.0}});
        int hooks = 0;
        a->add_step_hook([&](const StepResult&) { ++hooks; });
        for (std::uint32_t t = 1; t <= 12; ++t) {
            if (t == 1 || t == 7 || t == 8) {  // also before any state exists
                std::vector<at::Tensor> before;
                std::vector<std::uint32_t> versions;
                for (const auto& p : hit) {
                    before.push_back(p.value.detach().clone());
                    versions.push_back(static_cast<std::uint32_t>(p.value._version()));
                }
                set_gradients(hit, 1000 + t);
                hit[1].value.grad()[5].fill_(poison);
                const StepResult result = a->step();
                EXPECT_FALSE(result.applied);
                EXPECT_FALSE(std::isfinite(result.grad_norm));
                EXPECT_EQ(result.nonfinite, "vector");
                for (std::size_t i = 0; i < hit.size(); ++i) {
                    expect_same_bits(hit[i].value.detach(), before[i]);
                    EXPECT_EQ(static_cast<std::uint32_t>(hit[i].value._version()), versions[i]);
                }
            }
            set_gradients(hit, t);
            set_gradients(clean, t);
            a->step();
            b->step();
            // The run goes on with the bits of one that never saw the bad batches.
            for (std::size_t i = 0; i < hit.size(); ++i) {
                expect_same_bits(hit[i].value.detach(), clean[i].value.detach());
            }
            EXPECT_EQ(a->steps(), b->steps());
        }
        EXPECT_EQ(a->skipped(), 3);
        EXPECT_EQ(b->skipped(), 0);
        EXPECT_EQ(hooks, 15);
        nlohmann::json x = a->state_numbers(), y = b->state_numbers();
        x.erase("skipped");
        y.erase("skipped");
        EXPECT_EQ(x.dump(), y.dump());
    }
}

TEST_P(EveryOptimizer, SkipsWhenOnlyTheSumOfSquaresOverflows) {
    const auto model = small_model(at::kDouble);
    auto optimizer = make(model);
    set_gradients(model, 1);
    model[0].value.grad()[0][0].fill_(1e200);
    const StepResult result = optimizer->step();
    EXPECT_FALSE(result.applied);
    EXPECT_EQ(result.nonfinite, "matrix");
    // FP32 squares are added in double and do not overflow.
    const auto single = small_model(at::kFloat);
    auto other = make(single);
    set_gradients(single, 1);
    single[0].value.grad()[0][0].fill_(1e30);
    EXPECT_TRUE(other->step().applied);
}

// Infinite gradients during the whole warm-up: the first applied step has the first warm-up rate.
TEST_P(EveryOptimizer, WarmUpWaitsForAppliedSteps) {
    const auto model = small_model();
    auto optimizer = make(model);
    const LrSchedule schedule(
        {.shape = "cosine", .peak = 1e-2, .warmup_steps = 5, .total_steps = 100});
    std::vector<double> applied;
    for (std::uint32_t t = 1; t <= 12; ++t) {
        optimizer->set_lr(schedule.lr_at(optimizer->steps()));
        set_gradients(model, t);
        if (t <= 5) model[0].value.grad()[0][0].fill_(kInf);
        if (optimizer->step().applied) applied.push_back(optimizer->lr());
    }
    ASSERT_EQ(applied.size(), 7u);
    EXPECT_DOUBLE_EQ(applied[0], 1e-2 / 5);
    EXPECT_DOUBLE_EQ(applied[4], 1e-2);
    EXPECT_EQ(optimizer->skipped(), 5);
}

TEST_P(EveryOptimizer, SameBitsForAnyThreadCount) {
    const int before = at::get_num_threads();
    std::vector<at::Tensor> results;
    std::vector<double> norms;
    for (const int threads : {1, 2, 3}) {
        at::set_num_threads(threads);
        const at::Tensor weight = noise({257, 1023}, 1).set_requires_grad(true);
        auto optimizer = make({{"w", weight}}, {{"max_grad_norm", 1.0}, {"weight_decay", 0.1}});
        for (std::uint32_t t = 1; t <= 5; ++t) {
            set_gradients(optimizer->parameters(), t);
            norms.push_back(optimizer->step().grad_norm);
        }
        norms.push_back(optimizer->update_sensitivity(0, weight.grad()));
        results.push_back(weight.detach());
    }
    at::set_num_threads(before);
    expect_same_bits(results[1], results[0]);
    expect_same_bits(results[2], results[0]);
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(norms[i + 6], norms[i]);
        EXPECT_EQ(norms[i + 12], norms[i]);
    }
}

}  // namespace
}  // namespace subbyte::optim
