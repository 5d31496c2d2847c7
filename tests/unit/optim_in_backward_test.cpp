// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Updates inside the backward pass against the ordinary step.
#include <limits>
#include <memory>

#include "subbyte/optim/make_optimizer.h"
#include "tests/unit/optim_util.h"

namespace subbyte::optim {
namespace {

std::unique_ptr<Optimizer> make(const std::string& name, std::vector<Parameter> model) {
    nlohmann::json options{{"lr", 1e-2}};
    if (name == "stable-spam") options["update_gap"] = 2;
    return make_optimizer(name, std::move(model), options);
}

// A loss with a gradient of its own for every step and parameter.
at::Tensor loss_of(const std::vector<Parameter>& model, int step, double factor = 1) {
    at::Tensor loss;
    for (std::size_t i = 0; i < model.size(); ++i) {
        const at::Tensor& w = model[i].value;
        const at::Tensor target = noise(w.sizes(), static_cast<std::uint32_t>(step) * 7 + 11);
        at::Tensor part = w.sub(target).pow(2).sum().mul(factor);
        loss = loss.defined() ? loss.add(part) : part;
    }
    return loss;
}

TEST(StepInBackward, HasTheBitsOfTheOrdinaryStepAndFreesTheGradients) {
    for (const char* name : {"adamw", "stable-spam"}) {
        const std::vector<Parameter> model = small_model(), copy = small_model();
        const auto plain = make(name, model), inside = make(name, copy);
        for (int step = 0; step < 5; ++step) {
            // Two passes: only in the second one the parameters move.
            loss_of(model, step).backward();
            loss_of(model, step, 0.3).backward();
            const StepResult expected = plain->step();
            plain->zero_grad();

            loss_of(copy, step).backward();
            inside->start_step_in_backward();
            loss_of(copy, step, 0.3).backward();
            for (const Parameter& p : copy) EXPECT_FALSE(p.value.grad().defined()) << p.name;
            const StepResult result = inside->finish_step_in_backward();
            EXPECT_EQ(result.applied, expected.applied);
            EXPECT_EQ(result.grad_norm, expected.grad_norm);
        }
        for (std::size_t i = 0; i < model.size(); ++i) {
            expect_same_bits(model[i].value, copy[i].value, name + model[i].name);
        }
        expect_same_state(*plain, *inside);
    }
}

TEST(StepInBackward, UpdatesWhatTheLastPassDidNotReach) {
    const std::vector<Parameter> model = small_model();
    const auto optimizer = make("adamw", model);
    const at::Tensor before = model[1].value.detach().clone();
    model[1].value.pow(2).sum().backward();
    optimizer->start_step_in_backward();
    model[0].value.pow(2).sum().backward();
    EXPECT_TRUE(model[1].value.grad().defined());
    EXPECT_TRUE(optimizer->finish_step_in_backward().applied);
    EXPECT_FALSE(model[1].value.grad().defined());
    EXPECT_FALSE(before.equal(model[1].value));
}

TEST(StepInBackward, RefusesWhatItCannotDo) {
    const std::vector<Parameter> model = small_model();
    const auto clipped = make_optimizer("adamw", model, {{"max_grad_norm", 1.0}});
    expect_error(ErrorCode::kUsage, "global norm of 1", [&] { clipped->start_step_in_backward(); });
    const auto optimizer = make("adamw", model);
    expect_error(ErrorCode::kUsage, "without its start",
                 [&] { optimizer->finish_step_in_backward(); });
    optimizer->start_step_in_backward();
    expect_error(ErrorCode::kUsage, "twice", [&] { optimizer->start_step_in_backward(); });
    expect_error(ErrorCode::kUsage, "without any gradient",
                 [&] { optimizer->finish_step_in_backward(); });
}

TEST(StepInBackward, SkipsAStepThatIsNotFiniteFromTheStart) {
    const double inf = std::numeric_limits<double>::infinity();
    const std::vector<Parameter> model = small_model(), untouched = small_model();
    const auto optimizer = make("adamw", model);
    optimizer->start_step_in_backward();
    loss_of(model, 0, inf).backward();
    const StepResult result = optimizer->finish_step_in_backward();
    EXPECT_FALSE(result.applied);
    EXPECT_EQ(result.nonfinite, "matrix");
    EXPECT_EQ(optimizer->steps(), 0);
    EXPECT_EQ(optimizer->skipped(), 1);
    for (std::size_t i = 0; i < model.size(); ++i) {
        expect_same_bits(model[i].value, untouched[i].value);
    }
    // Parameters that were updated before cannot be taken back.
    optimizer->start_step_in_backward();
    model[0].value.pow(2).sum().backward();
    model[1].value.mul(inf).sum().backward();
    expect_error(ErrorCode::kDiverged, "gradient of vector is not finite, and 1 parameters",
                 [&] { optimizer->finish_step_in_backward(); });
}

// A parameter that outlives its optimizer keeps no hook.
TEST(StepInBackward, LeavesNoHookBehind) {
    const std::vector<Parameter> model = small_model();
    {
        const auto optimizer = make("adamw", model);
        optimizer->start_step_in_backward();
    }
    const at::Tensor before = model[0].value.detach().clone();
    model[0].value.pow(2).sum().backward();
    EXPECT_TRUE(model[0].value.grad().defined());
    expect_same_bits(model[0].value.detach(), before);
}

}  // namespace
}  // namespace subbyte::optim
