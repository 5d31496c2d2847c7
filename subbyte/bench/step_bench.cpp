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

namespace subbyte::bench {
namespace {

// A model of ours with its optimizer, one step at a time.
class OurStep {
public:
    OurStep(const models::LlamaConfig& config, const std::string& recipe, const std::string& head)
        : model_(config) {
        nn::initialize(*model_, 1);
        precision_ = nn::attach_precision(*model_, {"lm_head"}, head);
        precision_->set_plan(plan::uniform_plan(precision_->table(), recipe));
        optimizer_ = std::make_unique<optim::AdamW>(
            optim::parameters_of(*model_),
            optim::AdamWOptions{.lr = 1e-4, .beta2 = 0.95, .weight_decay = 0.1});
    }

    void step(const at::Tensor& ids, const at::Tensor& targets) {
        precision_->step = static_cast<std::uint32_t>(optimizer_->steps());
        train::accumulate_gradients(
            [this](const at::Tensor& x, const at::Tensor& y) { return model_->loss(x, y); },
            {{ids, targets}}, *precision_);
        optimizer_->step();
        optimizer_->zero_grad();
    }

private:
    models::Llama model_;
    std::shared_ptr<nn::Precision> precision_;
    std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace

nlohmann::json bench_step(const std::string& recipe, const std::string& head,
                          const std::string& preset, const StepShape& shape, const Effort& effort) {
    check_sizes({{"batch", shape.batch}, {"seq", shape.tokens}});
    models::LlamaConfig config = models::llama_preset(preset);
    config.max_position = std::max(config.max_position, shape.tokens);
    plan::find_recipe(recipe);
    plan::find_recipe(head);
    const ThreadScope threads(effort.threads);

    const at::Tensor ids = at::randint(config.vocab_size, {shape.batch, shape.tokens}, at::kLong);
    const at::Tensor targets =
        at::randint(config.vocab_size, {shape.batch, shape.tokens}, at::kLong);
    OurStep ours(config, recipe, head);
    LibtorchLlama fp32(config, LibtorchPrecision::kFp32);
    LibtorchLlama autocast(config, LibtorchPrecision::kBf16Autocast);
    LibtorchLlama bf16(config, LibtorchPrecision::kBf16);
    nlohmann::json json =
        report("step", contest({{"subbyte", [&] { ours.step(ids, targets); }},
                                {"fp32", [&] { fp32.step(ids, targets); }},
                                {"autocast", [&] { autocast.step(ids, targets); }},
                                {"pure_bf16", [&] { bf16.step(ids, targets); }}},
                               effort.least_rounds, effort.seconds));
    // The better of the two ways to train in BF16.
    json["bf16_seconds"] = std::min(json["autocast_seconds"], json["pure_bf16_seconds"]);
    json["vs_bf16"] = std::min(json["vs_autocast"], json["vs_pure_bf16"]);
    json["recipe"] = recipe;
    json["head"] = head;
    json["model"] = preset;
    json["shape"] = {shape.batch, shape.tokens};
    const double tokens = static_cast<double>(shape.batch * shape.tokens);
    json["tokens_per_second"] = tokens / json["seconds"].get<double>();
    return json;
}

}  // namespace subbyte::bench
