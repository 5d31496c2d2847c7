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
#include "subbyte/io/file.h"

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
        const std::filesystem::path own = std::filesystem::path(config.model.path) / "tokenizer.model";
        if (std::filesystem::exists(own)) options.tokenizer = own.string();
    }
    return options;
}

}  // namespace

MicroBatch to_tensors(const data::Batch& batch) {
    const auto tensor = [&](const std::vector<std::int64_t>& ids) {
        return at::from_blob(const_cast<std::int64_t*>(ids.data()), {batch.rows, batch.seq_len}, at::kLong)
            .clone();
    };
    return {tensor(batch.inputs), tensor(batch.targets)};
}

data::TokenizerPtr load_tokenizer(const std::string& dir) {
    const std::filesystem::path folder(dir);
    if (std::filesystem::exists(folder / "tokenizer.model")) {
        return data::load_sentencepiece(folder / "tokenizer.model");
    }
    const std::filesystem::path marker = folder / "tokenizer.txt";
    if (!std::filesystem::exists(marker)) return nullptr;
    const std::string text = io::read_text(marker);
    if (text != "bytes\n") {
        throw Error(ErrorCode::kData, fmt::format("{}: holds something else than the word bytes",
                                                  marker.string()));
    }
    return data::make_byte_tokenizer();
}

struct TrainingData::Impl {
    explicit Impl(const Config& config)
        : corpus(data::prepare_corpus(corpus_options(config))), batch_size(config.train.batch_size),
          grad_accum(config.train.grad_accum),
          sampler(data::Windows(corpus.train, config.train.seq_len, "training data"),
                  batch_size * grad_accum, static_cast<std::uint64_t>(config.run.seed)) {
        if (corpus.val.size() == 0) return;
        const data::Windows windows(corpus.val, config.train.seq_len, "validation data");
        const std::int64_t wanted = config.train.eval_batches * batch_size;
        const std::int64_t count =
            wanted > 0 ? std::min(wanted, windows.count()) : windows.count();
        for (std::int64_t first = 0; first < count; first += batch_size) {
            validation.push_back(to_tensors(windows.range(first, std::min(batch_size, count - first))));
        }
    }

    data::Corpus corpus;
    std::int64_t batch_size, grad_accum;
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
        batches.push_back(to_tensors(impl_->sampler.next(impl_->batch_size)));
    }
    return batches;
}

const std::vector<MicroBatch>& TrainingData::validation() const { return impl_->validation; }
nlohmann::json TrainingData::position() const { return impl_->sampler.state(); }
void TrainingData::set_position(const nlohmann::json& position) { impl_->sampler.restore(position); }

}  // namespace subbyte::train
