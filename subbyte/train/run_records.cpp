// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/run_records.h"

#include <fmt/format.h>

#include <cmath>

#include "subbyte/core/error.h"

namespace subbyte::train {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json stages_json(const std::vector<plan::PlanResult::Stage>& stages) {
    Json list = Json::array();
    for (const auto& s : stages) {
        list.push_back({{"work", s.work}, {"target", s.target}, {"reached", s.reached}});
    }
    return list;
}
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
Json realised_json(const std::optional<snip::Realised>& r) {
    if (!r) return nullptr;
    return {{"predicted_loss", number(r->predicted.loss)},
            {"predicted_weight", number(r->predicted.weight)},
            {"realised_loss", number(r->real.loss)},
            {"realised_weight", number(r->real.weight)},
            {"loss_factor", number(r->loss_factor())},
            {"weight_factor", number(r->weight_factor())}};
}

}  // namespace

Json record_of(const RunStart& s) {
    return {{"run_dir", s.run_dir},
            {"model", s.model},
            {"parameters", s.parameters},
            {"layers", s.layers},
            {"train_tokens", s.train_tokens},
            {"validation_tokens", s.validation_tokens},
            {"tokenizer", s.tokenizer},
            {"optimizer", s.optimizer},
            {"schedule", s.schedule},
            {"precision", s.precision},
            {"control", s.control},
            {"rules", s.rules},
            {"kernels", s.kernels},
            {"first_step", s.first_step},
            {"total_steps", s.total_steps},
            {"tokens_per_step", s.tokens_per_step},
            {"threads", s.threads},
            {"cpu", s.cpu},
            {"isa", s.isa}};
}

Json record_of(const StepRecord& r) {
    return {{"step", r.step},
            {"total", r.total},
            {"loss", number(r.loss)},
            {"grad_norm", number(r.grad_norm)},
            {"lr", r.lr},
            {"seconds", r.seconds},
            {"tokens_per_second", number(r.tokens_per_second)},
            {"eta_seconds", number(r.eta_seconds)},
            {"fp4_share", r.fp4_share},
            {"bits", r.bits},
            {"applied", r.applied},
            {"skipped", r.skipped}};
}

Json record_of(const EvalRecord& r) {
    return {{"step", r.step},
            {"loss", number(r.loss)},
            {"perplexity", number(r.perplexity)},
            {"targets", r.targets},
            {"seconds", r.seconds}};
}

Json record_of(const SnipEvent& e) {
    return {{"step", e.effective_at},
            {"measured_at", e.measured_at},
            {"applied", e.applied},
            {"kept", e.kept},
            {"method", e.result.plan.method},
            {"status", std::string(plan::status_name(e.result.status))},
            {"efficiency", std::string(plan::efficiency_name(e.result.efficiency))},
            {"target", e.result.target},
            {"reached", e.result.reached},
            {"stages", stages_json(e.result.stages)},
            {"relaxed", e.result.relaxed},
            {"changed_slots", e.changed_slots},
            {"predicted_loss", number(e.result.predicted_loss)},
            {"predicted_weight", number(e.result.predicted_weight)},
            {"predicted", number(e.result.predicted)},
            {"in_force", realised_json(e.in_force)},
            {"cost", number(e.cost)},
            {"cost_in_force", number(e.cost_in_force)},
            {"probe_passes", e.probe_passes},
            {"statistics_seconds", e.statistics_seconds},
            {"probe_seconds", e.probe_seconds},
            {"wait_seconds", e.wait_seconds},
            {"solve_seconds", e.solve_seconds},
            {"notes", e.result.notes}};
}

Json record_of(const ControlEvent& e) {
    return {{"step", e.step},
            {"control", e.control},
            {"action", e.action},
            {"reason", e.reason},
            {"slots", e.slots}};
}

Json record_of(const RunEnd& e) {
    return {{"step", e.step},
            {"interrupted", e.interrupted},
            {"loss", number(e.loss)},
            {"validation_loss", number(e.validation_loss)},
            {"train_seconds", e.train_seconds},
            {"evaluation_seconds", e.evaluation_seconds},
            {"plans", e.plans},
            {"changed_slots", e.changed_slots},
            {"decisions", e.decisions},
            {"statistics_seconds", e.statistics_seconds},
            {"probe_seconds", e.probe_seconds},
            {"wait_seconds", e.wait_seconds},
            {"solve_seconds", e.solve_seconds},
            {"statistics_share", e.share(e.statistics_seconds + e.probe_seconds)},
            {"overhead_share", e.share(e.overhead_seconds())},
            {"overhead_share_at_500", e.share_at(e.overhead_seconds(), 500)},
            {"peak_memory_bytes", e.peak_memory_bytes},
            {"planned_peak_bytes", e.planned_peak_bytes},
            {"kernels", e.kernels}};
}

Json layers_json(const plan::LayerTable& table) {
    Json result = Json::array();
    for (const plan::LayerInfo& layer : table) {
        result.push_back({{"name", layer.name},
                          {"in_features", layer.in_features},
                          {"out_features", layer.out_features},
                          {"tokens", layer.tokens},
                          {"candidate", layer.candidate}});
    }
    return result;
}

plan::LayerTable layers_from_json(const nlohmann::json& json) {
    plan::LayerTable table;
    try {
        for (const nlohmann::json& row : json) {
            plan::LayerInfo layer;
            layer.name = row.at("name").get<std::string>();
            layer.in_features = row.at("in_features").get<std::int64_t>();
            layer.out_features = row.at("out_features").get<std::int64_t>();
            layer.tokens = row.at("tokens").get<std::int64_t>();
            layer.candidate = row.at("candidate").get<bool>();
            plan::set_type_and_block(layer);
            table.push_back(std::move(layer));
        }
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::kData, fmt::format("layer table: {}", error.what()));
    }
    return table;
}

}  // namespace subbyte::train
