// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/cli/console.h"

#include <fmt/format.h>

#include <cmath>

#include "subbyte/cli/output.h"

namespace subbyte::cli {
namespace {

// "[System]     text"
void block(std::string_view name, const std::string& text) {
    print(
        fmt::format("{:<13}{}\n", name.empty() ? std::string() : fmt::format("[{}]", name), text));
}

std::string loss_text(const std::optional<double>& loss) {
    return loss ? fmt::format("{:.4f}", *loss) : "-";
}

}  // namespace

std::string count_text(double count) {
    if (count >= 1e9) return fmt::format("{:.2f}B", count / 1e9);
    if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
    if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
    return fmt::format("{:.0f}", count);
}

std::string duration_text(double seconds) {
    const auto total = static_cast<long>(std::llround(std::max(0.0, seconds)));
    if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
    if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
    return fmt::format("{}s", total);
}

std::string bytes_text(double bytes) {
    if (bytes >= 1024.0 * 1024 * 1024)
        return fmt::format("{:.2f} GiB", bytes / (1024.0 * 1024 * 1024));
    return fmt::format("{:.0f} MiB", bytes / (1024.0 * 1024));
}

void Console::on_start(const train::RunStart& s) {
    block("System", fmt::format("{}, {}, {} threads", s.cpu, s.isa, s.threads));
    block("Model",
          fmt::format("{}, {} parameters, {} linear layers, {} GEMM slots", s.model,
                      count_text(static_cast<double>(s.parameters)), s.layers, 3 * s.layers));
    block("Data", fmt::format("{} training tokens, {} validation tokens, tokenizer of {}",
                              count_text(static_cast<double>(s.train_tokens)),
                              count_text(static_cast<double>(s.validation_tokens)), s.tokenizer));
    block("Optimizer", fmt::format("{}, {}", s.optimizer, s.schedule));
    block("Precision", s.precision);
    if (!s.control.empty()) block("", "guarded: " + s.control);
    for (const std::string& line : s.rules) block("", "fixed: " + line);
    for (const std::string& line : s.kernels) block("", line);
    block("Memory", fmt::format("weights {}, gradients {}, optimizer {}, packed weights {}",
                                bytes_text(s.weight_bytes), bytes_text(s.gradient_bytes),
                                bytes_text(s.state_bytes), bytes_text(s.packed_bytes)));
    block("", fmt::format("activations {}, head and loss {}; peak about {}",
                          bytes_text(s.activation_bytes), bytes_text(s.head_bytes),
                          bytes_text(s.planned_peak_bytes)));
    block("Run", fmt::format("{}, steps {} to {}, {} tokens per step", s.run_dir, s.first_step + 1,
                             s.total_steps, s.tokens_per_step));
}

void Console::on_step(const train::StepRecord& r) {
    if (!r.applied) {
        print(fmt::format(
            "guard {:>6}/{} | gradient not finite: step skipped, nothing changed ({} so far)\n",
            r.step, r.total, r.skipped));
        return;
    }
    if (r.step % log_every_ != 0 && r.step != r.total) return;
    print(fmt::format(
        "step  {:>6}/{} {:5.1f}% | loss {:.4f} | norm {:.2f} | lr {:.1e} | {} tok/s | fp4 "
        "{:.0f}% | {:.1f} bits | eta {}\n",
        r.step, r.total, 100.0 * static_cast<double>(r.step) / static_cast<double>(r.total), r.loss,
        r.grad_norm, r.lr, count_text(r.tokens_per_second), 100.0 * r.fp4_share, r.bits,
        duration_text(r.eta_seconds)));
}

void Console::on_eval(const train::EvalRecord& r) {
    print(fmt::format("eval  {:>6} | loss {:.4f} | ppl {:.2f} | {} targets\n", r.step, r.loss,
                      r.perplexity, r.targets));
}

void Console::on_plan(const SnipEvent& e, const plan::LayerTable& table) {
    for (const std::string& note : e.result.notes)
        print(fmt::format("plan  {:>6} | {}\n", e.effective_at, note));
    if (!e.applied) {
        if (!e.kept)
            print(
                fmt::format("plan  {:>6} | no new plan; the previous one stays\n", e.effective_at));
        return;
    }
    print(fmt::format(
        "plan  {:>6} | {} of {} slots changed | {} {:.0f}% (target {:.0f}%) | predicted damage "
        "loss {:.2e}, weights {:.2e} | measured at {}, {} probe passes, {:.2f} s + solver {:.2f} "
        "s\n",
        e.effective_at, e.changed_slots, 3 * table.size(),
        e.result.efficiency == plan::Efficiency::kFp4Share ? "fp4" : "modelled time saved",
        100.0 * e.result.reached, 100.0 * e.result.target, e.result.predicted_loss,
        e.result.predicted_weight, e.measured_at, e.probe_passes,
        e.statistics_seconds + e.probe_seconds + e.wait_seconds, e.solve_seconds));
}

void Console::on_control(const ControlEvent& e) {
    print(fmt::format("guard {:>6} | {}: {}: {}\n", e.step, e.control, e.action, e.reason));
}

void Console::on_checkpoint(std::int64_t step, const std::string& dir) {
    print(fmt::format("save  {:>6} | {}\n", step, dir));
}

void Console::on_message(const std::string& message) { print(message + "\n"); }

void Console::on_end(const train::RunEnd& e) {
    print(fmt::format(
        "{} at step {} | loss {} | validation {} | {} of training | peak memory {} (planned {})\n",
        e.interrupted ? "stopped" : "done", e.step, loss_text(e.loss), loss_text(e.validation_loss),
        duration_text(e.train_seconds), bytes_text(e.peak_memory_bytes),
        bytes_text(e.planned_peak_bytes)));
    for (const std::string& line : e.kernels) block("", "ran " + line);
    if (e.plans > 0) {
        print(fmt::format(
            "SNIP: {} plans, {} slot changes, {} other decisions; overhead {:.2f} s = {:.1f}% of "
            "the training time (statistics {:.2f} s, probes {:.2f} s, waiting for the solver "
            "{:.2f} "
            "s); the solver ran {:.2f} s beside the training\n"
            "      with a plan every 500 steps that would be {:.2f}% (statistics and probes "
            "{:.2f}%)\n",
            e.plans, e.changed_slots, e.decisions, e.overhead_seconds(),
            100.0 * e.share(e.overhead_seconds()), e.statistics_seconds, e.probe_seconds,
            e.wait_seconds, e.solve_seconds, 100.0 * e.share_at(e.overhead_seconds(), 500),
            100.0 * e.share_at(e.statistics_seconds + e.probe_seconds, 500)));
    }
}

}  // namespace subbyte::cli
