// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/training_data.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/data/corpus.h"
#include "subbyte/data/sampler.h"

namespace subbyte::train {
namespace {

data::CorpusOptions corpus_options(const Config& config) {
    data::CorpusOptions options;
    options.train = config.data.path;
    options.val = config.data.val_path;
    options.val_fraction = config.data.val_fraction;
    options.tokenizer = config.data.tokenizer;
    options.vocab_size = config.data.vocab_size;
    options.cache_dir = config.data.cache_dir;
    // A model that is continued brings its own tokenizer, unless the user names another one.
    if (!config.model.path.empty() && options.tokenizer == "sentencepiece") {
        const std::filesystem::path own = data::find_tokenizer(config.model.path);
        if (!own.empty()) options.tokenizer = own.string();
    }
    return options;
}

std::int64_t micro_batch_size_of(const Config& config) {
    const Config::Train& train = config.train;
    if (train.batch_size < 1 || train.grad_accum < 1 || train.batch_size % train.grad_accum != 0) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("train.batch_size {} cannot be cut into train.grad_accum {} equal parts",
                        train.batch_size, train.grad_accum),
            "batch_size counts the sequences of a whole step");
    }
    return train.batch_size / train.grad_accum;
}

}  // namespace

MicroBatch to_tensors(const data::Batch& batch) {
    const auto tensor = [&](const std::vector<std::int64_t>& ids) {
        return at::from_blob(const_cast<std::int64_t*>(ids.data()), {batch.rows, batch.seq_len},
                             at::kLong)
            .clone();
    };
    return {tensor(batch.inputs), tensor(batch.targets)};
}

data::TokenizerPtr load_tokenizer(const std::string& dir) {
    const std::filesystem::path path = data::find_tokenizer(dir);
    return path.empty() ? nullptr : data::load_tokenizer_file(path);
}

struct TrainingData::Impl {
    explicit Impl(const Config& config)
        : micro_batch_size(micro_batch_size_of(config)),
          grad_accum(config.train.grad_accum),
          corpus(data::prepare_corpus(corpus_options(config))),
          sampler(data::Windows(corpus.train, config.train.seq_len, "training data"),
                  config.train.batch_size, static_cast<std::uint64_t>(config.run.seed)) {
        if (config.data.val_path.empty() && config.data.val_fraction == 0) return;
        const data::Windows windows(corpus.val, config.train.seq_len, "validation data");
        const std::int64_t count =
            std::min(config.train.eval_batches * config.train.batch_size, windows.count());
        for (std::int64_t first = 0; first < count; first += micro_batch_size) {
            validation.push_back(
                to_tensors(windows.range(first, std::min(micro_batch_size, count - first))));
        }
    }

    std::int64_t micro_batch_size, grad_accum;
    data::Corpus corpus;
    data::Sampler sampler;
    std::vector<MicroBatch> validation;
};

TrainingData::TrainingData(const Config& config) : impl_(std::make_unique<Impl>(config)) {}
TrainingData::~TrainingData() = default;

const data::TokenizerPtr& TrainingData::tokenizer() const { return impl_->corpus.tokenizer; }
std::int64_t TrainingData::vocab_size() const { return impl_->corpus.vocab_size; }
std::int64_t TrainingData::train_tokens() const { return impl_->corpus.train.size(); }
std::int64_t TrainingData::validation_tokens() const { return impl_->corpus.val.size(); }

std::vector<MicroBatch> TrainingData::next_step() {
    std::vector<MicroBatch> batches;
    for (std::int64_t i = 0; i < impl_->grad_accum; ++i) {
        batches.push_back(to_tensors(impl_->sampler.next(impl_->micro_batch_size)));
    }
    return batches;
}

const std::vector<MicroBatch>& TrainingData::validation() const { return impl_->validation; }
nlohmann::json TrainingData::position() const { return impl_->sampler.state(); }
void TrainingData::set_position(const nlohmann::json& position) {
    impl_->sampler.restore(position);
}

}  // namespace subbyte::train
