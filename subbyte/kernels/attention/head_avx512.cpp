// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention of one head out of tiles of 6 x 32 (gemm/tiles_avx512-inl.h), six queries at a time:
// the scores of six queries fill a strip of memory in the first cache, become probabilities there
// and are multiplied on; only tiles up to the diagonal are computed. Panels:
//   A  [chunk of 128][row][128 bf16]   six rows, the contraction along the row
//   B  [word][32 columns]              a word holds two neighbours along the contraction
#include <algorithm>
#include <cmath>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/kernels/attention/head.h"
#include "subbyte/kernels/gemm/tiles_avx512-inl.h"

namespace subbyte::kernels {
namespace {

using Bf16 = std::uint16_t;
constexpr std::int64_t kRows = kTileRows, kCols = kTileCols;
constexpr std::int64_t kWords = kChunk / 2;

std::int64_t up_to(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// D = factor * A * B^T over `words` of the contraction; with `more` that is added to D.
inline void multiply(const Bf16* a_panel, const Bf16* b_panel, std::int64_t words, float factor,
                     bool more, float* d, std::int64_t stride) {
    const auto* a = reinterpret_cast<const std::int32_t*>(a_panel);
    const auto* b = reinterpret_cast<const std::int32_t*>(b_panel);
    F acc[kTileRows][kTileVectors];
    for (auto& row : acc) {
        for (F& sum : row) sum = set(0.0f);
    }
    for (; words > 0; words -= kWords, a += kRows * kWords) {
        const std::int64_t n = std::min(words, kWords);
        for (std::int64_t w = 0; w < n; ++w, b += kCols) {
            const auto b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b));
            const auto b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + kLanes));
#pragma GCC unroll 6
            for (int i = 0; i < kTileRows; ++i) {
                const auto word = reinterpret_cast<__m512bh>(_mm512_set1_epi32(a[i * kWords + w]));
                acc[i][0] = _mm512_dpbf16_ps(acc[i][0], word, b0);
                acc[i][1] = _mm512_dpbf16_ps(acc[i][1], word, b1);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kTileVectors; ++j) {
            float* const p = d + i * stride + j * kLanes;
            const F product = mul(acc[i][j], set(factor));
            store(p, more ? add(load(p), product) : product);
        }
    }
}

CodeRows rows_of(const Bf16* x, std::int64_t rows, std::int64_t cols) {
    return {reinterpret_cast<const std::uint8_t*>(x),
            2 * cols,
            rows,
            cols,
            nullptr,
            nullptr,
            nullptr,
            nullptr};
}

// One panel of A: rows [first, first + 6) of x.
void pack_a_rows(const Bf16* x, std::int64_t rows, std::int64_t cols, std::int64_t first,
                 Bf16* panel) {
    pack_rows<Bf16ToBf16>(rows_of(x, rows, cols), first, reinterpret_cast<std::uint8_t*>(panel),
                          [](std::int64_t, int, const I*) {});
}

// Panels of B whose columns are the rows of x, the contraction along them.
void pack_b_rows(const Bf16* x, std::int64_t rows, std::int64_t cols, Bf16* panels) {
    const std::int64_t size = up_to(cols, kChunk) * kCols;
    for (std::int64_t r = 0; r < rows; r += kCols) {
        pack_columns<Bf16ToBf16>(rows_of(x, rows, cols), r,
                                 reinterpret_cast<std::uint8_t*>(panels + r / kCols * size),
                                 _mm512_setzero_si512());
    }
}

inline I load_words_of(const Bf16* p, std::int64_t n) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask16(n)),
                                                          reinterpret_cast<const __m256i*>(p)));
}

