// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// GGUF files written by hand: what is accepted, and what does not deserve to be believed.
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "io_test_util.h"
#include "subbyte/io/gguf.h"
#include "subbyte/io/gguf_llama.h"

namespace subbyte::io {
namespace {

template <class T>
std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string text(const std::string& value) { return raw(std::uint64_t{value.size()}) + value; }

// Parts of a file, put together at the end.
struct Builder {
    std::uint32_t version = 3;
    std::string pairs, tensors, data;
    std::uint64_t pair_count = 0, tensor_count = 0;

    Builder& pair(const std::string& key, std::uint32_t type, const std::string& value) {
        pairs += text(key) + raw(type) + value;
        ++pair_count;
        return *this;
    }
    Builder& u32(const std::string& key, std::uint32_t value) { return pair(key, 4, raw(value)); }
    Builder& tensor(const std::string& name, const std::vector<std::uint64_t>& sizes,
                    std::uint32_t type, std::uint64_t offset) {
        tensors += text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
        for (const std::uint64_t size : sizes) tensors += raw(size);
        tensors += raw(type) + raw(offset);
        ++tensor_count;
        return *this;
    }
    // An FP32 tensor with its data behind those that are there.
    Builder& floats(const std::string& name, const std::vector<std::uint64_t>& sizes) {
        tensor(name, sizes, 0, data.size());
        std::uint64_t count = 1;
        for (const std::uint64_t size : sizes) count *= size;
        for (std::uint64_t i = 0; i < count; ++i) data += raw(static_cast<float>(i));
        data.resize((data.size() + 31) / 32 * 32, '\0');
        return *this;
    }
    std::string file() const {
        std::string bytes =
            "GGUF" + raw(version) + raw(tensor_count) + raw(pair_count) + pairs + tensors;
        bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
        return bytes + data;
    }
};

// A LLaMA of one block: 8 wide, 2 heads and 1 key/value head of 4.
Builder llama() {
    Builder b;
    b.pair("general.architecture", 8, text("llama"));
    b.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 6);
    b.u32("llama.block_count", 1).u32("llama.context_length", 16);
    b.u32("llama.attention.head_count", 2).u32("llama.attention.head_count_kv", 1);
    b.pair("llama.attention.layer_norm_rms_epsilon", 6, raw(1e-6f));
    b.floats("token_embd.weight", {8, 10}).floats("output_norm.weight", {8});
    b.floats("blk.0.attn_norm.weight", {8}).floats("blk.0.ffn_norm.weight", {8});
    b.floats("blk.0.attn_q.weight", {8, 8}).floats("blk.0.attn_k.weight", {8, 4});
    b.floats("blk.0.attn_v.weight", {8, 4}).floats("blk.0.attn_output.weight", {8, 8});
    b.floats("blk.0.ffn_gate.weight", {8, 6}).floats("blk.0.ffn_up.weight", {8, 6});
    b.floats("blk.0.ffn_down.weight", {6, 8});
    return b;
}

void read_all(const std::filesystem::path& path) {
    const GgufFile file = GgufFile::open(path);
    for (const GgufTensor& tensor : file.tensors()) file.load(tensor.name);
    const HfLlamaConfig config = gguf_llama_config(file);
    for (const GgufParameter& p : gguf_llama_parameters(file, config)) load_gguf_parameter(file, p);
}

class Gguf : public ::testing::Test {
protected:
    GgufFile accepted(const std::string& bytes) {
        write_bytes(path_, bytes);
        return GgufFile::open(path_);
    }
    // Refused without memory, with all the words in one message.
    void refused(const std::string& bytes, const std::vector<std::string>& words) {
        write_bytes(path_, bytes);
        rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        const std::string message = error_of(ErrorCode::kData, [&] { read_all(path_); });
        ::getrusage(RUSAGE_SELF, &after);
        EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024);
        for (const std::string& word : words) {
            EXPECT_NE(message.find(word), std::string::npos) << message << "\n  lacks " << word;
        }
        EXPECT_NE(message.find("x.gguf"), std::string::npos) << message;
    }
    TempFolder folder_;
    std::filesystem::path path_ = folder_ / "x.gguf";
};

