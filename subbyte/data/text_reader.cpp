// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/data/utf8.h"

namespace subbyte::data {
namespace {

// Positions in a text are signed: they are subtracted from each other.
std::int64_t size_of(const InputFile& file) { return static_cast<std::int64_t>(file.size()); }

constexpr std::int64_t kBlock = 1 << 20;
constexpr std::string_view kBom = "\xEF\xBB\xBF";
constexpr char kTextHint[] =
    "give plain UTF-8 text; token ids belong into a file named *.bin or *.sbtk";

struct Signature {
    std::string_view bytes;
    const char *what, *hint;
};

// What people hand over instead of text, by the first bytes of the file.
constexpr std::array kSignatures{
    Signature{"\x1F\x8B", "compressed (gzip)", "unpack it first: gunzip -k FILE"},
    Signature{"\xFD"
              "7zXZ",
              "compressed (xz)", "unpack it first: unxz -k FILE"},
    Signature{"\x28\xB5\x2F\xFD", "compressed (zstd)", "unpack it first: unzstd FILE"},
    Signature{"PK\x03\x04", "a zip archive", "unpack it first: unzip FILE"},
    Signature{"%PDF-", "a PDF document", "take its text out first: pdftotext FILE"},
    Signature{"\xFF\xFE", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"},
    Signature{"\xFE\xFF", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"},
};

// Where to end a block: see TextReader::next().
std::size_t cut_of(std::string_view text) {
    if (const std::size_t line = text.rfind('\n'); line != text.npos) return line + 1;
    if (const std::size_t blank = text.rfind(' '); blank != text.npos && blank > 0) return blank;
    std::size_t cut = text.size();
    // The last character may be incomplete; without a lead byte nearby the text is not UTF-8.
    for (std::size_t back = 1; back <= 4 && back < text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if (byte < 0x80 || byte >= 0xC0) {
            if (utf8_character(text.substr(text.size() - back)) != back) cut = text.size() - back;
            break;
        }
    }
    if (cut > 1 && text[cut - 1] == '\r') --cut;  // its LF may follow
    return cut;
}

void drop_carriage_returns(std::string& text) {
    std::size_t to = text.find("\r\n");
    if (to == text.npos) return;
    for (std::size_t from = to; from < text.size(); ++from) {
        if (text[from] == '\r' && from + 1 < text.size() && text[from + 1] == '\n') continue;
        text[to++] = text[from];
    }
    text.resize(to);
}

// The first place at or after `at` where a text may be cut: after a line end, or, where none is
// near, before a blank or between two characters.
std::int64_t cut_after(const InputFile& file, std::int64_t at) {
    if (at <= 0) return 0;
    std::string text(static_cast<std::size_t>(std::min(kBlock, size_of(file) - at + 1)), '\0');
    file.read(static_cast<std::uint64_t>(at - 1), text.data(),
              text.size());  // the byte before may be the line end
    if (const std::size_t line = text.find('\n'); line != text.npos) {
        return at + static_cast<std::int64_t>(line);
    }
    std::size_t cut = text.find(' ', 1);
    if (cut == text.npos) {
        for (cut = 1; cut < text.size() && (text[cut] & 0xC0) == 0x80;) ++cut;
    }
    return at - 1 + static_cast<std::int64_t>(cut);
}

}  // namespace

TextReader::TextReader(const TextRange& range)
    : file_(range.path), read_(range.begin), end_(std::min(range.end, size_of(file_))) {
    check_head();
    offset_ = read_;
}

void TextReader::check_head() {
    std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(file_.size(), 8)), '\0');
    file_.read(0, head.data(), head.size());
    for (const Signature& signature : kSignatures) {
        if (head.starts_with(signature.bytes)) {
            throw Error(
                ErrorCode::kData,
                fmt::format("{}: is {}, not UTF-8 text", file_.path().string(), signature.what),
                signature.hint);
        }
    }
    const bool bom = head.starts_with(kBom);
    if (file_.size() <= (bom ? 3u : 0u)) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: is empty ({} bytes)", file_.path().string(), file_.size()),
                    "give a file with text in it");
    }
    if (bom) read_ = std::max<std::int64_t>(read_, 3);
}

void TextReader::check(std::string_view text) const {
    const std::size_t nul = text.find('\0');
    const std::size_t bad = find_invalid_utf8(text.substr(0, nul));
    if (nul == text.npos && bad == text.npos) return;
    const std::size_t at = std::min(nul, bad);
    const bool binary = at == nul;
    throw Error(
        ErrorCode::kData,
        fmt::format("{}: byte {} is 0x{:02X}: {}", file_.path().string(),
                    offset_ + static_cast<std::int64_t>(at), static_cast<unsigned char>(text[at]),
                    binary ? "this is a binary file, not text" : "this is not UTF-8 text"),
        binary
            ? kTextHint
            : "if it is text in another encoding, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW");
}

bool TextReader::next(std::string& block) {
    const auto size = static_cast<std::size_t>(std::min(kBlock, end_ - read_));
    const std::size_t kept = rest_.size();
    rest_.resize(kept + size);
    file_.read(static_cast<std::uint64_t>(read_), rest_.data() + kept, size);
    read_ += static_cast<std::int64_t>(size);
    if (rest_.empty()) return false;

    const std::size_t cut = read_ == end_ ? rest_.size() : cut_of(rest_);
    block.assign(rest_, 0, cut);
    check(block);
    offset_ += static_cast<std::int64_t>(cut);
    rest_.erase(0, cut);
    drop_carriage_returns(block);
    return true;
}

std::pair<std::vector<TextRange>, std::vector<TextRange>> split_tail(
    const std::vector<std::filesystem::path>& files, double fraction) {
    std::int64_t total = 0;
    for (const auto& path : files) {
        total += size_of(InputFile(path));
        TextReader({path});  // complains about what is no text before anything is cut
    }
    auto left =
        total - static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(total)));

    std::vector<TextRange> front, tail;
    for (const auto& path : files) {
        const InputFile file(path);
        const std::int64_t size = size_of(file);
        if (left >= size) {
            front.push_back({path});
        } else if (left <= 0) {
            tail.push_back({path});
        } else {
            const std::int64_t cut = cut_after(file, left);
            front.push_back({path, 0, cut});
            if (cut < size) tail.push_back({path, cut});
        }
        left -= size;
    }
    return {front, tail};
}

}  // namespace subbyte::data
