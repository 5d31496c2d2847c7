// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/hf_config.h"

#include <fmt/format.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"

namespace subbyte::io {
namespace {

using Json = nlohmann::json;

// Members of one object. A member that is null counts as absent, as in transformers.
class Fields {
public:
    Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
        if (!object.is_object()) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: an object expected, found {}", where_, object.type_name()),
                        "check that this is the config.json of a model");
        }
    }

    const Json* find(const std::string& key) const {
        const auto found = object_.find(key);
        return found == object_.end() || found->is_null() ? nullptr : &*found;
    }

    // A size: 1 .. 2^31.
    std::int64_t size(const std::string& key, std::optional<std::int64_t> absent = {}) const {
        const Json* value = find(key);
        if (value == nullptr && absent) return *absent;
        if (value == nullptr) fail(fmt::format("'{}' is missing", key));
        constexpr std::int64_t kMost = std::int64_t{1} << 31;
        if (!value->is_number_integer() || *value < 1 || *value > kMost) {
            fail(fmt::format("'{}' is {}, a whole number in 1 .. {} expected", key, value->dump(),
                             kMost));
        }
        return value->get<std::int64_t>();
    }

    double positive(const std::string& key, double absent) const {
        const Json* value = find(key);
        if (value == nullptr) return absent;
        const double number = value->is_number() ? value->get<double>() : 0;
        if (!(number > 0) || !std::isfinite(number)) {
            fail(fmt::format("'{}' is {}, a positive number expected", key, value->dump()));
        }
        return number;
    }

    bool boolean(const std::string& key, bool absent) const {
        const Json* value = find(key);
        if (value == nullptr) return absent;
        if (!value->is_boolean()) {
            fail(fmt::format("'{}' is {}, true or false expected", key, value->dump()));
        }
        return value->get<bool>();
    }

    // Token numbers: one, or a list.
    std::vector<std::int64_t> tokens(const std::string& key) const {
        const Json* value = find(key);
        if (value == nullptr) return {};
        std::vector<std::int64_t> ids;
        for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
            if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
                fail(fmt::format("'{}' is {}, token numbers expected", key, value->dump()));
            }
            ids.push_back(id.get<std::int64_t>());
        }
        return ids;
    }

    // Refuses a member that would change the computation, unless it has the value `harmless`.
    void must_be(const std::string& key, const Json& harmless, const std::string& why) const {
        const Json* value = find(key);
        if (value != nullptr && *value != harmless) {
            fail(fmt::format("'{}' is {}: {}", key, value->dump(), why),
                 harmless.is_null() ? "use a model without it"
                                    : fmt::format("use a model that has {}", harmless.dump()));
        }
    }

    [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", where_, message),
                    hint.empty() ? "correct the file, or fetch the model again" : hint);
    }

private:
    const Json& object_;
    std::string where_;
};

// The base of the rotary embedding: at top level (release 4), or in rope_parameters (release 5).
double rope_theta(const Fields& fields, const Json& json, const std::string& file) {
    // Written by release 4 for scaled embeddings only; release 5 may echo the default.
    const Json* scaling = fields.find("rope_scaling");
    const auto refuse_scaling = [&](const std::string& key, const Fields& rope) {
        for (const char* name : {"rope_type", "type"}) {
            const Json* type = rope.find(name);
            if (type != nullptr && *type != "default") {
                fields.fail(
                    fmt::format("'{}' asks for {} scaling of the rotary embedding, which is "
                                "not supported",
                                key, type->dump()),
                    "use a model with unscaled rotary embedding");
            }
        }
        rope.must_be("factor", 1.0, "scaling of the rotary embedding is not supported");
        rope.must_be("partial_rotary_factor", 1.0, "partial rotation is not supported");
    };
    if (scaling != nullptr) {
        refuse_scaling("rope_scaling", Fields(*scaling, file + ": rope_scaling"));
    }
    fields.must_be("partial_rotary_factor", 1.0, "partial rotation is not supported");

    double theta = fields.positive("rope_theta", 10000.0);
    if (fields.find("rope_parameters") != nullptr) {
        const Fields rope(json["rope_parameters"], file + ": rope_parameters");
        refuse_scaling("rope_parameters", rope);
        const double nested = rope.positive("rope_theta", theta);
        if (fields.find("rope_theta") != nullptr && nested != theta) {
            fields.fail(
                fmt::format("'rope_theta' is {}, but {} in 'rope_parameters'", theta, nested));
        }
        theta = nested;
    }
    return theta;
}

}  // namespace

