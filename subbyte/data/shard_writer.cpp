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
    file_.write(std::as_bytes(std::span(&header_, 1)));  // the place for it; finish() fills it in
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
    file_.write(bytes);
    checksum_.update(bytes);
    header_.count += ids.size();
}

void ShardWriter::finish() {
    header_.payload_checksum = checksum_.value();
    header_.header_checksum = checksum_of(
        {reinterpret_cast<const char*>(&header_), offsetof(ShardHeader, header_checksum)});
    file_.overwrite(0, std::as_bytes(std::span(&header_, 1)));
    file_.commit();
}

}  // namespace subbyte::data
