// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/shard_writer.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::data {

ShardWriter::ShardWriter(const std::filesystem::path& path, std::int64_t vocab_size,
                         std::uint64_t tokenizer)
    : file_(path) {
    header_.vocab_size = static_cast<std::uint64_t>(vocab_size);
    header_.tokenizer = tokenizer;
    header_.id_bytes = vocab_size <= 65536 ? 2 : 4;
    file_.write(&header_, sizeof header_);  // the place for it; finish() fills it in
}

void ShardWriter::append(std::span<const std::int32_t> ids) {
    std::vector<std::byte> bytes(ids.size() * header_.id_bytes);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || static_cast<std::uint64_t>(ids[i]) >= header_.vocab_size) {
            throw Error(ErrorCode::kData,
                        fmt::format("token {} is {}, the vocabulary has {} pieces",
                                    header_.count + i, ids[i], header_.vocab_size));
        }
        // Little-endian: the low bytes come first, also for two of four.
        std::memcpy(bytes.data() + i * header_.id_bytes, &ids[i], header_.id_bytes);
    }
    file_.write(bytes.data(), bytes.size());
    hash_.update(bytes.data(), bytes.size());
    header_.count += ids.size();
}

void ShardWriter::finish() {
    header_.payload_checksum = hash_.digest();
    header_.header_checksum =
        hash64({reinterpret_cast<const char*>(&header_), offsetof(ShardHeader, header_checksum)});
    file_.overwrite(0, &header_, sizeof header_);
    file_.commit();
}

}  // namespace subbyte::data
