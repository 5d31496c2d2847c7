// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Single steps: every target weighs the same, a skipped step changes nothing, quantised weight
// copies are kept for a step and no longer.
#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "subbyte/models/llama.h"
#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/snip/snip.h"
#include "subbyte/train/gradient_step.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

// Logits [1, T, 2] whose loss per target is `losses`: -log sigmoid(z) = loss for label 0.
at::Tensor logits_with(const std::vector<double>& losses) {
    at::Tensor logits = at::zeros({1, static_cast<std::int64_t>(losses.size()), 2});
    for (std::size_t i = 0; i < losses.size(); ++i) {
        logits[0][static_cast<std::int64_t>(i)][1] = std::log(std::exp(losses[i]) - 1);
    }
    return logits;
}

TEST(Accumulation, EveryTargetWeighsTheSame) {
    const std::vector<double> losses{4, 1, 1, 1, 1, 1, 1, 1};
    const at::Tensor all = logits_with(losses);
    // The micro-batches read their rows from a table of parameters; id -1 marks an ignored
    // position.
    const auto gradient = [&](const std::vector<std::vector<std::int64_t>>& parts, double& mean) {
        at::Tensor table = all[0].clone().set_requires_grad(true);
        std::vector<MicroBatch> batches;
        for (const auto& part : parts) {
            at::Tensor ids = at::tensor(part).view({1, -1});
            batches.push_back({ids.clamp_min(0),
                               at::where(ids < 0, at::full_like(ids, -100), at::zeros_like(ids))});
        }
        nn::Precision precision;
        const AccumulatedLoss loss = accumulate_gradients(
            [&](const at::Tensor& ids, const at::Tensor& targets) {
                return ops::cross_entropy(at::embedding(table, ids), targets);
            },
            batches, precision);
        EXPECT_EQ(loss.targets, 8);
        EXPECT_EQ(precision.micro_batch, 0);
        mean = loss.mean;
        return table.grad().clone();
    };
    double whole = 0, two = 0, five = 0;
    const at::Tensor reference = gradient({{0, 1, 2, 3, 4, 5, 6, 7}}, whole);
    const at::Tensor cut = gradient({{0, -1, -1, -1, -1, -1, -1}, {1, 2, 3, 4, 5, 6, 7}}, two);
    const at::Tensor many = gradient({{0, -1}, {1, 2}, {3, 4}, {-1, -1}, {5, 6}, {7, -1}}, five);
    for (const double mean : {whole, two, five}) EXPECT_NEAR(mean, 1.375, 1e-6);
    EXPECT_LE(cut.sub(reference).abs().max().item<double>(), 1e-7);
    EXPECT_LE(many.sub(reference).abs().max().item<double>(), 1e-7);
    nn::Precision precision;
    error_of(ErrorCode::kUsage, [&] { accumulate_gradients({}, {}, precision); });
}

// 5 micro-batches with accumulation 2: the last step holds one, and counts its own targets.
TEST(Accumulation, AShortLastStepIsAppliedAndDividedByItsOwnTargets) {
    const at::Tensor ids = at::arange(5 * 8).mul(7).remainder(11).view({5, 8});
    at::Tensor targets = ids.mul(3).remainder(11);
    for (std::int64_t b = 0; b < 5; ++b) targets[b].narrow(0, 0, b + 1).fill_(-100);
    const auto train_in = [&](const std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>&
                                  steps) {
        const at::Tensor table =
            at::arange(121).sin().view({11, 11}).to(at::kFloat).set_requires_grad(true);
        optim::AdamW optimizer({{"table", table}}, {.lr = 1e-2});
        nn::Precision precision;
        std::vector<std::int64_t> counts;
        for (const auto& parts : steps) {
            std::vector<MicroBatch> batches;
            for (const auto& [first, count] : parts) {
                batches.push_back({ids.narrow(0, first, count), targets.narrow(0, first, count)});
            }
            counts.push_back(accumulate_gradients(
                                 [&](const at::Tensor& x, const at::Tensor& y) {
                                     return ops::cross_entropy(at::embedding(table, x), y);
                                 },
                                 batches, precision)
                                 .targets);
            optimizer.step();
            optimizer.zero_grad();
        }
        EXPECT_EQ(counts, (std::vector<std::int64_t>{7 + 6, 5 + 4, 3}));
        return table.detach();
    };
    const at::Tensor cut = train_in({{{0, 1}, {1, 1}}, {{2, 1}, {3, 1}}, {{4, 1}}});
    const at::Tensor whole = train_in({{{0, 2}}, {{2, 2}}, {{4, 1}}});
    EXPECT_LE(cut.sub(whole).abs().max().item<double>(), 1e-6);
}

