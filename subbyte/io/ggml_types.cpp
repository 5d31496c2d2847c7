// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/ggml_types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "subbyte/core/error.h"

namespace subbyte::io {
namespace {

using Byte = std::uint8_t;

template <class T>
T little_endian(const Byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

float half_at(const Byte* at) {
    return c10::Half(little_endian<std::uint16_t>(at), c10::Half::from_bits());
}

void from_f32(const Byte* in, float* out) { *out = little_endian<float>(in); }
void from_f16(const Byte* in, float* out) { *out = half_at(in); }
void from_bf16(const Byte* in, float* out) {
    *out = c10::BFloat16(little_endian<std::uint16_t>(in), c10::BFloat16::from_bits());
}

// d, 16 bytes: low nibbles are the values 0-15, high nibbles 16-31; codes are offset by 8.
void from_q4_0(const Byte* in, float* out) {
    const float d = half_at(in);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>((in[2 + i] & 15) - 8);
        out[i + 16] = d * static_cast<float>((in[2 + i] >> 4) - 8);
    }
}

// d, minimum, 16 bytes.
void from_q4_1(const Byte* in, float* out) {
    const float d = half_at(in), m = half_at(in + 2);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>(in[4 + i] & 15) + m;
        out[i + 16] = d * static_cast<float>(in[4 + i] >> 4) + m;
    }
}

// d, the fifth bits of the 32 values, 16 bytes; codes are offset by 16.
void from_q5_0(const Byte* in, float* out) {
    const float d = half_at(in);
    const auto high = little_endian<std::uint32_t>(in + 2);
    for (int i = 0; i < 16; ++i) {
        const int low = static_cast<int>((in[6 + i] & 15u) | (high >> i & 1u) << 4);
        const int top = static_cast<int>((in[6 + i] >> 4) | (high >> (i + 16) & 1u) << 4);
        out[i] = d * static_cast<float>(low - 16);
        out[i + 16] = d * static_cast<float>(top - 16);
    }
}

void from_q5_1(const Byte* in, float* out) {
    const float d = half_at(in), m = half_at(in + 2);
    const auto high = little_endian<std::uint32_t>(in + 4);
    for (int i = 0; i < 16; ++i) {
        const unsigned low = (in[8 + i] & 15u) | (high >> i & 1u) << 4;
        const unsigned top = static_cast<unsigned>(in[8 + i] >> 4) | (high >> (i + 16) & 1u) << 4;
        out[i] = d * static_cast<float>(low) + m;
        out[i + 16] = d * static_cast<float>(top) + m;
    }
}

void from_q8_0(const Byte* in, float* out) {
    const float d = half_at(in);
    for (int i = 0; i < 32; ++i) {
        out[i] = d * static_cast<float>(static_cast<std::int8_t>(in[2 + i]));
    }
}

// The K types: 256 values in 8 parts of 32. 12 bytes hold a 6-bit scale and minimum per part.
struct ScaleAndMinimum {
    float scale, minimum;
};

ScaleAndMinimum part_scale(const Byte* packed, int part, float d, float dmin) {
    unsigned scale = 0, minimum = 0;
    if (part < 4) {
        scale = packed[part] & 63u;
        minimum = packed[part + 4] & 63u;
    } else {
        scale = (packed[part + 4] & 15u) | (packed[part - 4] >> 6 & 3u) << 4;
        minimum = static_cast<unsigned>(packed[part + 4] >> 4) | (packed[part] >> 6 & 3u) << 4;
    }
    return {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
}

// d, dmin, scales[12], `high_bits` 32 bytes of fifth bits (Q5_K), 128 bytes of nibbles: the low
// nibbles of 32 bytes are one part, the high nibbles the next.
void from_k(const Byte* in, float* out, const Byte* high_bits, const Byte* nibbles) {
    const float d = half_at(in), dmin = half_at(in + 2);
    for (int part = 0; part < 8; ++part) {
        const ScaleAndMinimum s = part_scale(in + 4, part, d, dmin);
        const Byte* q = nibbles + part / 2 * 32;
        for (int i = 0; i < 32; ++i) {
            unsigned code = part % 2 == 0 ? q[i] & 15u : static_cast<unsigned>(q[i] >> 4);
            if (high_bits != nullptr) code |= (high_bits[i] >> part & 1u) << 4;
            out[part * 32 + i] = s.scale * static_cast<float>(code) - s.minimum;
        }
    }
}

void from_q4_k(const Byte* in, float* out) { from_k(in, out, nullptr, in + 16); }
void from_q5_k(const Byte* in, float* out) { from_k(in, out, in + 16, in + 48); }

// 128 bytes of low nibbles, 64 bytes of two high bits, 16 signed scales of 16 values each, d; codes
// are offset by 32.
void from_q6_k(const Byte* in, float* out) {
    const Byte* scales = in + 192;
    const float d = half_at(in + 208);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        const unsigned low = in[half * 64 + quarter % 2 * 32 + at];
        const unsigned nibble = quarter < 2 ? low & 15u : low >> 4;
        const unsigned high = in[128 + half * 32 + at] >> (2 * quarter) & 3u;
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[i / 16]));
        out[i] = scale * static_cast<float>(static_cast<int>(nibble | high << 4) - 32);
    }
}

constexpr std::array kTypes{
    GgmlType{0, "F32", 1, 4, from_f32},        GgmlType{1, "F16", 1, 2, from_f16},
    GgmlType{30, "BF16", 1, 2, from_bf16},     GgmlType{2, "Q4_0", 32, 18, from_q4_0},
    GgmlType{3, "Q4_1", 32, 20, from_q4_1},    GgmlType{6, "Q5_0", 32, 22, from_q5_0},
    GgmlType{7, "Q5_1", 32, 24, from_q5_1},    GgmlType{8, "Q8_0", 32, 34, from_q8_0},
    GgmlType{12, "Q4_K", 256, 144, from_q4_k}, GgmlType{13, "Q5_K", 256, 176, from_q5_k},
    GgmlType{14, "Q6_K", 256, 210, from_q6_k},
};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) {
    for (const GgmlType& type : kTypes) {
        if (type.id == id) return &type;
    }
    return nullptr;
}

std::vector<std::string> ggml_type_names() {
    std::vector<std::string> names;
    for (const GgmlType& type : kTypes) names.emplace_back(type.name);
    return names;
}

void dequantize(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> out) {
    const auto values = static_cast<std::size_t>(type.values);
    const auto bytes = static_cast<std::size_t>(type.bytes);
    const std::size_t count = out.size() / values;
    if (out.size() % values != 0 || blocks.size() != count * bytes) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: {} bytes do not hold {} values", type.name,
                                                   blocks.size(), out.size()));
    }
    const auto* in = reinterpret_cast<const Byte*>(blocks.data());
    for (std::size_t i = 0; i < count; ++i) type.dequantize(in + i * bytes, &out[i * values]);
}

}  // namespace subbyte::io
