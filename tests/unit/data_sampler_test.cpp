// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Windows and their order: what counts as a window, that an epoch sees each once, and that a run
// which was stopped goes on with the same batches.
#include "subbyte/data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data_util.h"
#include "subbyte/data/permutation.h"

namespace subbyte::data {
namespace {

// Token i is i, so a window tells where it begins.
TokenStream counting(std::int64_t count) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return TokenStream(std::move(ids), 1 << 24);
}

Windows windows_of(std::int64_t count, std::int64_t seq_len) {
    return Windows(counting(count * seq_len + 1), seq_len, "training data");
}

std::vector<std::int64_t> first_tokens(const Batch& batch) {
    std::vector<std::int64_t> first;
    for (std::int64_t r = 0; r < batch.rows; ++r) {
        first.push_back(batch.inputs[static_cast<std::size_t>(r * batch.seq_len)]);
    }
    return first;
}

TEST(Windows, NeedOneMoreTokenThanTheirLength) {
    for (const std::int64_t tokens : {0, 1, 400, 512}) {
        expect_error(ErrorCode::kData,
                     {"training data", std::to_string(tokens) + " tokens found", "513 needed"},
                     [&] { Windows(counting(tokens), 512, "training data"); });
    }
    EXPECT_EQ(Windows(counting(513), 512, "training data").count(), 1);
    EXPECT_EQ(Windows(counting(514), 512, "training data").count(), 1);
    EXPECT_EQ(Windows(counting(1024), 512, "training data").count(), 1);
    EXPECT_EQ(Windows(counting(1025), 512, "training data").count(), 2);
    EXPECT_EQ(Windows(counting(2), 1, "x").count(), 1);
    expect_error(ErrorCode::kUsage, {"seq_len is 0"}, [&] { Windows(counting(9), 0, "x"); });
}

TEST(Windows, TargetsAreTheNextTokens) {
    const Windows windows(counting(12), 3, "x");
    const Batch batch = windows.read(std::vector<std::int64_t>{2, 0});
    EXPECT_EQ(batch.rows, 2);
    EXPECT_EQ(batch.seq_len, 3);
    EXPECT_EQ(batch.inputs, (std::vector<std::int64_t>{6, 7, 8, 0, 1, 2}));
    EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{7, 8, 9, 1, 2, 3}));
}

TEST(Windows, RangesGoInOrderAndEndWithTheLast) {
    const Windows windows = windows_of(5, 4);
    EXPECT_EQ(first_tokens(windows.range(0, 3)), (std::vector<std::int64_t>{0, 4, 8}));
    EXPECT_EQ(first_tokens(windows.range(3, 3)), (std::vector<std::int64_t>{12, 16}));
    EXPECT_EQ(windows.range(5, 3).rows, 0);
}

TEST(Permutation, IsOneForEveryCount) {
    for (std::int64_t count = 1; count <= 300; ++count) {
        std::vector<bool> seen(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t at = shuffled(i, count, 42, 3);
            ASSERT_GE(at, 0);
            ASSERT_LT(at, count);
            ASSERT_FALSE(seen[static_cast<std::size_t>(at)]) << count;
            seen[static_cast<std::size_t>(at)] = true;
        }
    }
    for (const std::int64_t count : {65536, 65537, 100003}) {
        std::set<std::int64_t> seen;
        for (std::int64_t i = 0; i < count; ++i) seen.insert(shuffled(i, count, 7, 0));
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), count);
        EXPECT_EQ(*seen.begin(), 0);
        EXPECT_EQ(*seen.rbegin(), count - 1);
    }
    const std::int64_t huge = std::int64_t{1} << 61;
    EXPECT_LT(shuffled(huge - 1, huge, 1, 1), huge);
}

TEST(Permutation, DependsOnSeedAndEpoch) {
    const auto order = [](std::uint64_t seed, std::uint32_t epoch) {
        std::vector<std::int64_t> all;
        for (std::int64_t i = 0; i < 1000; ++i) all.push_back(shuffled(i, 1000, seed, epoch));
        return all;
    };
    EXPECT_EQ(order(1, 0), order(1, 0));
    EXPECT_NE(order(1, 0), order(1, 1));
    EXPECT_NE(order(1, 0), order(2, 0));
    EXPECT_NE(order(1, 0), order(std::uint64_t{1} << 32 | 1, 0));  // the high half counts too
}

// Over many epochs each of the 120 orders of five comes up equally often: chi-square with 119
// degrees of freedom exceeds 184 once in ten thousand.
TEST(Permutation, EveryOrderIsEquallyLikely) {
    constexpr int kEpochs = 72000;
    std::map<std::int64_t, int> orders;
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
        std::int64_t order = 0;
        for (std::int64_t i = 0; i < 5; ++i) order = order * 5 + shuffled(i, 5, 3, epoch);
        ++orders[order];
    }
    ASSERT_EQ(orders.size(), 120u);
    double chi_square = 0;
    for (const auto& [order, n] : orders) chi_square += (n - 600.0) * (n - 600.0) / 600.0;
    EXPECT_LT(chi_square, 184);
}

// In a random order two neighbours are a third of the range apart on average.
TEST(Permutation, ALongOrderIsMixed) {
    double distance = 0;
    for (std::int64_t i = 1; i < 20000; ++i) {
        distance += std::abs(double(shuffled(i, 20000, 9, 0) - shuffled(i - 1, 20000, 9, 0)));
    }
    EXPECT_NEAR(distance / 19999 / 20000, 1.0 / 3, 0.01);
}