TEST(Accumulation, EveryMicroBatchHasNoiseOfItsOwn) {
    // The address holds 12 bits of the number: the first that would share noise is refused.
    static_assert(
        ops::noise_role(plan::Slot::kFprop, ops::Operand::kA, ops::kMaxMicroBatches - 1) !=
        ops::noise_role(plan::Slot::kFprop, ops::Operand::kA, 0));
    const at::Tensor one = at::zeros({1, 1}, at::kLong);
    const std::vector<MicroBatch> most(ops::kMaxMicroBatches, {one, one});
    std::vector<MicroBatch> more = most;
    more.push_back(most.front());
    nn::Precision precision;
    at::Tensor logits = at::zeros({1, 1, 2}).set_requires_grad(true);
    const auto loss = [&](const at::Tensor&, const at::Tensor& targets) {
        return ops::cross_entropy(logits, targets);
    };
    EXPECT_EQ(accumulate_gradients(loss, most, precision).targets, ops::kMaxMicroBatches);
    const std::string message =
        error_of(ErrorCode::kUsage, [&] { accumulate_gradients(loss, more, precision); });
    EXPECT_NE(message.find("4097 micro-batches"), std::string::npos) << message;
}

// A LLaMA of one block under SNIP with nearest rounding; gradients can be made infinite by hand.
struct Job {
    explicit Job(decltype(SnipOptions::planner) planner = plan::make_plan)
        : model(config()),
          optimizer((nn::initialize(*model, 1), optim::parameters_of(*model)), {.lr = 1e-3}),
          snip(model, optimizer,
               {.update_interval = 3,
                .hysteresis = 0,
                .swap_delay = 2,
                .recipes = {"fp8", "mxfp4"},
                .keep_high = {"lm_head"},
                .planner = std::move(planner)}) {
        snip.on_plan([this](const SnipEvent& event) { events.push_back(event); });
    }
    static models::LlamaConfig config() {
        models::LlamaConfig c;
        c.vocab_size = c.hidden_size = 32;
        c.intermediate_size = 48;
        c.layers = 1;
        c.heads = c.kv_heads = 2;
        c.max_position = 8;
        return c;
    }
    void step(std::int64_t batch, bool infinite = false) {
        const at::Tensor ids = at::arange(16).mul(5).add(batch).remainder(32).view({2, 8});
        const auto loss = [&] { return model->loss(ids, ids).sum.div(16.0); };
        const at::Tensor value = loss();
        value.backward();
        if (infinite) {
            at::Tensor grad = model->parameters().front().grad();
            grad.view(-1)[0] = std::numeric_limits<float>::infinity();
        }
        if (snip.due()) snip.collect_stats({.loss = value.item<double>(), .replay = loss});
        optimizer.step();
        optimizer.zero_grad();
    }
    // Weights, moments, and the plan with what is in flight.
    std::string state() {
        std::string text;
        const auto add = [&](const at::Tensor& t) {
            const at::Tensor c = t.detach().contiguous();
            text.append(static_cast<const char*>(c.const_data_ptr()), c.nbytes());
        };
        for (const auto& p : model->parameters()) add(p);
        for (const auto& [name, t] : optimizer.state_tensors()) add(t);
        nlohmann::json json = snip.state();
        json.erase("iteration");
        if (json.contains("in_flight")) json["in_flight"].erase("measured_at");
        return text + json.dump() + std::to_string(optimizer.steps());
    }

