// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The training program as a user runs it: signals, bad input, a full disk.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "subbyte/train/config_writer.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

class TrainProgram : public ::testing::Test {
protected:
    pid_t start(const std::vector<std::string>& arguments, rlim_t file_limit = RLIM_INFINITY) {
        const std::string out = folder / "out", err = folder / "err";
        const pid_t child = ::fork();
        if (child == 0) {
            ::dup2(::open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 1);
            ::dup2(::open(err.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
            ::signal(SIGXFSZ, SIG_DFL);  // as a shell leaves it
            const rlimit limit{file_limit, RLIM_INFINITY};
            ::setrlimit(RLIMIT_FSIZE, &limit);
            std::vector<char*> argv{const_cast<char*>(SUBBYTE_PROGRAM)};
            for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
            argv.push_back(nullptr);
            ::execv(SUBBYTE_PROGRAM, argv.data());
            ::_exit(127);
        }
        return child;
    }
    static int finish(pid_t child) {
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    std::vector<std::string> train(const Config& config, const std::string& set = {}) {
        write_file(folder / "c.toml", to_toml(config));
        std::vector<std::string> arguments{"-q", "train", folder / "c.toml"};
        if (!set.empty()) arguments.insert(arguments.end(), {"--set", set});
        return arguments;
    }
    // Ends with `code` and an error of two lines that holds `part`.
    void expect_error(const std::vector<std::string>& arguments, int code,
                      const std::string& part) {
        EXPECT_EQ(finish(start(arguments)), code) << read_file(folder / "err");
        expect_two_lines(part);
    }
    void expect_two_lines(const std::string& part) {
        const std::string text = read_file(folder / "err");
        EXPECT_TRUE(text.starts_with("error: ")) << text;
        EXPECT_NE(text.find("\n  hint: "), std::string::npos) << text;
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    // Waits until the run has logged a step.
    bool wait_for_steps(const Config& config) {
        for (int i = 0; i < 2000; ++i) {
            if (read_file(config.run.dir + "/log.jsonl").find("\"type\":\"step\"") !=
                std::string::npos) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    TempFolder folder;
};

TEST_F(TrainProgram, ASignalSavesAndTheNextStartGoesOn) {
    for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
        Config config = tiny_config(folder);
        config.run.dir = folder / ("run" + std::to_string(code));
        config.train.steps = 1000000;
        config.train.eval_every = 0;
        config.optim.warmup_steps = {0, -1};
        const pid_t child = start(train(config));
        ASSERT_TRUE(wait_for_steps(config)) << read_file(folder / "err");
        ::kill(child, signal);
        EXPECT_EQ(finish(child), code);
        EXPECT_EQ(read_file(folder / "err"), "");
        EXPECT_TRUE(fs::exists(config.run.dir + "/checkpoints/latest/manifest.json"));
        EXPECT_NE(read_file(folder / "out").find("stopped at step"), std::string::npos);
        EXPECT_EQ(finish(start(train(config, "train.steps=1"))), 0);
        EXPECT_NE(read_file(folder / "out").find("nothing to do"), std::string::npos);
    }
}

TEST_F(TrainProgram, TheSecondSignalLeavesAtOnce) {
    Config config = tiny_config(folder);
    config.train.steps = 1000000;
    config.train.batch_size = 2048;  // a step takes long enough for two signals
    config.train.eval_every = 0;
    config.data.val_fraction = 0;
    const pid_t child = start(train(config));
    ASSERT_TRUE(wait_for_steps(config)) << read_file(folder / "err");
    ::kill(child, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(child, SIGINT);
    EXPECT_EQ(finish(child), 130);
    EXPECT_EQ(read_file(folder / "out").find("stopped at step"), std::string::npos);
    EXPECT_FALSE(fs::exists(config.run.dir + "/checkpoints/latest"));
}

TEST_F(TrainProgram, BadTextIsADataErrorAndLeavesNoRunFolder) {
    Config config = tiny_config(folder);
    const std::string text = config.data.path[0];
    fs::remove(text);
    expect_error(train(config), 3, text);
    write_file(text, "");
    expect_error(train(config), 3, text);
    write_file(text, std::string("good words\n\xff\xfe\x00\x80 more", 20) + made_up_text(5000));
    expect_error(train(config), 3, text);
    write_file(text, made_up_text(40));
    expect_error(train(config), 3, "17");
    fs::remove(text);
    fs::create_directory(text);
    expect_error(train(config), 3, text);
    EXPECT_FALSE(fs::exists(config.run.dir));
}

TEST_F(TrainProgram, WhatCannotBeDoneIsRefusedBeforeAnythingIsWritten) {
    Config config = tiny_config(folder, "mxfp4");
    config.precision.require_native = true;
    config.precision.head = "fp32";
    ::setenv("SUBBYTE_FORCE_KERNEL", "gemm=reference", 1);  // what a processor without AVX2 has
    expect_error(train(config), 5, "mxfp4");
    ::unsetenv("SUBBYTE_FORCE_KERNEL");
    config = tiny_config(folder);
    config.precision.rules = {{"model.layers.9.*", "fp8", ""}};
    expect_error(train(config), 2, "model.layers.9.*");
    config = tiny_config(folder);
    config.precision.plan = folder / "nowhere.json";
    expect_error(train(config), 3, "nowhere.json");
    config.precision.plan = "";
    config.train.batch_size = 10;
    config.train.grad_accum = 3;
    expect_error(train(config), 2, "grad_accum");
    EXPECT_FALSE(fs::exists(config.run.dir));
}

TEST_F(TrainProgram, ADivergingRunEndsWithFour) {
    Config config = tiny_config(folder);
    config.train.max_nonfinite = 2;
    config.optim.lr = 1e30;
    config.checkpoint.every = 1;
    expect_error(train(config), 4, "not finite");
    EXPECT_TRUE(fs::exists(config.run.dir + "/checkpoints/latest/manifest.json"));
}

TEST_F(TrainProgram, AFullDiskKeepsTheEarlierCheckpoints) {
    Config config = tiny_config(folder);
    ASSERT_EQ(finish(start(train(config, "train.steps=2"))), 0) << read_file(folder / "err");
    const auto before = snapshot(config.run.dir + "/checkpoints");
    ASSERT_FALSE(before.empty());
    // Below the size of model.safetensors, above that of the log.
    EXPECT_EQ(finish(start(train(config, "train.steps=4"), 60000)), 3);
    expect_two_lines("model.safetensors");
    EXPECT_TRUE(snapshot(config.run.dir + "/checkpoints") == before);
    EXPECT_EQ(finish(start(train(config, "train.steps=4"))), 0) << read_file(folder / "err");
    EXPECT_TRUE(fs::exists(checkpoint_of(config, 4) + "/manifest.json"));
}

TEST_F(TrainProgram, ProgressDoesNotStandInFrontOfAnError) {
    Config config = tiny_config(folder);
    write_file(folder / "val.txt", "short");
    config.data.val_path = {folder / "val.txt"};
    std::vector<std::string> arguments = train(config);
    arguments.erase(arguments.begin());  // -q
    expect_error(arguments, 3, "validation data");
    EXPECT_NE(read_file(folder / "out").find("data: "), std::string::npos);
}

TEST_F(TrainProgram, ARunThatWasNeverEvaluatedSaysSo) {
    Config config = tiny_config(folder);
    config.train.eval_every = 0;
    ASSERT_EQ(finish(start(train(config))), 0) << read_file(folder / "err");
    EXPECT_NE(read_file(folder / "out").find("| validation - |"), std::string::npos);
    ASSERT_EQ(finish(start({"inspect", config.run.dir})), 0) << read_file(folder / "err");
    EXPECT_NE(read_file(folder / "out").find("never evaluated"), std::string::npos);
}

TEST_F(TrainProgram, AContinuedTextDependsOnTheSeedAlone) {
    Config config = tiny_config(folder);
    config.model.vocab_size = 400;  // more than the tokenizer knows
    ASSERT_EQ(finish(start(train(config))), 0) << read_file(folder / "err");
    const auto text = [&](std::vector<std::string> options) {
        std::vector<std::string> arguments{
            "generate", checkpoint_of(config, 12), "--prompt", "the red", "--tokens", "30"};
        arguments.insert(arguments.end(), options.begin(), options.end());
        EXPECT_EQ(finish(start(arguments)), 0) << read_file(folder / "err");
        return read_file(folder / "out");
    };
    const std::vector<std::string> hot{"--seed", "5", "--temperature", "5", "--top-k", "0"};
    ::setenv("OMP_NUM_THREADS", "1", 1);
    const std::string first = text(hot);
    EXPECT_TRUE(first.starts_with("the red"));
    EXPECT_NE(first, text({"--seed", "6", "--temperature", "5", "--top-k", "0"}));
    const std::string sure = text({"--seed", "1", "--temperature", "0"});
    ::setenv("OMP_NUM_THREADS", "2", 1);
    EXPECT_EQ(first, text(hot));
    EXPECT_EQ(sure, text({"--seed", "2", "--temperature", "0"}));
    ::unsetenv("OMP_NUM_THREADS");
    expect_error({"generate", checkpoint_of(config, 12), "--prompt", "\xff"}, 3, "UTF-8");
    expect_error({"generate", checkpoint_of(config, 12), "--prompt", ""}, 2, "prompt");
}

}  // namespace
}  // namespace subbyte::train
