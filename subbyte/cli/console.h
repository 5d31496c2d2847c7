// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "subbyte/train/listener.h"

namespace subbyte::cli {

// Prints a run as lines of fixed columns:
//   step    120/300   40.0% | loss 5.1034 | norm 0.83 | lr 6.0e-04 | 2310 tok/s | fp4 45% | 6.1
//   bits | eta 2m14s
class Console : public train::Listener {
public:
    explicit Console(std::int64_t log_every) : log_every_(log_every) {}

    void on_start(const train::RunStart& start) override;
    void on_step(const train::StepRecord& record) override;
    void on_eval(const train::EvalRecord& record) override;
    void on_plan(const SnipEvent& event, const plan::LayerTable& table) override;
    void on_control(const ControlEvent& event) override;
    void on_checkpoint(std::int64_t step, const std::string& dir) override;
    void on_message(const std::string& message) override;
    void on_end(const train::RunEnd& end) override;

private:
    std::int64_t log_every_;
};

// "6.74B", "10.50M", "12.3k", "999".
std::string count_text(double count);

// "1h03m", "2m14s", "9s".
std::string duration_text(double seconds);

// "1.2 GiB", "340 MiB".
std::string bytes_text(double bytes);

}  // namespace subbyte::cli
