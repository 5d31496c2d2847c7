// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// kill -9 at random moments of saving: what is left is always a set of whole checkpoints.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "subbyte/core/clock.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/json_file.h"
#include "tests/temp_folder.h"

namespace subbyte::io {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 60;
// Elements. Few enough that LibTorch fills them without its threads, which do not survive a fork.
constexpr std::int64_t kSize = 20000;

void save(const fs::path& run, std::int64_t step) {
    CheckpointWriter writer(run, step);
    writer.add_json("trainer_state.json", {{"step", step}});
    writer.add_tensors("model.safetensors", {{"w", at::full({kSize}, double(step))}});
    writer.add_tensors("optimizer.safetensors", {{"m", at::full({kSize}, double(step))}});
    writer.commit();
    prune_checkpoints(run, 2, 0);
}

void expect_complete(const CheckpointInfo& checkpoint) {
    const auto step = static_cast<double>(checkpoint.step);
    EXPECT_EQ(read_json(checkpoint.folder / "trainer_state.json")["step"], checkpoint.step);
    for (const auto& [file, tensor] :
         {std::pair{"model.safetensors", "w"}, std::pair{"optimizer.safetensors", "m"}}) {
        const at::Tensor value = SafetensorsFile::open(checkpoint.folder / file).load(tensor);
        EXPECT_TRUE(value.equal(at::full({kSize}, step))) << file;
    }
}

bool has_temporary(const fs::path& run) {
    for (const auto& entry : fs::directory_iterator(checkpoints_folder(run))) {
        if (entry.path().filename().string().starts_with(".tmp-")) return true;
    }
    return false;
}

TEST(CheckpointKill, LatestIsAlwaysWhole) {
    const subbyte::TempFolder folder;
    const fs::path& run = folder.path();
    const Stopwatch watch;
    for (std::int64_t step = 1; step <= 4; ++step) save(run, step);
    // Kills fall evenly into the time of about the first three saves.
    std::uniform_real_distribution<double> delay(0.0, 3.0 * watch.seconds() / 4);

    std::mt19937 random(7);
    std::int64_t last = 4;
    int interrupted = 0;
    for (int i = 0; i < kKills; ++i) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            try {
                // Every third child saves one step over and over: the exchange of folders.
                for (std::int64_t step = last + 1;; step += i % 3 == 0 ? 0 : 1) save(run, step);
            } catch (...) {
                ::_exit(1);
            }
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(delay(random)));
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed with " << WEXITSTATUS(status);
        interrupted += has_temporary(run);

        const std::vector<CheckpointInfo> all = find_checkpoints(run);
        for (const CheckpointInfo& info : all) EXPECT_TRUE(info.valid) << info.reason;
        const auto latest = latest_valid_checkpoint(
            run, [](const CheckpointInfo& info) { ADD_FAILURE() << info.reason; });
        ASSERT_TRUE(latest.has_value());
        EXPECT_GE(latest->step, last);
        last = latest->step;
        expect_complete(*latest);
        EXPECT_TRUE(fs::exists(checkpoints_folder(run) / "latest" / "manifest.json"));
    }
    EXPECT_GT(interrupted, 0) << "no kill fell into a save: the test shows nothing";
    EXPECT_GT(last, 4) << "no save was finished: the test shows nothing";
    save(run, last + 1);
    EXPECT_FALSE(has_temporary(run));
    RecordProperty("interrupted", interrupted);
    RecordProperty("last_step", static_cast<int>(last));
}

}  // namespace
}  // namespace subbyte::io
