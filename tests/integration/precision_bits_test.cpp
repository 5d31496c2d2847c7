// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What must not change the bits of a model in low precision, and what its graph holds.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

#include "subbyte/io/json_file.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/models/llama.h"
#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"
#include "subbyte/nn/linear.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/train/gradient_step.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/run_folder.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

models::LlamaConfig small_shape() {
    models::LlamaConfig c;
    c.vocab_size = 96;
    c.hidden_size = 128;
    c.intermediate_size = 208;
    c.layers = 1;
    c.heads = 4;
    c.kv_heads = 2;
    c.max_position = 64;
    return c;
}

// A model in one recipe, head included, with the micro-batches of a step.
struct Job {
    explicit Job(const std::string& recipe, std::uint64_t weights = 1) : model(small_shape()) {
        nn::initialize(*model, weights);
        precision = nn::attach_precision(*model, {});
        precision->seed = 9;
        precision->set_plan(plan::uniform_plan(precision->table(), recipe));
        for (std::int64_t b = 0; b < 2; ++b) {
            const at::Tensor ids = at::arange(4 * 64).mul(7 + b).add(b).remainder(96).view({4, 64});
            batches.push_back({ids, ids.roll(-1, 1)});
        }
    }
    ModelLoss loss() {
        return [this](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); };
    }
    std::vector<at::Tensor> take_gradients() {
        std::vector<at::Tensor> result;
        for (const auto& p : model->parameters()) {
            result.push_back(p.grad().clone());
            p.mutable_grad().reset();
        }
        return result;
    }
    // Loss and gradients of the step.
    std::pair<double, std::vector<at::Tensor>> step() {
        const double mean = accumulate_gradients(loss(), batches, *precision).mean;
        return {mean, take_gradients()};
    }

    models::Llama model;
    std::shared_ptr<nn::Precision> precision;
    std::vector<MicroBatch> batches;
};

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "parameter " << i;
}

class EveryRecipe : public ::testing::TestWithParam<std::string> {
protected:
    ~EveryRecipe() override { at::set_num_threads(1); }
};

TEST_P(EveryRecipe, HasTheSameBitsWithOneThreadAndWithTwo) {
    Job job(GetParam());
    at::set_num_threads(1);
    const auto [one_loss, one] = job.step();
    at::set_num_threads(2);
    nn::clear_weight_caches(*job.model);
    const auto [two_loss, two] = job.step();
    EXPECT_EQ(one_loss, two_loss);
    expect_equal(one, two);
}

TEST_P(EveryRecipe, IsNotDisturbedByAnEvaluationBetweenMicroBatches) {
    at::set_num_threads(1);
    Job job(GetParam());
    const auto [plain_loss, plain] = job.step();
    const ModelLoss disturbed = [&](const at::Tensor& x, const at::Tensor& y) {
        evaluate(job.loss(), {job.batches[1]}, *job.precision);
        ops::SummedLoss loss = job.model->loss(x, y);
        evaluate(job.loss(), {job.batches[0]}, *job.precision);  // between forward and backward
        return loss;
    };
    const double loss = accumulate_gradients(disturbed, job.batches, *job.precision).mean;
    EXPECT_EQ(loss, plain_loss);
    expect_equal(job.take_gradients(), plain);
}

TEST_P(EveryRecipe, ACheckpointLoadedIntoALiveModelDropsTheOldCopies) {
    at::set_num_threads(1);
    Job saved(GetParam(), 1), live(GetParam(), 2);
    const auto [saved_loss, expected] = saved.step();
    const auto [other_loss, other] = live.step();  // now the copies of the other weights are there
    EXPECT_NE(saved_loss, other_loss);
    TempFolder folder;
    io::write_json(folder / "config.json", model_config_json(saved.model->config()));
    io::save_safetensors(folder / "model.safetensors", named_parameters(*saved.model));
    restore_parameters({folder.path().string(), {}, {}}, *live.model);
    const auto [loss, gradients] = live.step();
    EXPECT_EQ(loss, saved_loss);
    expect_equal(gradients, expected);
}

INSTANTIATE_TEST_SUITE_P(Recipes, EveryRecipe, ::testing::ValuesIn(plan::recipe_names()),
                         [](const auto& test) { return test.param; });