HfLlamaConfig parse_hf_llama_config(const Json& json, const std::string& file) {
    const Fields fields(json, file);
    const Json* model_type = fields.find("model_type");
    if (model_type == nullptr) fields.fail("'model_type' is missing");
    fields.must_be("model_type", "llama", "only LLaMA models can be read");
    fields.must_be("hidden_act", "silu", "only the activation silu is supported");
    fields.must_be("attention_bias", false, "biases in attention are not supported");
    fields.must_be("mlp_bias", false, "biases in the MLP are not supported");
    fields.must_be("attention_dropout", 0.0, "dropout is not supported");
    fields.must_be("quantization_config", nullptr, "the weights are quantised already");

    HfLlamaConfig c;
    c.vocab_size = fields.size("vocab_size");
    c.hidden_size = fields.size("hidden_size");
    c.intermediate_size = fields.size("intermediate_size");
    c.num_hidden_layers = fields.size("num_hidden_layers");
    c.num_attention_heads = fields.size("num_attention_heads");
    c.num_key_value_heads = fields.size("num_key_value_heads", c.num_attention_heads);
    if (c.num_attention_heads % c.num_key_value_heads != 0) {
        fields.fail(
            fmt::format("'num_attention_heads' {} is not a multiple of 'num_key_value_heads' {}",
                        c.num_attention_heads, c.num_key_value_heads));
    }
    if (fields.find("head_dim") == nullptr && c.hidden_size % c.num_attention_heads != 0) {
        fields.fail(fmt::format("'hidden_size' {} is not a multiple of 'num_attention_heads' {}",
                                c.hidden_size, c.num_attention_heads));
    }
    // The quotient is 0 only where it is not used: with more heads than hidden_size it left a rest
    // above.
    c.head_dim = fields.size("head_dim", c.hidden_size / c.num_attention_heads);
    if (c.head_dim % 2 != 0) {
        fields.fail(fmt::format("'head_dim' {} is odd, rotary embedding turns pairs", c.head_dim));
    }
    c.max_position_embeddings = fields.size("max_position_embeddings", c.max_position_embeddings);
    c.rms_norm_eps = fields.positive("rms_norm_eps", c.rms_norm_eps);
    c.rope_theta = rope_theta(fields, json, file);
    c.tie_word_embeddings = fields.boolean("tie_word_embeddings", c.tie_word_embeddings);
    const std::vector<std::int64_t> bos = fields.tokens("bos_token_id");
    if (!bos.empty()) c.bos_token_id = bos.front();
    c.eos_token_id = fields.tokens("eos_token_id");
    return c;
}

HfLlamaConfig read_hf_llama_config(const std::filesystem::path& path) {
    return parse_hf_llama_config(read_json(path), path.string());
}

nlohmann::ordered_json to_json(const HfLlamaConfig& c, const std::string& dtype) {
    nlohmann::ordered_json json{
        {"architectures", {"LlamaForCausalLM"}},
        {"model_type", "llama"},
        {"dtype", dtype},
        {"torch_dtype", dtype},
        {"vocab_size", c.vocab_size},
        {"hidden_size", c.hidden_size},
        {"intermediate_size", c.intermediate_size},
        {"num_hidden_layers", c.num_hidden_layers},
        {"num_attention_heads", c.num_attention_heads},
        {"num_key_value_heads", c.num_key_value_heads},
        {"head_dim", c.head_dim},
        {"max_position_embeddings", c.max_position_embeddings},
        {"rms_norm_eps", c.rms_norm_eps},
        {"rope_theta", c.rope_theta},
        {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rope_theta}}},
        {"tie_word_embeddings", c.tie_word_embeddings},
        {"attention_bias", false},
        {"mlp_bias", false},
        {"hidden_act", "silu"},
    };
    json["bos_token_id"] = c.bos_token_id ? nlohmann::ordered_json(*c.bos_token_id) : nullptr;
    json["eos_token_id"] = nullptr;
    if (c.eos_token_id.size() == 1) json["eos_token_id"] = c.eos_token_id.front();
    if (c.eos_token_id.size() > 1) json["eos_token_id"] = c.eos_token_id;
    return json;
}

void write_hf_llama_config(const std::filesystem::path& path, const HfLlamaConfig& config,
                           const std::string& dtype) {
    write_json(path, to_json(config, dtype));
}

}  // namespace subbyte::io