// Panels of B whose columns are the columns of x, the contraction down them.
void pack_b_columns(const Bf16* x, std::int64_t rows, std::int64_t cols, Bf16* panels) {
    const std::int64_t size = up_to(rows, 2) * kCols;
    for (std::int64_t c = 0; c < up_to(cols, kCols); c += kLanes) {
        Bf16* out = panels + c / kCols * size + c % kCols * 2;
        for (std::int64_t r = 0; r < rows; r += 2, out += 2 * kCols) {
            const I low = load_words_of(x + r * cols + c, cols - c);
            const I high = r + 1 < rows ? load_words_of(x + (r + 1) * cols + c, cols - c) : set(0u);
            _mm512_store_si512(out, or_(low, shift_left<16>(high)));
        }
    }
}

// Panels of A whose rows are the columns of x [rows <= 128, cols]: one chunk.
void pack_a_columns(const Bf16* x, std::int64_t rows, std::int64_t cols, Bf16* panels) {
    for (std::int64_t c = 0; c < cols; c += kLanes) {
        for (std::int64_t r = 0; r < rows; r += kLanes) {
            I block[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                block[i] = r + i < rows ? load_words_of(x + (r + i) * cols + c, cols - c) : set(0u);
            }
            transpose_square(block);
            for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, cols - c); ++i) {
                store_words(reinterpret_cast<std::uint8_t*>(panels + (c + i) * kChunk + r),
                            block[i]);
            }
        }
    }
}

// target[r * stride + c] = source[c * source_stride + r].
void turn_over(const float* source, std::int64_t source_stride, std::int64_t rows,
               std::int64_t cols, float* target, std::int64_t stride) {
    for (std::int64_t r = 0; r < rows; r += kLanes) {
        for (std::int64_t c = 0; c < cols; c += kLanes) {
            I block[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                block[i] = c + i < cols ? bits(load_first(source + (c + i) * source_stride + r,
                                                          std::min<std::int64_t>(16, rows - r)))
                                        : set(0u);
            }
            transpose_square(block);
            for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, rows - r); ++i) {
                store_first(target + (r + i) * stride + c, floats(block[i]),
                            std::min<std::int64_t>(16, cols - c));
            }
        }
    }
}

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of degree 6. NaN stays.
inline F exp(F x) {
    x = max(set(-110.0f), x);
    const F n = _mm512_roundscale_ps(mul(x, set(1.44269504088896341f)), _MM_FROUND_TO_NEAREST_INT);
    const F r = neg_mul_add(n, set(-2.12194440e-4f), neg_mul_add(n, set(0.693359375f), x));
    F p = mul_add(r, set(1.0f / 720), set(1.0f / 120));
    p = mul_add(p, r, set(1.0f / 24));
    p = mul_add(p, r, set(1.0f / 6));
    p = mul_add(p, r, set(0.5f));
    p = mul_add(p, mul(r, r), add(r, set(1.0f)));
    return _mm512_scalef_ps(p, n);
}

inline void store_bf16(Bf16* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}

// Column c of row r in a panel of A.
inline Bf16* in_a(Bf16* panel, std::int64_t r, std::int64_t c) {
    return panel + (c / kChunk * kRows + r) * kChunk + c % kChunk;
}

// Probabilities of one query, not yet divided by their sum, to row r of a panel of A. `scores` has
// room for whole vectors, `seen` of them count; zeros up to `width`. Returns log(sum of exp).
float softmax_row(const float* scores, std::int64_t seen, std::int64_t width, std::int64_t r,
                  Bf16* panel, float& inverse_sum) {
    F most = set(-HUGE_VALF);
    for (std::int64_t c = 0; c < seen; c += kLanes) {
        most = _mm512_mask_max_ps(most, mask16(seen - c), most, load(scores + c));
    }
    const float largest = _mm512_reduce_max_ps(most);
    F sums = set(0.0f);
    for (std::int64_t c = 0; c < width; c += kLanes) {
        const F e = _mm512_maskz_mov_ps(mask16(seen - c),
                                        exp(_mm512_sub_ps(load(scores + c), set(largest))));
        sums = add(sums, e);
        store_bf16(in_a(panel, r, c), e);
    }
    const float sum = _mm512_reduce_add_ps(sums);
    inverse_sum = 1.0f / sum;
    return largest + std::log(sum);
}

