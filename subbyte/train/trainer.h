// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "subbyte/train/config.h"
#include "subbyte/train/listener.h"

namespace subbyte::train {

// One training run from a configuration: builds or resumes everything, runs the loop, and keeps the
// run folder. Results do not depend on the number of threads, nor on interruptions.
class Trainer {
public:
    // Prepares data and model and, with checkpoint.resume, takes up the newest valid checkpoint.
    // Errors: kUsage for a configuration that cannot work, kData for files. Nothing is written
    // before everything has been checked.
    Trainer(const Config& config, Listener& listener);
    ~Trainer();

    // Trains to the last step; when the run is there already, it says so and touches nothing. When
    // `stop` becomes true, the step that is running is finished, a checkpoint is saved, and the
    // result says `interrupted`. Error kDiverged after train.max_nonfinite skipped steps in a row;
    // the checkpoints stay.
    RunEnd run(const std::atomic<bool>& stop);

    // Tells the listener what run() would do and leaves everything as it is.
    void dry_run();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace subbyte::train
