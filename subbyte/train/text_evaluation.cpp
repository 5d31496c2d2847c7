// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/text_evaluation.h"

#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/data/encode_file.h"
#include "subbyte/data/windows.h"
#include "subbyte/nn/attach.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/plan_file.h"
#include "subbyte/train/training_data.h"

namespace subbyte::train {
namespace {

data::TokenizerPtr need_tokenizer(const std::string& dir) {
    data::TokenizerPtr tokenizer = load_tokenizer(dir);
    if (!tokenizer) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: has no tokenizer.model or tokenizer.json", dir),
                    "use a checkpoint of a run, or copy the tokenizer of the model there");
    }
    return tokenizer;
}

}  // namespace

EvaluationModel load_for_evaluation(const std::string& dir, const std::string& recipe,
                                    const std::string& plan) {
    plan::find_recipe(recipe);
    EvaluationModel result;
    result.dir = dir;
    result.model = load_model(dir);
    const bool full = plan.empty() && recipe == "fp32";
    result.precision = nn::attach_precision(*result.model, {"lm_head"}, full ? "fp32" : "bf16");
    if (plan.empty()) {
        result.precision->set_plan(plan::uniform_plan(result.precision->table(), recipe));
    } else {
        result.precision->set_plan(load_plan(plan, result.precision->table()));
    }
    return result;
}

data::Windows text_windows(const std::string& model_dir, const std::string& path,
                           std::int64_t seq_len) {
    const data::TokenizerPtr tokenizer = need_tokenizer(model_dir);
    std::vector<std::int32_t> ids;
    data::encode_file({path}, *tokenizer, [&](std::span<const std::int32_t> part) {
        ids.insert(ids.end(), part.begin(), part.end());
    });
    return {data::TokenStream(std::move(ids), tokenizer->vocab_size()), seq_len, path};
}

AccumulatedLoss evaluate_text(EvaluationModel& model, const std::string& path,
                              const TextEvaluationOptions& options) {
    if (options.seq_len < 1 || options.batch_size < 1 || options.batches < 0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("eval: seq_len {}, batch_size {}, batches {}", options.seq_len,
                                options.batch_size, options.batches),
                    "seq_len and batch_size must be at least 1");
    }
    const data::Windows windows = text_windows(model.dir, path, options.seq_len);
    std::vector<MicroBatch> batches;
    for (std::int64_t first = 0; first < windows.count(); first += options.batch_size) {
        if (options.batches > 0 && static_cast<std::int64_t>(batches.size()) == options.batches)
            break;
        batches.push_back(to_tensors(windows.range(first, options.batch_size)));
    }
    return evaluate(
        [&](const at::Tensor& x, const at::Tensor& y) { return model.model->loss(x, y); }, batches,
        *model.precision);
}

std::string continue_text(EvaluationModel& model, const std::string& prompt,
                          const SamplingOptions& options) {
    const data::TokenizerPtr tokenizer = need_tokenizer(model.dir);
    const std::vector<std::int32_t> encoded = tokenizer->encode(prompt);
    SamplingOptions sampling = options;
    sampling.vocabulary = tokenizer->vocab_size();
    sampling.stop_id = tokenizer->eos_id();
    const std::vector<std::int64_t> ids =
        generate(model.model, {encoded.begin(), encoded.end()}, sampling);
    // Decoded together with the prompt, so that blanks between the two come out right.
    std::vector<std::int32_t> all = encoded;
    all.insert(all.end(), ids.begin(), ids.end());
    return tokenizer->decode(all).substr(tokenizer->decode(encoded).size());
}

}  // namespace subbyte::train