// scores -> probabilities p and dp -> scale * p * (dp - sum(p * dp)), the gradient of the scores.
void score_gradient_row(float* scores, float* dp, std::int64_t seen, std::int64_t width,
                        float log_sum, float scale) {
    F sums = set(0.0f);
    for (std::int64_t c = 0; c < width; c += kLanes) {
        const __mmask16 mask = mask16(seen - c);
        const F p = _mm512_maskz_mov_ps(mask, exp(_mm512_sub_ps(load(scores + c), set(log_sum))));
        store(scores + c, p);
        sums = _mm512_mask3_fmadd_ps(p, load(dp + c), sums, mask);
    }
    const F mean = set(_mm512_reduce_add_ps(sums));
    for (std::int64_t c = 0; c < width; c += kLanes) {
        const F ds = mul(mul(load(scores + c), set(scale)), _mm512_sub_ps(load(dp + c), mean));
        store(dp + c, _mm512_maskz_mov_ps(mask16(seen - c), ds));
    }
}

// Rows (two each to a word) of a strip of 6 x width, to words from `word` on of panels of B that
// are `size` apart.
void strip_to_b(const float* strip, std::int64_t stride, std::int64_t width, std::int64_t word,
                Bf16* panels, std::int64_t size) {
    alignas(64) static constexpr auto kInterleave = [] {
        std::array<std::uint16_t, 32> index{};
        for (std::size_t i = 0; i < 32; ++i) {
            index[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
        }
        return index;
    }();
    const I order = _mm512_load_si512(kInterleave.data());
    const std::int64_t words = std::min<std::int64_t>(kRows / 2, kWords - word);
    for (std::int64_t w = 0; w < words; ++w) {
        const float* const low = strip + 2 * w * stride;
        for (std::int64_t c = 0; c < width; c += kLanes) {
            const auto both =
                reinterpret_cast<I>(_mm512_cvtne2ps_pbh(load(low + stride + c), load(low + c)));
            _mm512_store_si512(panels + c / kCols * size + ((word + w) * kCols + c % kCols) * 2,
                               _mm512_permutexvar_epi16(order, both));
        }
    }
}

// Memory of a thread.
struct Memory {
    AlignedBuffer<Bf16> keys, values, turned_keys, a, more_a, probabilities, p, ds, q_turned,
        dy_turned, dy;
    AlignedBuffer<float> scores, dp, out, dk, dv;
};

Memory& memory() {
    thread_local Memory instance;
    return instance;
}

template <class T>
T* take(AlignedBuffer<T>& buffer, std::int64_t count) {
    return buffer.reserve(static_cast<std::size_t>(count));
}

template <class T>
T* take_zeros(AlignedBuffer<T>& buffer, std::int64_t count) {
    T* const data = take(buffer, count);
    std::fill_n(data, count, T{});
    return data;
}

// Rotates the row of token r, the operations of ops/rope.cpp; store(column, values, mask).
template <class Store>
void for_rotated(const float* x, std::int64_t r, std::int64_t cols, float sign,
                 const Rotary& rotary, const Store& store) {
    const std::int64_t half = cols / 2;
    for (std::int64_t c = 0; c < half; c += kLanes) {
        const __mmask16 mask = mask16(half - c);
        const F low = _mm512_maskz_loadu_ps(mask, x + c);
        const F high = _mm512_maskz_loadu_ps(mask, x + half + c);
        const F cosine = _mm512_maskz_loadu_ps(mask, rotary.cosines + r * half + c);
        const F sine = mul(set(sign), _mm512_maskz_loadu_ps(mask, rotary.sines + r * half + c));
        store(c, _mm512_sub_ps(mul(low, cosine), mul(high, sine)), mask);
        store(half + c, add(mul(high, cosine), mul(low, sine)), mask);
    }
}

}  // namespace