TEST(Sampler, AnEpochSeesEveryWindowOnce) {
    Sampler sampler(windows_of(37, 4), 5, 1);
    std::vector<std::int64_t> seen;
    while (seen.size() < 3 * 37) {  // the batches do not fit into epochs
        const auto first = first_tokens(sampler.next(5));
        seen.insert(seen.end(), first.begin(), first.end());
    }
    std::vector<std::vector<std::int64_t>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> part(seen.begin() + 37 * epoch, seen.begin() + 37 * (epoch + 1));
        epochs.push_back(part);
        std::sort(part.begin(), part.end());
        for (std::size_t i = 0; i < part.size(); ++i) {
            EXPECT_EQ(part[i], static_cast<std::int64_t>(4 * i));
        }
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    EXPECT_EQ(sampler.epoch(), sampler.position() / 37);
}

TEST(Sampler, WithoutShufflingItGoesInOrder) {
    Sampler sampler(windows_of(4, 2), 3, 1, false);
    EXPECT_EQ(first_tokens(sampler.next(3)), (std::vector<std::int64_t>{0, 2, 4}));
    EXPECT_EQ(first_tokens(sampler.next(3)), (std::vector<std::int64_t>{6, 0, 2}));
}

TEST(Sampler, ARunGoesOnWithTheSameBatches) {
    Sampler straight(windows_of(50, 8), 6, 99);
    std::vector<Batch> expected;
    for (int step = 0; step < 40; ++step) expected.push_back(straight.next(6));

    for (const int stop : {0, 1, 8, 9, 25, 39}) {
        Sampler before(windows_of(50, 8), 6, 99);
        for (int step = 0; step < stop; ++step) before.next(6);
        const std::string saved = before.state().dump();
        Sampler after(windows_of(50, 8), 6, 99);
        const LogCatcher log;
        after.restore(nlohmann::json::parse(saved));
        EXPECT_TRUE(log.messages.empty());
        EXPECT_EQ(after.position(), 6 * stop);
        for (std::size_t step = static_cast<std::size_t>(stop); step < 40; ++step) {
            const Batch batch = after.next(6);
            EXPECT_EQ(batch.inputs, expected[step].inputs);
            EXPECT_EQ(batch.targets, expected[step].targets);
        }
    }
}

TEST(Sampler, MicroBatchesAreThePartsOfTheStep) {
    Sampler whole(windows_of(50, 8), 12, 99), parts(windows_of(50, 8), 12, 99);
    const Batch step = whole.next(12);
    std::vector<std::int64_t> inputs;
    for (int micro = 0; micro < 4; ++micro) {
        const Batch batch = parts.next(3);
        inputs.insert(inputs.end(), batch.inputs.begin(), batch.inputs.end());
    }
    EXPECT_EQ(inputs, step.inputs);
    EXPECT_EQ(parts.position(), whole.position());
}

TEST(Sampler, FewerWindowsThanABatchRepeatAndSaySo) {
    const LogCatcher log;
    Sampler sampler(Windows(counting(513), 512, "training data"), 8, 1);
    const Batch batch = sampler.next(8);
    sampler.next(8);
    EXPECT_EQ(first_tokens(batch), std::vector<std::int64_t>(8, 0));
    ASSERT_EQ(log.messages.size(), 1u);
    EXPECT_EQ(log.messages[0].first, LogLevel::kInfo);
    EXPECT_NE(log.messages[0].second.find("repeat"), std::string::npos);
}

TEST(Sampler, OtherDataAtAResumeAreAnnounced) {
    Sampler before(windows_of(50, 8), 6, 99);
    before.next(36);
    Sampler other(windows_of(20, 8), 6, 99);
    const LogCatcher log;
    other.restore(before.state());
    EXPECT_EQ(other.position(), 36);
    EXPECT_EQ(other.epoch(), 1);
    ASSERT_EQ(log.messages.size(), 1u);
    EXPECT_EQ(log.messages[0].first, LogLevel::kWarning);
    for (const char* part : {"windows 50 -> 20", "sample 36", "epoch 1"}) {
        EXPECT_NE(log.messages[0].second.find(part), std::string::npos) << log.messages[0].second;
    }
    // The same number of tokens with other ids is noticed as well; another batch size is no matter.
    std::vector<std::int32_t> ids(50 * 8 + 1, 5);
    Sampler changed(Windows(TokenStream(ids, 10), 8, "x"), 6, 99);
    changed.restore(before.state());
    EXPECT_EQ(log.messages.size(), 2u);
    Sampler larger(windows_of(50, 8), 24, 99);
    larger.restore(before.state());
    EXPECT_EQ(log.messages.size(), 2u);
}

TEST(Sampler, ABrokenStateIsRefused) {
    Sampler sampler(windows_of(50, 8), 6, 99);
    sampler.next(6);
    for (const char* state : {"null", "[]", "{}", "5", R"({"samples": -1})", R"({"samples": "6"})",
                              R"({"samples": 1.5})", R"({"samples": 18446744073709551615})"}) {
        expect_error(ErrorCode::kData, {"data position"},
                     [&] { sampler.restore(nlohmann::json::parse(state)); });
        EXPECT_EQ(sampler.position(), 6);
    }
}

}  // namespace
}  // namespace subbyte::data
