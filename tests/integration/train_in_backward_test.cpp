// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// optim.in_backward: whole runs end in the same bits.
#include <gtest/gtest.h>

#include "tests/integration/train_util.h"
#include "tests/refuses.h"

namespace subbyte::train {
namespace {

TEST(InBackward, RunsEndInTheSameBits) {
    struct Case {
        const char *recipe, *optimizer;
        std::int64_t grad_accum;
        bool recompute;
    };
    for (const Case& c : {Case{"fp4", "adamw", 1, false}, Case{"fp4", "stable-spam", 2, false},
                          Case{"bf16", "adamw", 4, true}, Case{"snip", "adamw", 2, false}}) {
        const TempFolder folder;
        Config config = tiny_config(folder, c.recipe);
        config.optim.name = c.optimizer;
        config.optim.grad_clip = 0;
        config.train.grad_accum = c.grad_accum;
        config.train.recompute = c.recompute;
        Recorder plain, inside;
        run(config, plain);
        const std::string expected = checkpoint_of(config, config.train.steps);
        config.optim.in_backward = true;
        config.run.dir = folder / "inside";
        run(config, inside);
        const std::string actual = checkpoint_of(config, config.train.steps);
        EXPECT_EQ(inside.losses(), plain.losses()) << c.recipe;
        for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
            const std::string left = read_file(expected + "/" + name);
            EXPECT_FALSE(left.empty());
            EXPECT_TRUE(left == read_file(actual + "/" + name)) << c.recipe << " " << name;
        }
        ASSERT_EQ(inside.steps.size(), plain.steps.size());
        for (std::size_t i = 0; i < plain.steps.size(); ++i) {
            EXPECT_EQ(inside.steps[i].grad_norm, plain.steps[i].grad_norm);
        }
    }
}

TEST(InBackward, GlobalClippingIsRefused) {
    const TempFolder folder;
    Config config = tiny_config(folder);
    config.optim.grad_clip = 1;
    config.optim.in_backward = true;
    Recorder recorder;
    EXPECT_TRUE(refuses(
        ErrorCode::kUsage, [&] { run(config, recorder); }, "global norm"));
}

}  // namespace
}  // namespace subbyte::train
