// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/make_optimizer.h"

#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/json_reader.h"

namespace subbyte::optim {
namespace {

using plan::JsonReader;

double value_of(const JsonReader& reader, double) { return reader.number(); }
std::int64_t value_of(const JsonReader& reader, std::int64_t) { return reader.count(); }
bool value_of(const JsonReader& reader, bool) { return reader.boolean(); }

StableSpamCompat value_of(const JsonReader& reader, StableSpamCompat) {
    if (reader.text() == "clean") return StableSpamCompat::kClean;
    if (reader.text() == "official") return StableSpamCompat::kOfficial;
    reader.fail(fmt::format("'{}' is unknown", reader.text()),
                nearest_hint(reader.text(), {"clean", "official"}));
}

// Reads members by name, each when it is there, and remembers which there may be.
class Options {
public:
    explicit Options(const JsonReader& reader) : reader_(reader) {}

    template <typename T>
    Options& read(const std::string& key, T& value) {
        known_.push_back(key);
        if (reader_.has(key)) value = value_of(reader_[key], value);
        return *this;
    }

    // What both optimizers have.
    template <typename AdamOptions>
    Options& read_adam(AdamOptions& options) {
        known_.emplace_back("betas");
        if (reader_.has("betas")) {
            const std::vector<double> betas = reader_["betas"].numbers();
            if (betas.size() != 2) reader_["betas"].fail("two numbers expected");
            options.beta1 = betas[0];
            options.beta2 = betas[1];
        }
        return read("lr", options.lr)
            .read("eps", options.eps)
            .read("weight_decay", options.weight_decay)
            .read("max_grad_norm", options.max_grad_norm)
            .read("amsgrad", options.amsgrad);
    }

    void finish() const { reader_.allow(known_); }

private:
    const JsonReader& reader_;
    std::vector<std::string> known_;
};

AdamWOptions read_adamw(const JsonReader& reader) {
    AdamWOptions options;
    Options(reader).read_adam(options).finish();
    return options;
}

StableSpamOptions read_stable_spam(const JsonReader& reader) {
    StableSpamOptions options;
    Options(reader)
        .read_adam(options)
        .read("gamma1", options.gamma1)
        .read("gamma2", options.gamma2)
        .read("gamma3", options.gamma3)
        .read("update_gap", options.update_gap)
        .read("total_steps", options.total_steps)
        .read("eta_min", options.eta_min)
        .read("compat", options.compat)
        .read("adaclip", options.adaclip)
        .read("adagn", options.adagn)
        .finish();
    return options;
}

}  // namespace

const std::vector<std::string>& optimizer_names() {
    static const std::vector<std::string> names = {"adamw", "stable-spam"};
    return names;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<Parameter> parameters,
                                          const nlohmann::json& options) {
    const JsonReader reader(options, fmt::format("options of '{}'", name), ErrorCode::kUsage);
    if (name == "adamw") {
        return std::make_unique<AdamW>(std::move(parameters), read_adamw(reader));
    }
    if (name == "stable-spam") {
        return std::make_unique<StableSpam>(std::move(parameters), read_stable_spam(reader));
    }
    throw Error(ErrorCode::kUsage, fmt::format("optimizer '{}' is unknown", name),
                nearest_hint(name, optimizer_names()));
}

}  // namespace subbyte::optim