    models::Llama model;
    optim::AdamW optimizer;
    SNIP snip;
    std::vector<SnipEvent> events;
};

// Steps 0, 3, 6 measure, 2, 5, 8 take a plan up: skips in each kind of step.
TEST(SkippedStep, ChangesNothingAndTheRunGoesOnAsIfItHadNotBeen) {
    at::set_num_threads(1);
    for (const std::int64_t when : {0, 1, 2, 3, 5}) {
        SCOPED_TRACE(when);
        Job clean, skipping;
        for (std::int64_t step = 0; step < 9; ++step) {
            if (step == when) {
                const std::string before = skipping.state();
                skipping.step(100 + step, true);
                EXPECT_TRUE(skipping.state() == before);
                EXPECT_EQ(skipping.optimizer.skipped(), 1);
            }
            clean.step(step);
            skipping.step(step);
            ASSERT_TRUE(clean.state() == skipping.state()) << "after step " << step;
        }
        ASSERT_EQ(clean.events.size(), 3u);
        ASSERT_EQ(skipping.events.size(), 3u);
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_TRUE(skipping.events[i].applied);
            EXPECT_EQ(skipping.events[i].result.plan, clean.events[i].result.plan);
            // Told in iterations, which count the skipped step.
            const std::int64_t at = clean.events[i].effective_at;
            EXPECT_EQ(skipping.events[i].effective_at, at + (at > when ? 1 : 0));
        }
    }
}

TEST(SlowSolver, ChangesNeitherTheStepOfThePlanNorABit) {
    at::set_num_threads(1);
    const auto slow = [](const plan::LayerTable& table, const plan::ModelStatistics& statistics,
                         const plan::PlannerOptions& options) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return plan::make_plan(table, statistics, options);
    };
    Job fast, waiting(slow);
    for (std::int64_t step = 0; step < 9; ++step) {
        fast.step(step);
        waiting.step(step);
        if (step == 6) {  // saved while a plan is in flight: saving waits for it
            const nlohmann::json saved = waiting.snip.state();
            EXPECT_EQ(saved.at("in_flight").at("plan"),
                      fast.snip.state().at("in_flight").at("plan"));
        }
    }
    EXPECT_TRUE(fast.state() == waiting.state());
    ASSERT_EQ(waiting.events.size(), 3u);
    // The first plan was measured in high precision; what it does is seen by the next.
    EXPECT_FALSE(fast.events[0].in_force.has_value());
    EXPECT_EQ(fast.events[0].probe_passes, 3);
    for (std::size_t i = 0; i < 3; ++i) {
        const SnipEvent &a = fast.events[i], &b = waiting.events[i];
        if (i > 0) {
            ASSERT_TRUE(a.in_force && b.in_force);
            EXPECT_EQ(a.probe_passes, 4);
            EXPECT_GT(a.in_force->predicted.weight, 0);
            EXPECT_GT(a.in_force->real.weight, 0);
            EXPECT_EQ(a.in_force->real.weight, b.in_force->real.weight);
        }
        EXPECT_EQ(a.effective_at, b.effective_at);
        EXPECT_EQ(a.result.plan, b.result.plan);
        // The steps take a few milliseconds: the training waited for most of the solve.
        EXPECT_GE(b.solve_seconds, 0.3);
        EXPECT_GT(b.wait_seconds, 0.1);
        EXPECT_LE(b.wait_seconds, b.solve_seconds + 0.1);
    }
}