// Counts the bytes that tensors hold while it is installed.
class CountingAllocator : public c10::Allocator {
public:
    CountingAllocator() : next_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 255); }
    ~CountingAllocator() override { c10::SetCPUAllocator(next_, 255); }

    c10::DataPtr allocate(std::size_t bytes) override {
        void* data = next_->raw_allocate(bytes);
        const std::lock_guard lock(mutex);
        if (data != nullptr) blocks[data] = {static_cast<std::int64_t>(bytes), next_};
        return {data, data, &free, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        next_->copy_data(to, from, bytes);
    }
    static std::int64_t held() {
        const std::lock_guard lock(mutex);
        std::int64_t total = 0;
        for (const auto& [data, block] : blocks) total += block.bytes;
        return total;
    }

private:
    struct Block {
        std::int64_t bytes;
        c10::Allocator* allocator;
    };
    static void free(void* data) {
        Block block{};
        {
            const std::lock_guard lock(mutex);
            const auto found = blocks.find(data);
            if (found == blocks.end()) return;  // nullptr
            block = found->second;
            blocks.erase(found);
        }
        block.allocator->raw_deallocate(data);
    }
    static inline std::mutex mutex;
    static inline std::map<void*, Block> blocks;  // outlives the allocator
    c10::Allocator* next_;
};

// Between forward and backward a linear layer keeps the packed X^T that wgrad will read, and no X.
TEST(GraphMemory, ALinearLayerKeepsItsInputPacked) {
    CountingAllocator counting;
    constexpr std::int64_t kTokens = 512, kIn = 384, kOut = 128;
    for (const std::string& recipe : plan::recipe_names()) {
        SCOPED_TRACE(recipe);
        nn::Linear layer(kIn, kOut);
        nn::initialize(*layer, 1);
        const auto root = std::make_shared<torch::nn::Module>();
        root->register_module("layer", layer.ptr());
        const auto precision = nn::attach_precision(*root, {}, recipe);
        precision->set_plan(plan::uniform_plan(precision->table(), recipe));
        const at::Tensor leaf = at::ones({kTokens, kIn}).set_requires_grad(true);
        layer(leaf);  // quantised weight and scratch memory are there

        const std::int64_t before = counting.held();
        at::Tensor y;
        std::int64_t packed = 0;
        {
            const at::Tensor x = leaf + 1;
            y = layer(x);
            const formats::QuantSpec& spec = (*precision->recipe(0))[plan::Slot::kWgrad].b;
            packed = spec.is_fp32() ? static_cast<std::int64_t>(x.nbytes())
                                    : ops::quantize(x.detach().t(), spec).bytes();
        }
        const std::int64_t kept = counting.held() - before - static_cast<std::int64_t>(y.nbytes());
        EXPECT_GE(kept, packed);
        EXPECT_LE(kept, packed + 1024);
        if (precision->recipe(0)->slots[2].widest_bits() <= 4) {
            EXPECT_LT(packed, kTokens * kIn * 4 / 6);
        }
        y.backward(at::ones_like(y));
        y.reset();
        leaf.mutable_grad().reset();
        // What stays are the gradient and W^T, which the backward pass has packed.
        layer->weight.mutable_grad().reset();
        EXPECT_LE(counting.held() - before, nn::weight_cache_bytes(*root) / 2 + 1024);
    }
}

// The table that plans are made with before a model is built is that of the built model.
TEST(LayerTable, OfTheShapeIsThatOfTheModel) {
    for (const std::string& name : models::llama_preset_names()) {
        SCOPED_TRACE(name);
        models::LlamaConfig shape = models::llama_preset(name);
        if (models::parameter_count(shape) > 100e6) {  // the same structure with thin layers
            shape.hidden_size = 2 * shape.heads;
            shape.head_dim = 0;
            shape.intermediate_size = 6;
            shape.vocab_size = 32;
        }
        models::Llama model(shape);
        const plan::LayerTable built = nn::attach_precision(*model)->table();
        const plan::LayerTable planned = models::layer_table(shape, 0);
        ASSERT_EQ(planned.size(), built.size());
        for (std::size_t i = 0; i < built.size(); ++i) {
            EXPECT_EQ(planned[i].name, built[i].name);
            EXPECT_EQ(planned[i].type, built[i].type);
            EXPECT_EQ(planned[i].block, built[i].block);
            EXPECT_EQ(planned[i].in_features, built[i].in_features);
            EXPECT_EQ(planned[i].out_features, built[i].out_features);
            EXPECT_EQ(planned[i].candidate, built[i].candidate);
        }
        std::int64_t parameters = 0;
        for (const auto& p : model->parameters()) parameters += p.numel();
        EXPECT_EQ(models::parameter_count(shape), parameters);
    }
}

}  // namespace
}  // namespace subbyte::train