TEST_F(Gguf, ShapesAreReversedAndDataAligned) {
    Builder b;
    b.u32("general.alignment", 64);
    b.tensor("t", {3, 2}, 0, 64);
    std::string bytes = b.file();
    bytes.resize((bytes.size() + 63) / 64 * 64 + 64, '\7');
    for (int i = 0; i < 6; ++i) bytes += raw(static_cast<float>(i));
    const at::Tensor got = accepted(bytes).load("t");
    EXPECT_EQ(got.sizes(), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(got[1][0].item<float>(), 3);
}

TEST_F(Gguf, VersionTwoIsReadToo) {
    Builder b = llama();
    b.version = 2;
    write_bytes(path_, b.file());
    EXPECT_NO_THROW(read_all(path_));
}

TEST_F(Gguf, RowsOfQueriesAndKeysGoBackToTheOrderOfHalves) {
    const GgufFile file = accepted(llama().file());
    const HfLlamaConfig config = gguf_llama_config(file);
    EXPECT_EQ(config.head_dim, 4);
    EXPECT_EQ(config.rms_norm_eps, 1e-6);
    EXPECT_EQ(config.rope_theta, 10000);
    for (const GgufParameter& p : gguf_llama_parameters(file, config)) {
        if (p.heads == 0) continue;
        const at::Tensor stored = file.load(p.gguf_name), got = load_gguf_parameter(file, p);
        // In each head the file has the pairs (0, 2), (1, 3) next to each other.
        for (std::int64_t head = 0; head < p.heads; ++head) {
            const std::int64_t order[] = {0, 2, 1, 3};
            for (std::int64_t i = 0; i < 4; ++i) {
                EXPECT_TRUE(at::equal(got[4 * head + i], stored[4 * head + order[i]]));
            }
        }
    }
}

TEST_F(Gguf, NotThisFormat) {
    refused("", {"no GGUF"});
    refused("GGU", {"no GGUF"});
    refused(std::string(100, 'x'), {"no GGUF"});
    Builder b = llama();
    b.version = 1;
    refused(b.file(), {"version 1"});
    b.version = 0x03000000;
    refused(b.file(), {"big-endian"});
}

TEST_F(Gguf, CountsAndLengthsBeyondTheFile) {
    Builder b = llama();
    b.pair_count = std::uint64_t{1} << 60;
    refused(b.file(), {"keys", "1152921504606846976"});
    b = llama();
    b.tensor_count = std::uint64_t{1} << 60;
    refused(b.file(), {"tensors", "1152921504606846976"});
    refused(Builder().pair("k", 8, raw(UINT64_MAX)).file(), {"'k'", "18446744073709551615"});
    refused(Builder().pair("k", 9, raw(std::uint32_t{8}) + raw(UINT64_MAX)).file(), {"'k'"});
    refused(Builder().pair("k", 9, raw(std::uint32_t{10}) + raw(std::uint64_t{1} << 61)).file(),
            {"'k'", "2305843009213693952 of at least 8 bytes"});
}

TEST_F(Gguf, ValuesThatAreNone) {
    refused(Builder().pair("k", 13, "12345678").file(), {"'k'", "value type 13"});
    refused(Builder().pair("k", 7, "\2").file(), {"'k'", "neither true"});
    refused(Builder().pair("k", 9, raw(std::uint32_t{9}) + raw(std::uint64_t{0})).file(),
            {"'k'", "list of lists"});
    refused(Builder().u32("k", 1).u32("k", 2).file(), {"'k'", "twice"});
    refused(Builder().u32("general.alignment", 24).file(), {"general.alignment", "24"});
    refused(Builder().u32("general.alignment", 0).file(), {"general.alignment", "0"});
    refused(Builder().pair("general.alignment", 8, text("32")).file(), {"general.alignment"});
}

TEST_F(Gguf, TensorsThatDoNotFit) {
    const auto one = [](const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                        std::uint64_t offset) {
        Builder b;
        b.tensor("t", sizes, type, offset);
        b.data = std::string(64, '\0');
        return b.file();
    };
    EXPECT_NO_THROW(accepted(one({16}, 0, 0)).load("t"));
    refused(one({17}, 0, 0), {"'t'", "68", "64"});
    refused(one({16}, 0, 32), {"'t'", "32 to 96", "64"});
    refused(one({16}, 0, 4), {"'t'", "offset 4", "32"});
    refused(one({1}, 0, UINT64_MAX - 31), {"'t'"});
    refused(one({0}, 0, 0), {"'t'", "[0]"});
    refused(one({}, 0, 0), {"'t'", "0 dimensions"});
    refused(one({1, 1, 1, 1, 1}, 0, 0), {"'t'", "5 dimensions"});
    refused(one({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0), {"'t'", "2^48"});
    refused(one({UINT64_MAX}, 0, 0), {"'t'", "2^48"});
    refused(one({33}, 3, 0), {"'t'", "33", "Q4_1", "32"});
    refused(one({32}, 20, 0), {"'t'", "number 20"});
    refused(one({32}, UINT32_MAX, 0), {"'t'", "4294967295"});
    Builder two;
    two.tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).data = std::string(64, '\0');
    refused(two.file(), {"'a'", "twice"});
    Builder over;
    over.tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).data = std::string(64, '\0');
    refused(over.file(), {"'a'", "'b'", "overlap"});
}

