// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Norms that are quantised where they are computed, against the norm as a tensor and its layers:
// the same bits, forward and backward.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "subbyte/ops/rms_norm.h"
#include "subbyte/ops/swiglu.h"
#include "subbyte/ops/swiglu_mlp.h"
#include "tests/gradcheck/op_bits.h"

namespace subbyte::ops {
namespace {

formats::QuantSpec& spec_of_x(plan::Recipe& recipe, plan::Slot slot) {
    plan::SlotRecipe& of = recipe.slots[static_cast<std::size_t>(slot)];
    return slot == plan::Slot::kFprop ? of.a : of.b;
}

// x, y, the weight of the norm, those of the layers. Without `added` y is not used.
struct Case {
    std::vector<plan::Recipe> recipes;  // of the layers
    bool added = true;
    Keep keep = Keep::kFp32;
};

std::vector<LinearLayer> layers_of(const Tensors& in, const Case& c) {
    std::vector<LinearLayer> layers;
    for (std::size_t i = 0; i < c.recipes.size(); ++i) {
        layers.push_back({in[3 + i], context_of(c.recipes[i], static_cast<std::uint32_t>(i + 1))});
    }
    return layers;
}

NormedSum normed_of(const Tensors& in, const Case& c) {
    return add_rms_norm(in[0], c.added ? in[1] : at::Tensor(), in[2], 1e-5, c.keep);
}

// The same with single ops.
NormedSum single_norm(const Tensors& in, const Case& c) {
    const at::Tensor sum = c.added ? in[0] + in[1] : in[0];
    return {sum, rms_norm(sum, in[2], 1e-5, c.keep)};
}

Tensors group(const Tensors& in, const Case& c) {
    const NormedSum s = normed_of(in, c);
    Tensors out = linear_group(s.normed, layers_of(in, c));
    out.push_back(s.sum);
    return out;
}

Tensors single_layers(const Tensors& in, const Case& c) {
    const NormedSum s = single_norm(in, c);
    Tensors out;
    for (const LinearLayer& layer : layers_of(in, c)) {
        out.push_back(linear(s.normed.tensor(), layer.weight, layer.context));
    }
    out.push_back(s.sum);
    return out;
}

Tensors mlp(const Tensors& in, const Case& c) {
    const NormedSum s = normed_of(in, c);
    const std::vector<LinearLayer> l = layers_of(in, c);
    return {s.sum + swiglu_mlp(s.normed, l[0], l[1], l[2], c.keep)};
}

Tensors single_mlp(const Tensors& in, const Case& c) {
    const NormedSum s = single_norm(in, c);
    const std::vector<LinearLayer> l = layers_of(in, c);
    const auto layer = [](const at::Tensor& x, const LinearLayer& of) {
        return linear(x, of.weight, of.context);
    };
    const at::Tensor& x = s.normed.tensor();
    return {s.sum + layer(swiglu(layer(x, l[0]), layer(x, l[1]), c.keep), l[2])};
}

// The outputs of one of these and the gradients of its inputs.
using Op = Tensors (*)(const Tensors&, const Case&);
Tensors run(Op op, const Tensors& inputs, const Case& c) {
    return ops::run([&](const Tensors& in) { return op(in, c); }, inputs);
}

struct Shape {
    std::int64_t tokens, width, inner;
};

// Narrow, odd, and wider than a piece of what is computed.
const std::vector<Shape> kShapes{{75, 40, 33}, {1, 16, 5}, {130, 515, 20}, {33, 1100, 48}};

// Inputs of an MLP with `mlp`, of a group of three layers without.
Tensors inputs_of(const Shape& s, bool mlp) {
    at::manual_seed(1);
    return {at::randn({2, s.tokens, s.width}),
            at::randn({2, s.tokens, s.width}),
            at::randn({s.width}),
            at::randn({s.inner, s.width}),
            at::randn({s.inner, s.width}),
            mlp ? at::randn({s.width, s.inner}) : at::randn({s.inner + 3, s.width})};
}

void expect_the_bits_of_single_ops(const Case& c, const std::string& what) {
    for (const Shape& s : kShapes) {
        const std::string here = what + ", width " + std::to_string(s.width);
        const Tensors layers = inputs_of(s, false), inner = inputs_of(s, true);
        expect_equal(run(group, layers, c), run(single_layers, layers, c), here + ", layers");
        expect_equal(run(mlp, inner, c), run(single_mlp, inner, c), here + ", MLP");
    }
}

TEST(FusedNorm, GivesTheBitsOfSingleOpsForEveryRecipe) {
    for (const std::string& name : plan::recipe_names()) {
        const plan::Recipe recipe = plan::find_recipe(name);
        for (const bool added : {false, true}) {
            expect_the_bits_of_single_ops({{recipe, recipe, recipe}, added}, name);
        }
    }
}

TEST(FusedNorm, GivesTheBitsOfSingleOpsWhereLayersDiffer) {
    const plan::Recipe fp4 = plan::find_recipe("fp4"), fp32 = plan::find_recipe("fp32"),
                       int8 = plan::find_recipe("int8");
    expect_the_bits_of_single_ops({{fp4, int8, plan::find_recipe("nvfp4")}}, "three recipes");
    expect_the_bits_of_single_ops({{fp4, fp32, int8}}, "one in FP32");
    expect_the_bits_of_single_ops({{fp4, fp4, int8}, true, Keep::kInt8}, "kept as INT8");
    // One that shares the rows and not the columns, noise of its own, a rotation.
    plan::Recipe mixed = fp4;
    spec_of_x(mixed, plan::Slot::kWgrad) = formats::parse_spec("int8:1x128:f32");
    expect_the_bits_of_single_ops({{fp4, mixed, fp4}}, "the same rows, other columns");
    plan::Recipe noisy = fp4;
    spec_of_x(noisy, plan::Slot::kFprop) = formats::parse_spec("e2m1:1x128:f32:sr");
    expect_the_bits_of_single_ops({{noisy, noisy, fp4}}, "stochastic rounding");
    plan::Recipe turned = fp4;
    spec_of_x(turned, plan::Slot::kWgrad) = formats::parse_spec("e2m1:tensor:f32");
    expect_the_bits_of_single_ops({{turned, turned, turned}}, "one scale");
}

TEST(FusedNorm, GivesTheSameBitsForAnyNumberOfThreads) {
    const plan::Recipe fp4 = plan::find_recipe("fp4");
    const Tensors in = inputs_of({300, 640, 64}, false);
    Tensors expected;
    for (const int threads : {1, 2, 3}) {
        at::set_num_threads(threads);
        const Tensors now = run(group, in, {{fp4, fp4, fp4}});
        if (expected.empty()) expected = now;
        expect_equal(now, expected, std::to_string(threads) + " threads");
    }
    at::set_num_threads(1);
}

// Without a graph for backward the layers get a tensor.
TEST(FusedNorm, GivesTheSameOutputsWithoutGradients) {
    const plan::Recipe int8 = plan::find_recipe("int8");
    const Case c{{int8, int8, int8}};
    const Tensors in = inputs_of({20, 48, 30}, false);
    expect_equal(group(in, c), single_layers(in, c), "no gradients");
}

// Counts the tensors of one size that are made while it is installed.
class SizeCounter : public c10::Allocator {
public:
    explicit SizeCounter(std::size_t size) : size_(size), next_(c10::GetCPUAllocator()) {
        c10::SetCPUAllocator(this, 255);
    }
    ~SizeCounter() override { c10::SetCPUAllocator(next_, 255); }
    c10::DataPtr allocate(std::size_t bytes) override {
        if (bytes == size_) ++count;
        return next_->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return next_->raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        next_->copy_data(to, from, bytes);
    }
    int count = 0;

private:
    std::size_t size_;
    c10::Allocator* next_;
};

TEST(FusedNorm, IsNeverATensorUnlessALayerComputesInFp32) {
    const Shape shape{75, 200, 33};
    for (const bool is_mlp : {false, true}) {
        Tensors in = inputs_of(shape, is_mlp);
        for (at::Tensor& t : in) t.requires_grad_(true);
        for (const std::string& name : plan::recipe_names()) {
            const plan::Recipe recipe = plan::find_recipe(name);
            const NormedSum s = normed_of(in, {{recipe}});
            const std::vector<LinearLayer> l = layers_of(in, {{recipe, recipe, recipe}});
            const SizeCounter made(in[0].nbytes());
            if (is_mlp) {
                swiglu_mlp(s.normed, l[0], l[1], l[2], Keep::kBf16);
            } else {
                linear_group(s.normed, l);
            }
            // The output of an MLP has that size.
            const bool whole = recipe[plan::Slot::kFprop].a.is_fp32();
            EXPECT_EQ(made.count > (is_mlp ? 1 : 0), whole) << name;
        }
    }
}

}  // namespace
}  // namespace subbyte::ops
