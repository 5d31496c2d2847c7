// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Trains a hand-written model while SNIP chooses FP8 or FP4 for each of its linear layers:
//   build/bin/train_with_snip [steps]
#include <fmt/core.h>

#include <cstdlib>
#include <map>

#include "examples/residual_mlp.h"
#include "examples/teacher_data.h"
#include "subbyte/core/error.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/snip/snip.h"

int main(int argc, char** argv) try {
    const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
    const example::TeacherData data(128, 16);
    example::ResidualMlp model(4, 128, 256, 16);

    subbyte::optim::AdamW optimizer(subbyte::optim::parameters_of(*model), {.lr = 2e-3});
    subbyte::SNIP snip(model, optimizer,
                       {.initial_target = 0.4, .update_interval = 50, .keep_high = {"head"}});
    snip.on_plan([&](const subbyte::SnipEvent& event) {
        fmt::print("plan   {:4} | {} slots changed | FP4 share {:.2f} (target {:.2f})\n",
                   event.effective_at, event.changed_slots, event.result.reached,
                   event.result.target);
    });

    for (int step = 0; step < steps; ++step) {
        const example::Batch batch = data.batch(static_cast<std::uint32_t>(step), 512);
        const auto forward = [&] { return model->forward(batch.x, batch.labels); };
        const at::Tensor loss = forward();
        loss.backward();
        if (step % snip.update_interval() == 0) {
            snip.collect_stats({.loss = loss.item<double>(), .replay = forward});
        }
        optimizer.step();
        optimizer.zero_grad();
        if (step % 50 == 49)
            fmt::print("step   {:4} | loss {:.4f}\n", step + 1, loss.item<double>());
    }
    for (const auto& [layer, recipes] : snip.plan().layers)
        fmt::print("{:20} {}\n", layer, recipes[0]);
    return 0;
} catch (const subbyte::Error& error) {
    fmt::print(stderr, "error: {}\n  hint: {}\n", error.what(), error.hint());
    return static_cast<int>(error.code());
}