TEST_F(Gguf, ModelsThatAreNoPlainLlama) {
    const auto with = [](const std::string& from, const std::string& to) {
        std::string bytes = llama().file();
        bytes.replace(bytes.find(from), from.size(), to);
        return bytes;
    };
    refused(with(text("llama"), text("qwen2")), {"general.architecture", "'qwen2'"});
    refused(with("blk.0.ffn_down", "blk.0.ffn_dawn"), {"blk.0.ffn_down.weight"});
    refused(with("llama.block_count", "llama.block_caunt"), {"llama.block_count", "missing"});
    refused(llama().floats("blk.0.attn_q.bias", {8}).file(), {"attn_q.bias", "no part"});
    refused(llama().floats("rope_freqs.weight", {2}).file(), {"rope_freqs", "scaled"});
    refused(llama().u32("llama.expert_count", 4).file(), {"llama.expert_count", "4"});
    refused(llama().u32("llama.rope.dimension_count", 2).file(), {"rope.dimension_count", "2"});
    refused(llama().pair("llama.rope.scaling.type", 8, text("yarn")).file(), {"yarn"});
    refused(llama().pair("llama.rope.scaling.factor", 6, raw(4.0f)).file(), {"factor", "4"});
    refused(llama().u32("llama.attention.key_length", 6).file(), {"attn_q.weight", "[8, 8]"});
    std::string many = with("llama.block_count", "llama.block_count");
    many.replace(many.find("llama.block_count") + 17 + 4, 4, raw(std::uint32_t{2000000000}));
    refused(many, {"llama.block_count", "2000000000"});
}

TEST_F(Gguf, EveryTruncationIsAnError) {
    const std::string whole = llama().file();
    for (std::size_t size = 0; size < whole.size(); ++size) {
        write_bytes(path_, whole.substr(0, size));
        error_of(ErrorCode::kData, [&] { read_all(path_); });
    }
}

TEST_F(Gguf, MutationsGiveAValueOrAnError) {
    const std::string whole = llama().file();
    fuzz(whole, whole.size() - llama().data.size(), 4000, path_, read_all);
}

}  // namespace
}  // namespace subbyte::io
