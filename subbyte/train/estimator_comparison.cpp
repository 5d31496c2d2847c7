// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/estimator_comparison.h"

#include <nlohmann/json.hpp>

#include "subbyte/core/clock.h"
#include "subbyte/plan/estimator_score.h"

namespace subbyte::train {
namespace {

using Divergences = std::vector<std::vector<plan::Divergence>>;

constexpr snip::Probes kAllProbes[] = {snip::Probes::kNone, snip::Probes::kShared,
                                       snip::Probes::kBlock, snip::Probes::kLayer};

// One of DL, DW and Q of a recipe, over the candidates.
template <typename Part>
std::vector<double> column(const plan::LayerTable& table, const Divergences& divergences,
                           std::size_t recipe, Part part) {
    std::vector<double> values;
    for (std::size_t l = 0; l < table.size(); ++l) {
        if (table[l].candidate) values.push_back(part(divergences[l][recipe]));
    }
    return values;
}

class Comparison {
public:
    Comparison(PlannedCheckpoint& checkpoint, const std::vector<std::string>& recipes,
               double loss_weight, double weight_weight)
        : checkpoint_(checkpoint),
          recipes_(recipes),
          loss_weight_(loss_weight),
          weight_weight_(weight_weight) {}

    EstimatorComparison run() {
        const plan::LayerTable& table = checkpoint_.table();
        const Stopwatch watch;
        truth_ = checkpoint_.brute_force(recipes_);
        result_.brute_force_seconds = watch.seconds();
        result_.brute_force_passes = truth_.passes;
        result_.recipes = recipes_;
        set_ceilings(table);
        for (std::size_t l = 0; l < table.size(); ++l) {
            if (!table[l].candidate) continue;
            result_.layers.push_back(table[l].name);
            result_.truth.push_back(truth_.all[l]);
        }

        for (const std::string& name : plan::estimator_names()) {
            const plan::LossEstimator estimator = plan::estimator_from_name(name);
            for (const snip::Probes probes : kAllProbes) {
                // DW is the same for all estimators: the kinds of probes are compared once.
                const bool all_probes = estimator == plan::LossEstimator::kNormOnly;
                if (!all_probes && probes != snip::ProbeOptions{}.probes) continue;
                add(estimator, probes);
            }
        }
        add_local_errors(false);
        add_local_errors(true);
        return std::move(result_);
    }

private:
    double quality(const plan::Divergence& d) const {
        return loss_weight_ * d.loss + weight_weight_ * d.weight;
    }

    void set_ceilings(const plan::LayerTable& table) {
        if (truth_.halves[1].empty()) return;
        const auto agreement = [&](std::size_t r, auto part) {
            return plan::spearman(column(table, truth_.halves[0], r, part),
                                  column(table, truth_.halves[1], r, part));
        };
        for (std::size_t r = 0; r < recipes_.size(); ++r) {
            result_.loss_ceiling.push_back(
                agreement(r, [](const plan::Divergence& d) { return d.loss; }));
            result_.weight_ceiling.push_back(
                agreement(r, [](const plan::Divergence& d) { return d.weight; }));
            result_.quality_ceiling.push_back(
                agreement(r, [this](const plan::Divergence& d) { return quality(d); }));
        }
    }

    template <typename Part>
    Agreement agreement(const Divergences& estimate, std::size_t recipe, Part part) const {
        const plan::LayerTable& table = checkpoint_.table();
        const std::vector<double> estimated = column(table, estimate, recipe, part);
        const std::vector<double> real = column(table, truth_.all, recipe, part);
        return {plan::spearman(estimated, real), plan::median_ratio(estimated, real)};
    }