void to_bf16_avx512(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                    const Rotary& rotary, std::uint16_t* out) {
    const auto store_some = [](std::uint16_t* to, F v, __mmask16 mask) {
        _mm256_mask_storeu_epi16(to, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
    };
    for (std::int64_t r = 0; r < rows; ++r, x += stride, out += cols) {
        if (rotary.cosines != nullptr) {
            for_rotated(x, r, cols, 1.0f, rotary,
                        [&](std::int64_t c, F v, __mmask16 mask) { store_some(out + c, v, mask); });
            continue;
        }
        for (std::int64_t c = 0; c < cols; c += kLanes) {
            const __mmask16 mask = mask16(cols - c);
            store_some(out + c, _mm512_maskz_loadu_ps(mask, x + c), mask);
        }
    }
}

void rotate_back_avx512(float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                        const Rotary& rotary) {
    for (std::int64_t r = 0; r < rows; ++r, x += stride) {
        for_rotated(x, r, cols, -1.0f, rotary, [&](std::int64_t c, F v, __mmask16 mask) {
            _mm512_mask_storeu_ps(x + c, mask, v);
        });
    }
}

void attention_head_avx512(const Head& h, float* y) {
    Memory& m = memory();
    const std::int64_t deep = up_to(h.size, kChunk), wide = up_to(h.tokens, kCols);
    const std::int64_t key_panel = deep * kCols, value_panel = up_to(h.tokens, 2) * kCols;
    const std::int64_t out_cols = up_to(h.size, kCols);
    Bf16* const keys = take(m.keys, wide * deep);
    Bf16* const values = take(m.values, up_to(h.tokens, 2) * out_cols);
    Bf16* const a = take(m.a, deep * kRows);
    Bf16* const p = take_zeros(m.probabilities, up_to(h.tokens, kChunk) * kRows);
    float* const scores = take(m.scores, kRows * wide);
    float* const out = take(m.out, kRows * out_cols);
    pack_b_rows(h.k, h.tokens, h.size, keys);
    pack_b_columns(h.v, h.tokens, h.size, values);
    for (std::int64_t i = 0; i < h.tokens; i += kRows) {
        const std::int64_t rows = std::min(kRows, h.tokens - i), seen = i + rows;
        pack_a_rows(h.q, h.tokens, h.size, i, a);
        for (std::int64_t j = 0; j * kCols < seen; ++j) {
            multiply(a, keys + j * key_panel, (h.size + 1) / 2, h.scale, false, scores + j * kCols,
                     wide);
        }
        float inverse[kRows];
        for (std::int64_t r = 0; r < rows; ++r) {
            h.log_sums[i + r] =
                softmax_row(scores + r * wide, i + r + 1, up_to(seen, kLanes), r, p, inverse[r]);
        }
        for (std::int64_t c = 0; c < out_cols; c += kCols) {
            multiply(p, values + c / kCols * value_panel, (seen + 1) / 2, 1.0f, false, out + c,
                     out_cols);
        }
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < h.size; c += kLanes) {
                store_first(y + (i + r) * h.stride + c,
                            mul(load(out + r * out_cols + c), set(inverse[r])),
                            std::min<std::int64_t>(kLanes, h.size - c));
            }
        }
    }
}

