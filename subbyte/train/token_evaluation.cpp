// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/token_evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"

namespace subbyte::train {
namespace {

at::Tensor read_rows(const nlohmann::json& json, const std::string& key, const std::string& path) {
    const auto fail = [&](const std::string& what) {
        throw Error(ErrorCode::kData, fmt::format("{}: {}: {}", path, key, what),
                    "rows of equal length of whole numbers are needed: [[1, 2, 3], [4, 5, 6]]");
    };
    if (!json.contains(key)) fail("is missing");
    const nlohmann::json& rows = json.at(key);
    if (!rows.is_array() || rows.empty() || !rows[0].is_array() || rows[0].empty()) {
        fail("is not a list of rows");
    }
    const auto height = static_cast<std::int64_t>(rows.size());
    const auto width = static_cast<std::int64_t>(rows[0].size());
    at::Tensor result = at::empty({height, width}, at::TensorOptions().dtype(at::kLong));
    std::int64_t* out = result.mutable_data_ptr<std::int64_t>();
    for (std::size_t r = 0; r < rows.size(); ++r) {
        if (!rows[r].is_array() || static_cast<std::int64_t>(rows[r].size()) != width) {
            fail(fmt::format("row {} has {} entries, row 0 has {}", r, rows[r].size(), width));
        }
        for (const nlohmann::json& value : rows[r]) {
            if (!value.is_number_integer()) fail(fmt::format("row {} holds {}", r, value.dump()));
            *out++ = value.get<std::int64_t>();
        }
    }
    return result;
}

// Every entry of `rows` is a token of the vocabulary, or `other`.
void check_ids(const at::Tensor& rows, std::int64_t vocabulary, std::int64_t other,
               const std::string& where) {
    const std::int64_t* id = rows.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
        if ((id[i] >= 0 && id[i] < vocabulary) || id[i] == other) continue;
        throw Error(ErrorCode::kData,
                    fmt::format("{}: row {} holds {} at position {}; the vocabulary has {} tokens",
                                where, i / rows.size(1), id[i], i % rows.size(1), vocabulary),
                    "make the file with the tokenizer of this model");
    }
}

void check_fit(const models::LlamaConfig& model, const TokenFile& tokens) {
    if (tokens.ids.size(1) > model.max_position) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: rows of {} tokens, the model ends at position {}", tokens.path,
                                tokens.ids.size(1), model.max_position),
                    "cut the rows");
    }
    check_ids(tokens.ids, model.vocab_size, 0, tokens.path + ": input_ids");
    if (tokens.labels.defined()) {
        check_ids(tokens.labels, model.vocab_size, ops::kIgnoredLabel, tokens.path + ": labels");
    }
}

}  // namespace

TokenFile read_token_file(const std::string& path) {
    const nlohmann::json json = io::read_json(path);
    if (!json.is_object()) {
        throw Error(ErrorCode::kData, fmt::format("{}: not a JSON object", path),
                    "it must hold input_ids and, for a loss, labels");
    }
    TokenFile file;
    file.path = path;
    file.ids = read_rows(json, "input_ids", path);
    if (json.contains("labels")) {
        file.labels = read_rows(json, "labels", path);
        if (file.labels.sizes() != file.ids.sizes()) {
            throw Error(ErrorCode::kData, fmt::format("{}: labels are {}x{}, input_ids {}x{}", path,
                                                      file.labels.size(0), file.labels.size(1),
                                                      file.ids.size(0), file.ids.size(1)));
        }
    }
    return file;
}

TokenEvaluation evaluate_tokens(models::Llama& model, const TokenFile& tokens, bool gradients) {
    check_fit(model->config(), tokens);
    if (gradients && !tokens.labels.defined()) {
        throw Error(ErrorCode::kUsage, "gradients need a loss, and the token file has no labels",
                    "add \"labels\" to the file");
    }
    at::AutoGradMode mode(gradients);
    TokenEvaluation result;
    const at::Tensor logits = model->forward(tokens.ids);
    result.tensors.emplace_back("logits", logits.detach());
    if (!tokens.labels.defined()) return result;
    const ops::SummedLoss loss = ops::cross_entropy(logits, models::shift_labels(tokens.labels));
    if (loss.count == 0) {
        throw Error(ErrorCode::kData, tokens.path + ": the labels leave no target",
                    "at least one must not be -100");
    }
    const at::Tensor mean = loss.sum.div(static_cast<double>(loss.count));
    result.loss = mean.item<double>();
    result.targets = loss.count;
    result.tensors.emplace_back("loss", mean.detach());
    if (gradients) {
        model->zero_grad();
        mean.backward();
        for (const auto& item : model->named_parameters()) {
            const at::Tensor grad = item.value().grad();
            result.tensors.emplace_back("grad." + item.key(), grad.defined()
                                                                  ? grad.detach()
                                                                  : at::zeros_like(item.value()));
        }
        model->zero_grad();
    }
    return result;
}

}  // namespace subbyte::train