// Saved in the middle of a solve: the swap comes at the same step with the same plan, whoever was
// slow.
TEST(SlowSolver, ASolveThatWasInFlightResumesToTheSameSwap) {
    at::set_num_threads(1);
    const auto slow = [](const plan::LayerTable& table, const plan::ModelStatistics& statistics,
                         const plan::PlannerOptions& options) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return plan::make_plan(table, statistics, options);
    };
    Job straight, first(slow), second(slow);
    for (std::int64_t step = 0; step < 4; ++step) {  // measured in 0 and 3; in flight until 5
        straight.step(step);
        first.step(step);
    }
    const nlohmann::json saved = nlohmann::json::parse(first.snip.state().dump());
    ASSERT_TRUE(saved.contains("in_flight"));
    const auto from = first.model->parameters(), to = second.model->parameters();
    {
        at::NoGradGuard no_grad;
        for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
    }
    second.optimizer.load_state(first.optimizer.state_tensors(), first.optimizer.state_numbers());
    second.snip.load_state(saved);
    for (std::int64_t step = 4; step < 9; ++step) {
        straight.step(step);
        second.step(step);
        ASSERT_TRUE(straight.state() == second.state()) << "after step " << step;
    }
    ASSERT_EQ(second.events.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(second.events[i].measured_at, straight.events[i + 1].measured_at);
        EXPECT_EQ(second.events[i].effective_at, straight.events[i + 1].effective_at);
        EXPECT_EQ(second.events[i].result.plan, straight.events[i + 1].result.plan);
        EXPECT_EQ(second.events[i].in_force->real.weight,
                  straight.events[i + 1].in_force->real.weight);
    }
}

// What the checkpoint says of a plan in flight is what the solver said, not that it was proven.
TEST(SlowSolver, AResumedPlanKeepsTheStatusOfItsSolve) {
    at::set_num_threads(1);
    const auto hurried = [](const plan::LayerTable& table, const plan::ModelStatistics& statistics,
                            const plan::PlannerOptions& options) {
        plan::PlanResult result = plan::make_plan(table, statistics, options);
        result.status = plan::SelectionStatus::kFeasible;
        result.gap = 0.03;
        result.objective = 0.5;
        return result;
    };
    Job first(hurried), second(hurried);
    for (std::int64_t step = 0; step < 4; ++step) first.step(step);
    nlohmann::json saved = first.snip.state();
    const auto resumed = [&] {
        second.events.clear();
        second.optimizer.load_state(first.optimizer.state_tensors(),
                                    first.optimizer.state_numbers());
        second.snip.load_state(saved);
        for (std::int64_t step = 4; step < 6; ++step) second.step(step);
        return second.events.at(0);
    };
    const SnipEvent event = resumed();
    EXPECT_EQ(event.result.status, plan::SelectionStatus::kFeasible);
    EXPECT_EQ(event.result.gap, 0.03);
    EXPECT_EQ(event.result.objective, 0.5);
    EXPECT_GT(event.probe_passes, 0);
    // A checkpoint that says only that there is a plan: nothing is known to be proven.
    saved.at("in_flight").erase("status");
    saved.at("in_flight")["usable"] = true;
    EXPECT_EQ(resumed().result.status, plan::SelectionStatus::kFeasible);
}

TEST(Divergence, OfAMeasuringStepNamesLayerTensorAndStep) {
    at::set_num_threads(1);
    Job job;
    for (std::int64_t step = 0; step < 3; ++step) job.step(step);
    {
        at::NoGradGuard no_grad;
        for (auto& p : job.model->named_parameters()) {
            if (p.key() == "model.layers.0.mlp.up_proj.weight") {
                p.value().view(-1)[0] = std::numeric_limits<float>::quiet_NaN();
            }
        }
    }
    const std::string message = error_of(ErrorCode::kDiverged, [&] { job.step(3); });
    EXPECT_NE(message.find("step 3: the loss of a measuring step is nan"), std::string::npos)
        << message;
    EXPECT_NE(message.find("the weight W of 'model.layers.0.mlp.up_proj'"), std::string::npos)
        << message;
}

TEST(Divergence, EndsTheRunAndKeepsTheCheckpoints) {
    TempFolder folder;
    Config config = tiny_config(folder, "fp8");
    config.checkpoint.every = 1;
    config.train.steps = 40;
    config.train.eval_every = 0;
    config.train.max_nonfinite = 3;
    config.optim.lr = 1e30;
    config.optim.grad_clip = 0;
    Recorder recorder;
    const std::string message = error_of(ErrorCode::kDiverged, [&] { run(config, recorder); });
    EXPECT_NE(message.find("3 steps in a row"), std::string::npos) << message;
    ASSERT_GE(recorder.steps.size(), 4u);
    EXPECT_FALSE(recorder.steps.back().applied);
    EXPECT_EQ(recorder.steps.back().skipped, 3);
    for (const std::string& checkpoint : recorder.checkpoints) {
        EXPECT_TRUE(std::filesystem::exists(checkpoint + "/manifest.json")) << checkpoint;
    }
    EXPECT_EQ(recorder.checkpoints.size(), recorder.steps.size() - 1);
}

