// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/cbc_solver.h"

#include <CbcModel.hpp>
#include <CbcStrategy.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>

namespace subbyte::plan {
namespace {

// CBC keeps a few counters in global variables.
std::mutex solver_mutex;

// The solver works with absolute tolerances, so both scales are fixed: the need becomes kNeed, and
// the optimum at least kCost. With tolerances of 1e-9 that is 1e-11 of either.
constexpr double kNeed = 100.0;
constexpr double kCost = 100.0;
constexpr double kTolerance = 1e-9;

// Where the optimal cost lies, without search. Columns are admitted cheapest first until they cover
// the need: every solution holds a column at least as dear as the last one admitted, and the
// largest admitted column of every set is a solution.
struct CostRange {
    double least = 0, most = 0;
};

CostRange cost_range(const CoverProblem& problem) {
    std::vector<std::size_t> order(problem.columns.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return problem.columns[a].cost < problem.columns[b].cost;
    });
    std::vector<double> gain(static_cast<std::size_t>(problem.sets), 0.0);
    std::vector<double> cost(gain.size(), 0.0);
    CostRange range;
    for (const std::size_t j : order) {
        const auto& column = problem.columns[j];
        const auto set = static_cast<std::size_t>(column.set);
        range.least = column.cost;
        if (column.gain > gain[set]) {
            gain[set] = column.gain;
            cost[set] = column.cost;
        }
        if (std::accumulate(gain.begin(), gain.end(), 0.0) >= problem.need) break;
    }
    range.most = std::accumulate(cost.begin(), cost.end(), 0.0);
    return range;
}

void load(OsiClpSolverInterface& lp, const CoverProblem& problem, const CostRange& range) {
    lp.messageHandler()->setLogLevel(0);
    lp.getModelPtr()->setLogLevel(0);
    lp.setHintParam(OsiDoReducePrint, true, OsiHintTry);

    const int count = static_cast<int>(problem.columns.size());
    std::vector<double> objective(problem.columns.size());
    std::vector<double> most(problem.columns.size(), 1.0);
    CoinPackedVector cover;
    std::vector<CoinPackedVector> sets(static_cast<std::size_t>(problem.sets));
    for (int j = 0; j < count; ++j) {
        const CoverProblem::Column& column = problem.columns[static_cast<std::size_t>(j)];
        // Dearer than a whole solution: never taken, and not allowed to spoil the scale.
        if (column.cost > range.most) {
            most[static_cast<std::size_t>(j)] = 0.0;
        } else {
            objective[static_cast<std::size_t>(j)] = column.cost / range.least * kCost;
        }
        // A column that covers everything alone need not say by how much.
        cover.insert(j, std::min(column.gain / problem.need, 1.0) * kNeed);
        sets[static_cast<std::size_t>(column.set)].insert(j, 1.0);
    }
    CoinPackedMatrix rows(false, 0, 0);
    rows.setDimensions(0, count);
    rows.appendRow(cover);
    std::vector<double> lower{kNeed}, upper{lp.getInfinity()};
    for (const CoinPackedVector& set : sets) {
        if (set.getNumElements() < 2) continue;
        rows.appendRow(set);
        lower.push_back(-lp.getInfinity());
        upper.push_back(1.0);
    }
    const std::vector<double> zeros(problem.columns.size(), 0.0);
    lp.loadProblem(rows, zeros.data(), most.data(), objective.data(), lower.data(), upper.data());
    for (int j = 0; j < count; ++j) lp.setInteger(j);
    lp.setDblParam(OsiPrimalTolerance, kTolerance);
    lp.setDblParam(OsiDualTolerance, kTolerance);
}

// Excludes exactly the choice `taken`: some taken column must go or some other must come.
void exclude(OsiClpSolverInterface& lp, const std::vector<int>& taken) {
    std::vector<double> coefficients(static_cast<std::size_t>(lp.getNumCols()), -1.0);
    int count = 0;
    for (const int j : taken) {
        if (j < 0) continue;
        coefficients[static_cast<std::size_t>(j)] = 1.0;
        ++count;
    }
    CoinPackedVector row;
    for (int j = 0; j < lp.getNumCols(); ++j)
        row.insert(j, coefficients[static_cast<std::size_t>(j)]);
    lp.addRow(row, -lp.getInfinity(), count - 1.0);
}

// The columns that `values` takes; false when a value is no integer or a set holds two of them.
bool read_choice(const CoverProblem& problem, const double* values, std::vector<int>& taken) {
    taken.assign(static_cast<std::size_t>(problem.sets), -1);
    for (std::size_t j = 0; j < problem.columns.size(); ++j) {
        const double value = values[j];
        if (!(std::abs(value - std::round(value)) <= 1e-6)) return false;
        if (value < 0.5) continue;
        int& slot = taken[static_cast<std::size_t>(problem.columns[j].set)];
        if (slot >= 0) return false;
        slot = static_cast<int>(j);
    }
    return true;
}

}  // namespace

CoverSolution solve_cover(const CoverProblem& problem, double seconds, double gap) {
    const std::lock_guard lock(solver_mutex);
    const auto start = std::chrono::steady_clock::now();
    const auto left = [&] {
        return seconds -
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };

    const CostRange range = cost_range(problem);
    const double unit = range.least / kCost;  // cost of one unit of the solver's objective
    OsiClpSolverInterface lp;
    load(lp, problem, range);

    CoverSolution solution;
    solution.bound = range.least;
    while (left() > 0) {
        CbcModel model(lp);
        model.setLogLevel(0);
        model.solver()->messageHandler()->setLogLevel(0);
        model.setRandomSeed(1);
        model.setUseElapsedTime(true);
        model.setMaximumSeconds(left());
        model.setAllowableGap(0.0);
        model.setAllowableFractionGap(gap);
        model.setCutoffIncrement(kTolerance);
        model.setIntegerTolerance(kTolerance);
        CbcStrategyDefault strategy(/*cutsOnlyAtRoot=*/1, /*numberStrong=*/5,
                                    /*numberBeforeTrust=*/0, /*printLevel=*/0);
        model.setStrategy(strategy);
        model.initialSolve();
        model.branchAndBound();

        const double bound = model.getBestPossibleObjValue() * unit;
        if (std::isfinite(bound)) solution.bound = std::max(solution.bound, bound);
        std::vector<int> taken;
        if (model.bestSolution() == nullptr || !read_choice(problem, model.bestSolution(), taken)) {
            return solution;
        }
        double cost = 0, gain = 0;
        for (const int j : taken) {
            if (j < 0) continue;
            cost += problem.columns[static_cast<std::size_t>(j)].cost;
            gain += problem.columns[static_cast<std::size_t>(j)].gain;
        }
        if (gain < problem.need) {  // covered within the solver's tolerance only
            exclude(lp, taken);
            continue;
        }
        solution.found = true;
        solution.taken = std::move(taken);
        solution.cost = cost;
        // A bound above the solution is rounding (or nonsense): the solution itself is the better
        // one.
        solution.bound = std::min(solution.bound, cost);
        const auto agrees = [&](double value) { return std::abs(value - cost) <= 1e-6 * cost; };
        const int stopped_by = model.secondaryStatus();  // 0: nothing, 2: the gap
        solution.proven = model.isProvenOptimal() && (stopped_by == 0 || stopped_by == 2) &&
                          agrees(model.getObjValue() * unit) &&
                          cost - solution.bound <= (gap + 1e-6) * cost;
        if (solution.proven && gap == 0) solution.bound = cost;
        return solution;
    }
    return solution;
}

}  // namespace subbyte::plan