void attention_head_backward_avx512(const Head& h, const float* dy, float* dq, float* dk,
                                    float* dv) {
    Memory& m = memory();
    const std::int64_t deep = up_to(h.size, kChunk), wide = up_to(h.tokens, kCols);
    const std::int64_t key_panel = deep * kCols, turned_panel = up_to(h.tokens, 2) * kCols;
    const std::int64_t block_panel = kChunk * kCols;  // 128 queries down, 32 keys across
    const std::int64_t out_cols = up_to(h.size, kCols), out_rows = up_to(h.size, kRows);
    Bf16* const keys = take(m.keys, wide * deep);
    Bf16* const values = take(m.values, wide * deep);
    Bf16* const turned_keys = take(m.turned_keys, up_to(h.tokens, 2) * out_cols);
    Bf16* const a = take(m.a, deep * kRows);
    Bf16* const dy_a = take(m.more_a, deep * kRows);
    Bf16* const ds_a = take_zeros(m.probabilities, up_to(h.tokens, kChunk) * kRows);
    Bf16* const p = take(m.p, wide * kChunk);
    Bf16* const ds = take(m.ds, wide * kChunk);
    Bf16* const q_turned = take_zeros(m.q_turned, out_rows * kChunk);
    Bf16* const dy_turned = take_zeros(m.dy_turned, out_rows * kChunk);
    Bf16* const dy16 = take(m.dy, kChunk * h.size);
    float* const scores = take(m.scores, kRows * wide);
    float* const dp = take(m.dp, kRows * wide);
    float* const out = take(m.out, kRows * out_cols);
    float* const dk_turned = take_zeros(m.dk, out_rows * wide);
    float* const dv_turned = take_zeros(m.dv, out_rows * wide);
    pack_b_rows(h.k, h.tokens, h.size, keys);
    pack_b_rows(h.v, h.tokens, h.size, values);
    pack_b_columns(h.k, h.tokens, h.size, turned_keys);
    for (std::int64_t first = 0; first < h.tokens; first += kChunk) {
        const std::int64_t queries = std::min(kChunk, h.tokens - first);
        const std::int64_t keys_seen = first + queries, width = up_to(keys_seen, kCols);
        const Bf16* const q = h.q + first * h.size;
        to_bf16_avx512(dy + first * h.stride, h.stride, queries, h.size, {}, dy16);
        pack_a_columns(q, queries, h.size, q_turned);
        pack_a_columns(dy16, queries, h.size, dy_turned);
        for (std::int64_t i = 0; i < queries; i += kRows) {
            const std::int64_t rows = std::min(kRows, queries - i), seen = first + i + rows;
            pack_a_rows(q, queries, h.size, i, a);
            pack_a_rows(dy16, queries, h.size, i, dy_a);
            for (std::int64_t j = 0; j * kCols < seen; ++j) {
                multiply(a, keys + j * key_panel, (h.size + 1) / 2, h.scale, false,
                         scores + j * kCols, wide);
                multiply(dy_a, values + j * key_panel, (h.size + 1) / 2, 1.0f, false,
                         dp + j * kCols, wide);
            }
            for (std::int64_t r = 0; r < kRows; ++r) {
                const std::int64_t own = r < rows ? first + i + r + 1 : 0;
                score_gradient_row(scores + r * wide, dp + r * wide, own, width,
                                   r < rows ? h.log_sums[first + i + r] : 0.0f, h.scale);
                for (std::int64_t c = 0; c < up_to(seen, kLanes); c += kLanes) {
                    store_bf16(in_a(ds_a, r, c), load(dp + r * wide + c));
                }
            }
            strip_to_b(scores, wide, width, i / 2, p, block_panel);
            strip_to_b(dp, wide, width, i / 2, ds, block_panel);
            for (std::int64_t c = 0; c < out_cols; c += kCols) {
                multiply(ds_a, turned_keys + c / kCols * turned_panel, (seen + 1) / 2, 1.0f, false,
                         out + c, out_cols);
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                std::copy_n(out + r * out_cols, h.size, dq + (first + i + r) * h.stride);
            }
        }
        for (std::int64_t j = 0; j < width; j += kCols) {
            // Queries before the first key of the panel do not see it.
            const std::int64_t word = std::max<std::int64_t>(0, j - first) / 2;
            const std::int64_t words = (queries + 1) / 2 - word;
            const std::int64_t panel = j / kCols * block_panel + word * 2 * kCols;
            for (std::int64_t r = 0; r < out_rows; r += kRows) {
                multiply(dy_turned + r * kChunk + word * 2, p + panel, words, 1.0f, true,
                         dv_turned + r * wide + j, wide);
                multiply(q_turned + r * kChunk + word * 2, ds + panel, words, 1.0f, true,
                         dk_turned + r * wide + j, wide);
            }
        }
    }
    turn_over(dk_turned, wide, h.tokens, h.size, dk, h.stride);
    turn_over(dv_turned, wide, h.tokens, h.size, dv, h.stride);
}

}  // namespace subbyte::kernels
