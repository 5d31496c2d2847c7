// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/cpu.h"

#include <gtest/gtest.h>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"

namespace subbyte {
namespace {

TEST(Cpu, TheCapCanOnlyBeLowered) {
    const Isa before = max_isa();
    EXPECT_LE(before, detected_isa());
    set_max_isa(Isa::kReference);
    EXPECT_EQ(max_isa(), Isa::kReference);
    set_max_isa(before);
    EXPECT_EQ(max_isa(), before);
    if (detected_isa() < Isa::kAvx512) {
        EXPECT_THROW(set_max_isa(Isa::kAvx512), Error);
    }
}

TEST(Cpu, NamesAreThoseOfTheEnvironmentVariable) {
    EXPECT_EQ(isa_name(Isa::kReference), "reference");
    EXPECT_EQ(isa_name(Isa::kAvx2), "avx2");
    EXPECT_EQ(isa_name(Isa::kAvx512), "avx512");
    EXPECT_FALSE(cpu_model_name().empty());
}

TEST(Parallel, WithoutAPoolTheCallerDoesEverythingOnce) {
    std::int64_t calls = 0, sum = 0;
    parallel_for(10, 3, [&](std::int64_t begin, std::int64_t end) {
        ++calls;
        for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(sum, 45);
    parallel_for(0, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace subbyte
