// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "subbyte/core/cpu.h"
#include "subbyte/kernels/gemm/gemm_report.h"

namespace subbyte::train {
namespace {

std::string element_name(const formats::QuantSpec& spec) {
    return spec.is_fp32() ? "fp32" : std::string(spec.element->name);
}

std::string precision_text(const Config& config) {
    const Config::Precision& p = config.precision;
    const bool planned = p.recipe == "snip" && !p.freeze_plan;
    std::string given = p.plan.empty() ? "" : fmt::format("plan from {}", p.plan);
    if (!planned && !given.empty()) return given;
    if (p.recipe != "snip") return fmt::format("{} everywhere", p.recipe);
    if (!planned) return "the plan of the checkpoint, frozen (bf16 without one)";
    const Config::Snip& s = p.snip;
    const std::string measure = s.efficiency == "fp4-share" ? "FP4 share" : "modelled time saved";
    std::string target = fmt::format("{} >= {:.2f}", measure, s.target);
    if (s.schedule == "article" && s.target_increment > 0) {
        target += fmt::format(" (+{:.2f} every {} steps up to {:.2f})", s.target_increment,
                              s.increment_every, s.max_target);
    } else if (s.schedule == "quality-held") {
        target = fmt::format("largest {} up to {:.2f} with predicted loss divergence <= {}",
                             measure, s.max_target, s.damage_bound);
    }
    return fmt::format("{}{} chooses {} per {}, {}, new plan every {} steps",
                       given.empty() ? "" : given + ", then ", s.method,
                       fmt::join(s.options, " | "),
                       s.granularity == "gemm" ? "GEMM" : s.granularity, target, s.update_interval);
}

std::string control_text(const Config& config) {
    const Config::Control& c = config.precision.control;
    const std::int64_t steps = config.train.steps;
    std::vector<std::string> parts;
    if (c.ramp_steps.of(steps) > 0) {
        parts.push_back(fmt::format("progressive warm-up over {} steps", c.ramp_steps.of(steps)));
    }
    if (c.noise_ratio > 0) parts.push_back(fmt::format("noise guard at {:.3f}", c.noise_ratio));
    if (c.spike_sigma > 0) {
        parts.push_back(fmt::format("spike guard at {} deviations{}", c.spike_sigma,
                                    c.spike_roll_back ? " with roll-back" : ""));
    }
    if (c.adjust_step > 0) {
        parts.push_back(fmt::format("target moved by {} every {} steps by the loss", c.adjust_step,
                                    c.adjust_window));
    }
    if (c.tail_steps.of(steps) > 0) {
        parts.push_back(
            fmt::format("fprop in {} in the last {} steps", c.tail_recipe, c.tail_steps.of(steps)));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

RunStart describe_start(const Config& config, models::LlamaImpl& model,
                        const optim::Optimizer& optimizer, const nn::Precision& precision,
                        int threads) {
    RunStart start;
    start.model = config.model.path.empty() ? config.model.preset : config.model.path;
    if (start.model.empty()) start.model = "llama";
    start.optimizer = optimizer.name();
    start.precision = precision_text(config);
    if (config.precision.recipe == "snip") start.control = control_text(config);
    for (const auto& parameter : model.parameters()) {
        start.parameters += parameter.numel();
        start.weight_bytes += static_cast<double>(parameter.nbytes());
    }
    start.gradient_bytes = start.weight_bytes;
    // AdamW and StableSPAM keep two moments in FP32; they appear with the first step.
    start.state_bytes = 2.0 * start.weight_bytes;
    start.layers = static_cast<std::int64_t>(precision.table().size());
    start.total_steps = config.train.steps;
    start.tokens_per_step = config.train.batch_size * config.train.seq_len;
    start.threads = threads;
    start.cpu = cpu_model_name();
    start.isa = std::string(isa_name(max_isa()));
    return start;
}

void reset_kernel_counts() { kernels::reset_gemm_report(); }

std::vector<std::string> kernel_counts() {
    struct Sum {
        double multiply_adds = 0;
        std::int64_t runs = 0;
        bool native = false;
    };
    std::map<std::string, Sum> sums;
    double total = 0;
    for (const kernels::GemmCount& count : kernels::gemm_report()) {
        Sum& sum = sums[fmt::format("{} x {}: {}", element_name(count.a), element_name(count.b),
                                    count.kernel)];
        sum.multiply_adds += count.multiply_adds;
        sum.runs += count.runs;
        sum.native = count.native;
        total += count.multiply_adds;
    }
    std::vector<std::string> lines;
    for (const auto& [name, sum] : sums) {
        lines.push_back(fmt::format("{} ({}) {:.1f}% of the multiply-adds, {} GEMMs", name,
                                    sum.native ? "native" : "emulated",
                                    total > 0 ? 100.0 * sum.multiply_adds / total : 0.0, sum.runs));
    }
    return lines;
}

double peak_memory_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) * 1024.0;
}

}  // namespace subbyte::train
