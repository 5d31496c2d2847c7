// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte train CONFIG [--set KEY=VALUE]... [--dry-run]
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "subbyte/cli/config_arguments.h"
#include "subbyte/cli/console.h"
#include "subbyte/cli/exit.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/train/trainer.h"

namespace subbyte::cli {
namespace {

std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};

// The first signal lets the running step finish and saves; the second leaves at once.
extern "C" void on_signal(int signal) {
    if (stop_requested.exchange(true)) std::_Exit(128 + signal);
    stop_signal = signal;
}

struct TrainArguments {
    ConfigArguments config;
    bool dry_run = false;
};

void run(const TrainArguments& arguments) {
    show_messages_among_results();
    const train::Config config = load(arguments.config).config;
    Console console(config.train.log_every);
    train::Trainer trainer(config, console);
    if (arguments.dry_run) return trainer.dry_run();
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    const train::RunEnd end = trainer.run(stop_requested);
    if (end.interrupted) throw Exit(128 + stop_signal.load());
}

}  // namespace

void add_train(CLI::App& program) {
    auto arguments = std::make_shared<TrainArguments>();
    CLI::App* verb =
        program.add_subcommand("train", "Run a training, or take up one that was stopped");
    add_config_arguments(*verb, arguments->config);
    verb->add_flag("--dry-run", arguments->dry_run,
                   "Check data, model and kernels, print what would run, and stop");
    verb->callback([arguments] { run(*arguments); });
}

}  // namespace subbyte::cli
