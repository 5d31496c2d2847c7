// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/optim/optimizer.h"
#include "subbyte/plan/planner.h"
#include "subbyte/snip/measure.h"
#include "subbyte/snip/realised.h"
#include "subbyte/train/config.h"
#include "subbyte/train/text_evaluation.h"

namespace subbyte::train {

// Plans from measurements: which methods at which targets, over which recipes.
struct SolveOptions {
    std::vector<std::string> methods{"snip"};
    std::vector<double> targets{Config{}.precision.snip.target};
    plan::PlannerOptions planner;  // method and target come from the lists
};

// How a plan came to be better than what was solved for (plan_improvement.h).
struct Improvement {
    double start_loss = 0, loss = 0;  // on the measured batches, before and after
    // Predicted damage of what the loss does not see, in its units: see plan/refine.h.
    double start_unseen = 0, unseen = 0;
    bool searched = true;  // false: the search found nothing that the loss could judge
    int remeasured = 0;    // how often the statistics were taken around a plan
    int evaluations = 0, accepted = 0;
};

struct SolvedPlan {
    plan::PlanResult result;
    std::optional<Improvement> improvement;
    double fp4_share = 0, bits = 0, speedup = 1;  // modelled, of the candidates
    std::optional<double> loss;  // mean loss with the plan in force, when it was evaluated
    std::optional<snip::Realised> realised;
};

// Fills the modelled numbers from the plan of the result.
void model_costs(SolvedPlan& solved, const plan::LayerTable& table);

// One plan per method and target, methods outermost. Errors as make_plan().
std::vector<SolvedPlan> solve_plans(const plan::ModelStatistics& statistics,
                                    const SolveOptions& options);

struct CheckpointOptions {
    std::vector<std::string> recipes{"fp8", "fp4"};  // to measure the errors of
    plan::Needs needs;                               // of the estimator
    snip::Probes probes = snip::ProbeOptions{}.probes;
    double probe_scale = Config{}.precision.snip.probe_scale;
    // Output errors by labels drawn from the model on the sequences of the probes, one more pass
    // for each measured batch.
    bool sampled_labels = Config{}.precision.snip.labels == "sampled";
    std::int64_t batch_size = 8, seq_len = 256;
    std::int64_t measured_batches = 1;  // statistics are averaged over so many
    std::int64_t batches = 8;           // of an evaluation
    // Globs of layers to measure and plan though they would keep their precision: the head,
    // lm_head.
    std::vector<std::string> include;
    std::string evaluation_text;  // another text to evaluate on; empty: what follows
    std::uint64_t seed = 0;
};

// Divergences [layer][recipe] without any estimate: on all batches, and on two halves of them,
// whose difference is what chance makes of it.
struct BruteForce {
    using Divergences = std::vector<std::vector<plan::Divergence>>;
    Divergences all;
    std::array<Divergences, 2> halves;
    int passes = 0;
};

// A model folder that plans are made for: measures, and evaluates plans.
class PlannedCheckpoint {
public:
    // Loads the model and the text. A checkpoint of a run brings its optimizer and, when its run
    // folder is there, the settings of the optimizer, precision.head and the [[precision.rule]]s,
    // whose layers are no candidates. For another folder a new AdamW sees up to 8 batches before
    // the first measurement, so that its moments are those of the text (weights unchanged). Errors:
    // kUsage for options out of range; kData for files (those of a checkpoint are verified), a text
    // without one full batch, or an optimizer state that does not fit.
    PlannedCheckpoint(const std::string& dir, const std::string& text,
                      const CheckpointOptions& options);

    // One BF16 iteration on each of the first `measured_batches` batches of the text, then the
    // pass with drawn labels on a part of each and the noise probes on a part of the first one.
    // Error kDiverged, with the layer and the tensor, when something is not finite.
    snip::Measurement measure();
    // The same for another estimator and other probes than the options say.
    snip::Measurement measure(const plan::Needs& needs, snip::Probes probes);
    // The same for the needs of an estimator too, the forward passes running under a plan:
    // gradients are those around it. Backward passes and probes run in BF16.
    snip::Measurement measure_around(const plan::Plan& plan, const plan::Needs& needs);
    std::size_t measured_batches() const { return measured_; }

    // Mean loss under a plan over the first batches of the evaluation text, or those that follow
    // the measured ones (those when there are no others). Layers that the plan does not name run in
    // its fallback; the head in BF16, or as the run has it.
    AccumulatedLoss evaluate(const plan::Plan& plan);
    // The same over the measured batches.
    AccumulatedLoss evaluate_measured(const plan::Plan& plan);

    // What the plan does to the loss and to an optimizer step on the first of the measured batches,
    // and what was predicted. Two forward and backward passes.
    snip::Realised realised(const plan::Plan& plan, const plan::ModelStatistics& statistics,
                            plan::LossEstimator estimator);

    // What every recipe does in every layer alone, on the batches of an evaluation. 1 + layers *
    // recipes passes for each batch.
    BruteForce brute_force(const std::vector<std::string>& recipes);

    const plan::LayerTable& table() const { return model_.precision->table(); }
    const std::vector<std::string>& notes() const { return notes_; }

private:
    void restore_optimizer(const std::optional<Config>& run);
    optim::Optimizer& filled_optimizer();
    void fill_moments();
    ModelLoss loss();
    std::vector<MicroBatch> evaluated_batches() const;
    snip::LossFunction mean_loss(const at::Tensor& ids, const at::Tensor& targets);
    snip::Measurement measure(const plan::Needs& needs, snip::Probes probes,
                              const plan::Plan& plan);
    snip::LossFunction sampled_loss(const at::Tensor& ids, std::size_t batch);
    snip::Measurement measure_batch(std::size_t index, const plan::Needs& needs,
                                    snip::Probes probes, const plan::Plan& plan);

    CheckpointOptions options_;
    EvaluationModel model_;
    std::vector<MicroBatch> batches_, evaluation_;  // evaluation_ may be empty
    std::size_t measured_ = 1;                      // so many of them
    std::unique_ptr<optim::Optimizer> optimizer_;   // null: not filled yet
    std::vector<std::string> notes_;
};

// Per candidate: name, DL and DW of every recipe.
nlohmann::ordered_json divergences_json(const plan::ModelStatistics& statistics,
                                        const std::vector<std::string>& recipes,
                                        plan::LossEstimator estimator);
nlohmann::ordered_json to_json(const SolvedPlan& plan);

}  // namespace subbyte::train