TEST(WeightCopies, LiveForAStepAndFollowEveryChange) {
    nn::Linear layer(128, 256), fresh(128, 256);
    nn::initialize(*layer, 1);
    const auto root = std::make_shared<torch::nn::Module>(),
               other = std::make_shared<torch::nn::Module>();
    root->register_module("layer", layer.ptr());
    other->register_module("layer", fresh.ptr());
    const auto precision = nn::attach_precision(*root, {});
    const auto twin = nn::attach_precision(*other, {});
    const auto use = [](nn::Precision& p, const std::string& recipe) {
        p.set_plan(plan::uniform_plan(p.table(), recipe));
    };
    const at::Tensor x =
        at::arange(64 * 128).remainder(97).div(97.0).view({64, 128}).to(at::kFloat);
    const auto pass = [&](nn::Linear& l) {
        at::Tensor input = x.clone().set_requires_grad(true);
        const at::Tensor y = l(input);
        y.backward(y.detach());
        return at::cat({y.detach().flatten(), input.grad().flatten()});
    };
    const auto expect_fresh = [&](const std::string& recipe) {
        fresh->weight.set_data(layer->weight.detach().clone());
        use(*twin, recipe);
        EXPECT_TRUE(pass(layer).equal(pass(fresh))) << recipe;
    };
    for (const char* recipe : {"fp8", "mxfp4", "fp4", "nvfp4"}) {
        SCOPED_TRACE(recipe);
        use(*precision, recipe);
        const at::Tensor first = pass(layer);
        const std::int64_t both = nn::weight_cache_bytes(*root);
        for (int i = 0; i < 4; ++i) EXPECT_TRUE(pass(layer).equal(first));  // (a)
        EXPECT_EQ(nn::weight_cache_bytes(*root), both);
        const std::int64_t copy =
            ops::quantize(layer->weight.detach(), (*precision->recipe(0))[plan::Slot::kFprop].b)
                .bytes();
        EXPECT_EQ(both, 2 * copy);  // W and W^T are kept side by side
        use(*precision, "int8");
        pass(layer);
        use(*precision, recipe);
        EXPECT_TRUE(pass(layer).equal(first));  // (c)
        {
            at::NoGradGuard no_grad;
            layer->weight.mul_(1.25);  // (b), (d): any in-place change
            layer(x);
        }
        EXPECT_EQ(nn::weight_cache_bytes(*root), copy);  // W^T of the old weight is gone
        expect_fresh(recipe);
        layer->weight.set_data(layer->weight.detach().neg());  // (f)
        expect_fresh(recipe);
    }
}

TEST(WeightCopies, AChangeThatIsNotCountedNeedsTheCallThatDropsThem) {
    nn::Linear layer(64, 64);
    nn::initialize(*layer, 1);
    const auto root = std::make_shared<torch::nn::Module>();
    root->register_module("layer", layer.ptr());
    const auto precision = nn::attach_precision(*root, {}, "fp8");
    precision->set_plan(plan::uniform_plan(precision->table(), "fp8"));
    at::NoGradGuard no_grad;
    const at::Tensor x = at::arange(64 * 64).view({64, 64}).to(at::kFloat);
    const at::Tensor before = layer(x);
    layer->weight.data().copy_(layer->weight.neg());
    EXPECT_TRUE(layer(x).equal(before));  // LibTorch says that nothing has changed
    nn::clear_weight_caches(*root);
    EXPECT_EQ(nn::weight_cache_bytes(*root), 0);
    EXPECT_TRUE(layer(x).equal(before.neg()));
}

}  // namespace
}  // namespace subbyte::train
