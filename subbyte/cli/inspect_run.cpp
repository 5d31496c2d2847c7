// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect RUN_DIR [--against OTHER_RUN]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/console.h"
#include "subbyte/cli/inspect.h"
#include "subbyte/cli/output.h"
#include "subbyte/train/inspect_run.h"
#include "subbyte/train/plan_table.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string text_of(const std::optional<double>& value, const std::string& format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// The first, the last, and evenly spread ones between.
std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
    std::vector<std::size_t> chosen;
    const std::size_t shown = std::min(count, most);
    for (std::size_t i = 0; i < shown; ++i) {
        chosen.push_back(shown == 1 ? count - 1 : i * (count - 1) / (shown - 1));
    }
    return chosen;
}

std::string head_text(const train::RunView& run) {
    return fmt::format(
        "{}: {}, {} parameters, {}\n{} at step {} of {}; loss {}, {} tokens/s (median), "
        "peak memory {}\n",
        run.dir, run.model, count_text(run.parameters), run.precision, run.state, run.step,
        run.total_steps, text_of(run.loss, "{:.4f}"), text_of(run.tokens_per_second, "{:.0f}"),
        run.peak_memory_bytes ? bytes_text(*run.peak_memory_bytes) : "-");
}

std::string evaluations_text(const train::RunView& run) {
    if (run.evaluations.empty()) return "never evaluated\n";
    Rows rows{{"step"}, {"loss"}};
    for (const std::size_t i : spread(run.evaluations.size(), 8)) {
        rows[0].push_back(fmt::to_string(run.evaluations[i].step));
        rows[1].push_back(text_of(run.evaluations[i].loss, "{:.4f}"));
    }
    return table_text(rows);
}

std::string plan_text(const train::RunView& run) {
    const std::string share =
        fmt::format("FP4 share {}, {} bits on average\n",
                    run.fp4_share ? fmt::format("{:.1f}%", 100 * *run.fp4_share) : "-",
                    text_of(run.bits, "{:.1f}"));
    return run.table.empty() ? share : share + train::plan_table(run.plan, run.table);
}

std::string changes_text(const train::RunView& run) {
    if (run.plans.empty())
        return "never: the precision of this run is fixed, or no plan was made yet\n";
    int applied = 0, changed = 0;
    for (const train::RunView::PlanChange& change : run.plans) {
        applied += change.applied ? 1 : 0;
        changed += change.changed_slots;
    }
    std::string text =
        fmt::format("{} plans, {} put in force, {} slot changes (the model has {} slots)\n",
                    run.plans.size(), applied, changed, run.slots);
    Rows rows{{"step"}, {"slots"}, {run.plans.front().efficiency}};
    for (const std::size_t i : spread(run.plans.size(), 10)) {
        const train::RunView::PlanChange& change = run.plans[i];
        rows[0].push_back(fmt::to_string(change.step));
        rows[1].push_back(change.applied ? fmt::to_string(change.changed_slots) : "-");
        rows[2].push_back(change.applied ? fmt::format("{:.0f}%", 100 * change.reached) : "-");
    }
    text += table_text(rows);
    std::vector<std::string> kept;
    for (const train::RunView::PlanChange& change : run.plans) {
        if (change.applied) continue;
        for (const std::string& note : change.notes)
            kept.push_back(fmt::format("step {}: {}\n", change.step, note));
    }
    for (const std::size_t i : spread(kept.size(), 5)) text += kept[i];
    return text;
}

std::string decisions_text(const train::RunView& run) {
    std::string text;
    for (const std::size_t i : spread(run.decisions.size(), 20)) {
        const train::RunView::Decision& d = run.decisions[i];
        text += fmt::format("step {}: {}: {}: {}\n", d.step, d.control, d.action, d.reason);
    }
    return fmt::format("{} decisions\n{}", run.decisions.size(), text);
}

std::string overhead_text(const train::RunView& run) {
    const train::PlanningCost& cost = run.planning;
    if (cost.updates == 0) return "none\n";
    return fmt::format(
        "{:.2f}% of the training time with a plan every {} steps ({} plans, {:.2f} s of {}), "
        "statistics and probes {:.2f}%\n"
        "{:.2f}% with a plan every 500 steps ({:.3f} s per plan, {:.3f} s per step), statistics "
        "and "
        "probes {:.2f}%\n"
        "the solver ran {:.2f} s beside the training\n",
        100 * cost.share_of_training, cost.interval > 0 ? fmt::to_string(cost.interval) : "?",
        cost.updates, cost.seconds, duration_text(run.train_seconds), 100 * cost.statistics_share,
        100 * cost.share_at_500, cost.seconds / cost.updates, cost.step_seconds,
        100 * cost.statistics_share_at_500, cost.solve_seconds);
}

std::string number_text(const train::ComparedNumber& number, const std::optional<double>& value) {
    if (!value) return "-";
    if (number.unit == "bytes") return bytes_text(*value);
    if (number.name == "FP4 share") return fmt::format("{:.1f}%", 100 * *value);
    return fmt::format("{:.{}f}", *value, number.name == "validation loss" ? 4 : 1);
}

void show_comparison(const train::RunView& first, const train::RunView& second) {
    Rows rows{{"", first.dir, second.dir, "difference"},
              {"steps", fmt::to_string(first.step), fmt::to_string(second.step), ""}};
    for (const train::ComparedNumber& number : train::compare_runs(first, second)) {
        const auto difference = number.difference_percent();
        rows.push_back({number.name, number_text(number, number.first),
                        number_text(number, number.second),
                        difference ? fmt::format("{:+.2f}%", *difference) : "-"});
    }
    print(fmt::format("{}: {}\n{}: {}\n\n", first.dir, first.precision, second.dir,
                      second.precision) +
          table_text(rows));
}

void show(const train::RunView& run) {
    print(head_text(run));
    print("\nValidation loss\n" + evaluations_text(run));
    print("\nPlan in force\n" + plan_text(run));
    print("\nHow often it changed\n" + changes_text(run));
    if (!run.decisions.empty()) print("\nGuards and adjustments\n" + decisions_text(run));
    print("\nSNIP overhead\n" + overhead_text(run));
    print(fmt::format("\nFiles\n{}\n", fmt::join(run.files, ", ")));
}

void show_notices(const train::RunView& run) {
    for (const std::string& notice : run.notices)
        print(fmt::format("note: {}: {}\n", run.dir, notice));
}

}  // namespace

void inspect_run(const std::string& dir, const std::string& against, bool json) {
    const train::RunView run = train::read_run(dir);
    if (against.empty()) {
        if (json) return print_json(train::to_json(run));
        show(run);
        return show_notices(run);
    }
    const train::RunView other = train::read_run(against);
    if (json) {
        return print_json({{"first", train::to_json(run)},
                           {"second", train::to_json(other)},
                           {"comparison", train::to_json(train::compare_runs(run, other))}});
    }
    show_comparison(run, other);
    show_notices(run);
    show_notices(other);
}

}  // namespace subbyte::cli
