// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/attach.h"

#include "subbyte/nn/linear.h"

namespace subbyte::nn {
namespace {

bool ends_with_component(const std::string& path, const std::string& suffix) {
    if (path == suffix) return true;
    return path.size() > suffix.size() && path.ends_with(suffix) &&
           path[path.size() - suffix.size() - 1] == '.';
}

}  // namespace

std::shared_ptr<Precision> attach_precision(torch::nn::Module& model,
                                            const std::vector<std::string>& keep_high,
                                            const std::string& high) {
    auto precision = std::make_shared<Precision>();
    std::vector<const torch::nn::Module*> seen;
    for (const auto& item : model.named_modules(std::string(), /*include_self=*/false)) {
        auto* linear = item.value()->as<LinearImpl>();
        if (linear == nullptr || std::find(seen.begin(), seen.end(), linear) != seen.end())
            continue;
        seen.push_back(linear);
        plan::LayerInfo info;
        info.name = item.key();
        info.in_features = linear->in_features();
        info.out_features = linear->out_features();
        plan::set_type_and_block(info);
        const std::uint32_t layer = precision->add_layer(info);
        for (const std::string& suffix : keep_high) {
            if (ends_with_component(info.name, suffix)) precision->fix_layer(layer, high);
        }
        linear->attach(precision, layer);
    }
    return precision;
}

std::vector<at::Tensor> layer_weights(const torch::nn::Module& model, const Precision& precision) {
    std::vector<at::Tensor> weights(precision.table().size());
    for (const auto& item : model.named_modules(std::string(), /*include_self=*/false)) {
        const auto* linear = item.value()->as<LinearImpl>();
        if (linear == nullptr || !precision.has_layer(item.key())) continue;
        weights[precision.layer_index(item.key())] = linear->weight;
    }
    return weights;
}

std::int64_t weight_cache_bytes(const torch::nn::Module& model) {
    std::int64_t total = 0;
    for (const auto& module : model.modules()) {
        if (const auto* linear = module->as<LinearImpl>()) total += linear->cache.bytes();
    }
    return total;
}

void clear_weight_caches(torch::nn::Module& model) {
    for (const auto& module : model.modules()) {
        if (auto* linear = module->as<LinearImpl>()) linear->cache.clear();
    }
}

}  // namespace subbyte::nn
