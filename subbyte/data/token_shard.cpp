// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/token_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::data {
namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 31;
constexpr std::int64_t kCheckedAtOnce = 1 << 20;  // bytes
constexpr std::uint32_t kLlmcHeader = 1024;       // bytes
constexpr std::uint32_t kLlmcMagic16 = 20240520, kLlmcMagic32 = 20240801;

[[noreturn]] void fail(const InputFile& file, const std::string& message, const char* hint) {
    throw Error(ErrorCode::kData, fmt::format("{}: {}", file.path().string(), message), hint);
}

constexpr char kDamaged[] = "the file is damaged or was cut off: make or copy it again";
constexpr char kWrongTokens[] =
    "these ids were made with another tokenizer, or are stored in another width (16 or 32 bit)";

template <class Id>
void widen(const std::vector<std::byte>& bytes, std::span<std::int64_t> to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        Id id;
        std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
        to[i] = id;
    }
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path, const Options& options)
    : file_(path), vocab_size_(options.vocab_size), id_bytes_(options.id_bytes) {
    std::array<std::uint32_t, 3> head{};
    if (file_.size() >= sizeof head) file_.read(0, head.data(), sizeof head);
    if (std::memcmp(head.data(), ShardHeader{}.magic, 4) == 0 || path.extension() == ".sbtk") {
        const std::uint64_t checksum = read_own_header();
        if (options.vocab_size != 0 && options.vocab_size != vocab_size_) {
            fail(file_,
                 fmt::format("made for a vocabulary of {} pieces, {} are expected", vocab_size_,
                             options.vocab_size),
                 kWrongTokens);
        }
        check_ids();
        if (checksum_ != checksum) fail(file_, "the checksum of the ids is wrong", kDamaged);
    } else {
        if (vocab_size_ < 1 || vocab_size_ > kLargestVocabulary) {
            fail(file_, fmt::format("a vocabulary of {} pieces", vocab_size_),
                 "set data.vocab_size to that of the tokenizer that made the file");
        }
        if (head[0] == kLlmcMagic16 || head[0] == kLlmcMagic32) read_llmc_header();
        if (offset_ == 0) {
            if (id_bytes_ == 0) id_bytes_ = vocab_size_ <= 65536 ? 2 : 4;
            if (id_bytes_ != 2 && id_bytes_ != 4) {
                throw Error(ErrorCode::kUsage, fmt::format("ids of {} bytes", id_bytes_),
                            "ids have 2 or 4 bytes");
            }
            const auto size = static_cast<std::int64_t>(file_.size());
            if (size % id_bytes_ != 0) {
                fail(file_,
                     fmt::format("{} bytes are no whole number of {}-byte ids", file_.size(),
                                 id_bytes_),
                     kDamaged);
            }
            size_ = size / id_bytes_;
        }
        check_ids();
    }
}

std::uint64_t TokenShard::read_own_header() {
    ShardHeader header;
    if (file_.size() < sizeof header) {
        fail(file_,
             fmt::format("{} bytes, the header of a token shard has {}", file_.size(),
                         sizeof header),
             kDamaged);
    }
    file_.read(0, &header, sizeof header);
    if (std::memcmp(header.magic, ShardHeader{}.magic, 4) != 0) {
        fail(file_, "is no token shard: does not begin with SBTK",
             "files of ids alone must be named *.bin");
    }
    const std::string_view checked(reinterpret_cast<const char*>(&header),
                                   offsetof(ShardHeader, header_checksum));
    if (header.version != ShardHeader{}.version) {
        fail(file_,
             fmt::format("is of version {}, this program reads version {}", header.version,
                         ShardHeader{}.version),
             "make the file again with this program");
    }
    if (checksum_of(checked) != header.header_checksum || header.padding != 0 ||
        header.reserved != 0) {
        fail(file_, "the checksum of the header is wrong", kDamaged);
    }
    const std::uint64_t bytes = file_.size() - sizeof header;
    if ((header.id_bytes != 2 && header.id_bytes != 4) || header.vocab_size < 1 ||
        header.vocab_size > std::uint64_t{kLargestVocabulary} ||
        header.count > bytes / header.id_bytes || header.count * header.id_bytes != bytes) {
        fail(file_,
             fmt::format("the header tells of {} ids of {} bytes (vocabulary {}), {} bytes follow",
                         header.count, header.id_bytes, header.vocab_size, bytes),
             kDamaged);
    }
    offset_ = sizeof header;
    size_ = static_cast<std::int64_t>(header.count);
    id_bytes_ = static_cast<int>(header.id_bytes);
    vocab_size_ = static_cast<std::int64_t>(header.vocab_size);
    tokenizer_ = header.tokenizer;
    return header.payload_checksum;
}

// Leaves offset_ at 0 when the numbers do not fit together: then these are ids which happen to
// begin like such a header.
void TokenShard::read_llmc_header() {
    std::array<std::uint32_t, 3> head{};
    file_.read(0, head.data(), sizeof head);
    const int bytes = head[0] == kLlmcMagic16 ? 2 : 4;
    if (file_.size() != kLlmcHeader + std::uint64_t{head[2]} * static_cast<unsigned>(bytes)) return;
    offset_ = kLlmcHeader;
    size_ = head[2];
    id_bytes_ = bytes;
}

void TokenShard::check_ids() {
    Checksum checksum;
    std::vector<std::byte> bytes;
    std::vector<std::int64_t> ids;
    const std::int64_t step = kCheckedAtOnce / id_bytes_;
    for (std::int64_t begin = 0; begin < size_; begin += step) {
        ids.resize(static_cast<std::size_t>(std::min(step, size_ - begin)));
        bytes.resize(ids.size() * static_cast<std::size_t>(id_bytes_));
        file_.read(static_cast<std::uint64_t>(offset_ + begin * id_bytes_), bytes.data(),
                   bytes.size());
        checksum.update(bytes);
        id_bytes_ == 2 ? widen<std::uint16_t>(bytes, ids) : widen<std::uint32_t>(bytes, ids);
        const auto bad = std::find_if(ids.begin(), ids.end(),
                                      [&](std::int64_t id) { return id >= vocab_size_; });
        if (bad != ids.end()) {
            fail(file_,
                 fmt::format("token {} is {}, the vocabulary has {} pieces",
                             begin + (bad - ids.begin()), *bad, vocab_size_),
                 kWrongTokens);
        }
    }
    checksum_ = checksum.value();
}

void TokenShard::read(std::int64_t begin, std::span<std::int64_t> to) const {
    std::vector<std::byte> bytes(to.size() * static_cast<std::size_t>(id_bytes_));
    file_.read(static_cast<std::uint64_t>(offset_ + begin * id_bytes_), bytes.data(), bytes.size());
    id_bytes_ == 2 ? widen<std::uint16_t>(bytes, to) : widen<std::uint32_t>(bytes, to);
    for (const std::int64_t id : to) {
        if (id >= vocab_size_) {
            fail(file_,
                 fmt::format("token {} appeared after the start, the vocabulary has {} pieces", id,
                             vocab_size_),
                 "something changed the file while it was in use");
        }
    }
}

}  // namespace subbyte::data
