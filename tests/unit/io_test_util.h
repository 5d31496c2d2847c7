// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include "subbyte/core/error.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

namespace subbyte::io {

// A new file each time: some file systems write out at once what replaces the content of an old
// one.
inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline std::size_t count_entries(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// While it lives, no file can grow beyond `bytes`: a full disk without being root.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) {
        old_handler_ = ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &old_limit_);
        const rlimit limit{bytes, old_limit_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &old_limit_);
        ::signal(SIGXFSZ, old_handler_);
    }

private:
    rlimit old_limit_{};
    void (*old_handler_)(int) = nullptr;
};

// One to four random edits: a flipped bit, a byte, a digit, a cut, a repeated or a moved piece.
inline std::string mutate(std::string bytes, std::mt19937_64& random, std::size_t hot) {
    const auto below = [&](std::size_t n) { return n == 0 ? 0 : std::size_t(random() % n); };
    for (std::size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
        // Mostly where the structure is.
        const std::size_t range = below(4) > 0 ? std::min(hot, bytes.size()) : bytes.size();
        const std::size_t at = below(range);
        switch (below(7)) {
            case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
            case 1: bytes[at] = static_cast<char>(random()); break;
            case 2: bytes[at] = static_cast<char>('0' + below(10)); break;
            case 3: bytes.insert(at, 1, "[]{},:\"0-9.e "[below(13)]); break;
            case 4: bytes.erase(at, 1 + below(8)); break;
            case 5: bytes.insert(at, bytes.substr(below(range), 1 + below(40))); break;
            case 6: bytes.resize(at); break;
        }
    }
    return bytes;
}

// Feeds `count` mutations of a valid file to a reader: each gives a value or an Error kData.
inline void fuzz(const std::string& valid, std::size_t hot, int count,
                 const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path&)>& read) {
    write_bytes(path, valid);
    ASSERT_NO_THROW(read(path));
    std::mt19937_64 random(20260824);
    int refused = 0;
    for (int i = 0; i < count; ++i) {
        write_bytes(path, mutate(valid, random, hot));
        try {
            read(path);
        } catch (const Error& error) {
            ++refused;
            ASSERT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kData))
                << error.what();
            ASSERT_NE(std::string(error.what()).find(path.filename().string()), std::string::npos)
                << error.what();
        }
    }
    EXPECT_GT(refused, count / 10);
    EXPECT_LT(refused, count);
}

}  // namespace subbyte::io
