// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/randint.h>

#include "subbyte/bench/libtorch_llama.h"
#include "subbyte/bench/report.h"
#include "subbyte/models/llama.h"
#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/optim/make_optimizer.h"
#include "subbyte/train/gradient_step.h"
#include "subbyte/train/run_report.h"

namespace subbyte::bench {
namespace {

// A model of ours with its optimizer, one step at a time.
class OurStep {
public:
    OurStep(const models::LlamaConfig& config, const std::string& recipe, const std::string& head,
            const StepShape& shape)
        : in_backward_(shape.in_backward), model_(config) {
        model_->recompute_blocks = shape.recompute;
        nn::initialize(*model_, 1);
        precision_ = nn::attach_precision(*model_, {"lm_head"}, head);
        precision_->kept = shape.activations;
        precision_->set_plan(plan::uniform_plan(precision_->table(), recipe));
        optimizer_ = std::make_unique<optim::AdamW>(
            optim::parameters_of(*model_),
            optim::AdamWOptions{.lr = 1e-4, .beta2 = 0.95, .weight_decay = 0.1});
    }

    void step(const at::Tensor& ids, const at::Tensor& targets) {
        precision_->step = static_cast<std::uint32_t>(optimizer_->steps());
        loss_ = train::accumulate_gradients(
                    [this](const at::Tensor& x, const at::Tensor& y) { return model_->loss(x, y); },
                    {{ids, targets}}, *precision_,
                    [this] {
                        if (in_backward_) optimizer_->start_step_in_backward();
                    })
                    .mean;
        in_backward_ ? optimizer_->finish_step_in_backward() : optimizer_->step();
        optimizer_->zero_grad();
    }
    double loss() const { return loss_; }

private:
    bool in_backward_;
    models::Llama model_;
    std::shared_ptr<nn::Precision> precision_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    double loss_ = 0;
};

}  // namespace

nlohmann::json bench_step(const std::string& recipe, const std::string& head,
                          const std::string& preset, const StepShape& shape, bool alone,
                          const Effort& effort) {
    check_sizes({{"batch", shape.batch}, {"seq", shape.tokens}});
    models::LlamaConfig config = models::llama_preset(preset);
    config.max_position = std::max(config.max_position, shape.tokens);
    plan::find_recipe(recipe);
    plan::find_recipe(head);
    const ThreadScope threads(effort.threads);

    const at::Tensor ids = at::randint(config.vocab_size, {shape.batch, shape.tokens}, at::kLong);
    const at::Tensor targets =
        at::randint(config.vocab_size, {shape.batch, shape.tokens}, at::kLong);
    OurStep ours(config, recipe, head, shape);
    std::vector<Contender> contenders{{"subbyte", [&] { ours.step(ids, targets); }}};
    std::vector<std::unique_ptr<LibtorchLlama>> others;
    if (!alone) {
        for (const auto& [name, precision] :
             {std::pair{"fp32", LibtorchPrecision::kFp32},
              std::pair{"autocast", LibtorchPrecision::kBf16Autocast},
              std::pair{"pure_bf16", LibtorchPrecision::kBf16}}) {
            others.push_back(std::make_unique<LibtorchLlama>(config, precision));
            contenders.push_back(
                {name, [&, other = others.back().get()] { other->step(ids, targets); }});
        }
    }
    nlohmann::json json = report("step", contest(contenders, effort.least_rounds, effort.seconds));
    if (!alone) {  // the better of the two ways to train in BF16
        json["bf16_seconds"] = std::min(json["autocast_seconds"], json["pure_bf16_seconds"]);
        json["vs_bf16"] = std::min(json["vs_autocast"], json["vs_pure_bf16"]);
    }
    json["loss"] = ours.loss();
    json["peak_bytes"] = train::peak_memory_bytes();
    json["recipe"] = recipe;
    json["head"] = head;
    json["model"] = preset;
    json["shape"] = {shape.batch, shape.tokens};
    const double tokens = static_cast<double>(shape.batch * shape.tokens);
    json["tokens_per_second"] = tokens / json["seconds"].get<double>();
    return json;
}

}  // namespace subbyte::bench