    void add(plan::LossEstimator estimator, snip::Probes probes) {
        const snip::Measurement measured = checkpoint_.measure(plan::needs_of(estimator), probes);
        EstimatorScore score{.estimator = std::string(plan::estimator_name(estimator)),
                             .probes = std::string(snip::probes_name(probes)),
                             .passes = measured.probe_passes,
                             .seconds = measured.statistics_seconds + measured.probe_seconds};
        const Divergences estimate =
            plan::estimate_divergence(measured.statistics, recipes_, estimator);
        for (std::size_t r = 0; r < recipes_.size(); ++r) {
            score.loss.push_back(
                agreement(estimate, r, [](const plan::Divergence& d) { return d.loss; }));
            score.weight.push_back(
                agreement(estimate, r, [](const plan::Divergence& d) { return d.weight; }));
            score.quality.push_back(
                agreement(estimate, r, [this](const plan::Divergence& d) { return quality(d); }));
        }
        result_.scores.push_back(std::move(score));
    }

    void add_local_errors(bool relative) {
        const snip::Measurement measured = checkpoint_.measure({}, snip::Probes::kNone);
        EstimatorScore score{.estimator = relative ? "min-rel-err" : "min-abs-err",
                             .probes = std::string(snip::probes_name(snip::Probes::kNone)),
                             .passes = 0,
                             .seconds = measured.statistics_seconds};
        const auto errors = plan::local_errors(measured.statistics, recipes_, relative);
        const plan::LayerTable& table = checkpoint_.table();
        for (std::size_t r = 0; r < recipes_.size(); ++r) {
            std::vector<double> estimated;
            for (std::size_t l = 0; l < table.size(); ++l) {
                if (table[l].candidate) estimated.push_back(errors[l][r]);
            }
            const std::vector<double> real = column(
                table, truth_.all, r, [this](const plan::Divergence& d) { return quality(d); });
            score.quality.push_back({plan::spearman(estimated, real), 0});
        }
        result_.scores.push_back(std::move(score));
    }

    PlannedCheckpoint& checkpoint_;
    const std::vector<std::string>& recipes_;
    double loss_weight_, weight_weight_;
    BruteForce truth_;
    EstimatorComparison result_;
};

}  // namespace

EstimatorComparison compare_estimators(PlannedCheckpoint& checkpoint,
                                       const std::vector<std::string>& recipes, double loss_weight,
                                       double weight_weight) {
    return Comparison(checkpoint, recipes, loss_weight, weight_weight).run();
}

nlohmann::ordered_json to_json(const EstimatorComparison& comparison) {
    nlohmann::ordered_json json{
        {"brute_force",
         {{"passes", comparison.brute_force_passes}, {"seconds", comparison.brute_force_seconds}}}};
    const std::vector<std::string>& recipes = comparison.recipes;
    for (std::size_t r = 0; r < comparison.loss_ceiling.size(); ++r) {
        json["brute_force"]["halves"][recipes[r]] = {{"loss", comparison.loss_ceiling[r]},
                                                     {"weight", comparison.weight_ceiling[r]},
                                                     {"quality", comparison.quality_ceiling[r]}};
    }
    for (std::size_t l = 0; l < comparison.layers.size(); ++l) {
        nlohmann::ordered_json row{{"name", comparison.layers[l]}};
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const plan::Divergence& d = comparison.truth[l][r];
            row[recipes[r]] = {{"loss", d.loss}, {"weight", d.weight}};
        }
        json["brute_force"]["layers"].push_back(std::move(row));
    }
    for (const EstimatorScore& score : comparison.scores) {
        nlohmann::ordered_json row{{"estimator", score.estimator},
                                   {"probes", score.probes},
                                   {"passes", score.passes},
                                   {"seconds", score.seconds}};
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const std::pair<const char*, const std::vector<Agreement>*> parts[] = {
                {"loss", &score.loss}, {"weight", &score.weight}, {"quality", &score.quality}};
            for (const auto& [name, agreements] : parts) {
                if (agreements->empty()) continue;
                const Agreement& a = (*agreements)[r];
                row["recipes"][recipes[r]][name] = {{"rank", a.rank}};
                if (a.ratio > 0) row["recipes"][recipes[r]][name]["ratio"] = a.ratio;
            }
        }
        json["estimators"].push_back(std::move(row));
    }
    return json;
}

}  // namespace subbyte::train
