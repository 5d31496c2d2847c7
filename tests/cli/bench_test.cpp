// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte bench: what a script reads from it, and how it refuses. No figure is judged.
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using Bench = Program;
const std::string kQuick = " --json --seconds 0 --rounds 1 --threads 1";

void expect_figures(const nlohmann::json& json, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        ASSERT_TRUE(json.contains(name)) << name << " is not in " << json;
        EXPECT_GT(json[name].get<double>(), 0.0) << name;
    }
    EXPECT_EQ(json["threads"], 1);
    EXPECT_TRUE(json["isa"].is_string());
}

TEST_F(Bench, GemmHasOurFiguresAndLibTorchs) {
    const Call call = run("bench gemm --spec fp4 --shape 33,65,129" + kQuick);
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const nlohmann::json json = call.json();
    expect_figures(json, {"seconds", "fp32_seconds", "bf16_seconds", "vs_fp32", "vs_bf16", "gflops",
                          "fp32_gflops", "bf16_gflops"});
    EXPECT_EQ(json["a"], "e2m1:1x128:f32");
    EXPECT_EQ(json["b"], "e2m1:128x128:f32");
    EXPECT_EQ(json["shape"], (nlohmann::json{33, 65, 129}));
    EXPECT_TRUE(json["kernel"].is_string());
}

TEST_F(Bench, LayerAndQuantize) {
    const Call layer = run("bench layer --recipe int8 --shape 64,48,80" + kQuick);
    ASSERT_EQ(layer.exit_code, 0) << layer.err;
    expect_figures(layer.json(), {"seconds", "vs_fp32", "vs_bf16", "gflops"});
    const Call quantize = run("bench quantize --spec nvfp4 --shape 30,50" + kQuick);
    ASSERT_EQ(quantize.exit_code, 0) << quantize.err;
    expect_figures(quantize.json(), {"seconds", "transposed_seconds", "dequantize_seconds",
                                     "gb_per_second", "ns_per_element"});
}

TEST_F(Bench, StepBesideThreeOthersOrAlone) {
    const std::string step = "bench step --recipe fp4 --model llama-9m --batch 1 --seq 16" + kQuick;
    const Call all = run(step);
    ASSERT_EQ(all.exit_code, 0) << all.err;
    expect_figures(all.json(), {"seconds", "fp32_seconds", "autocast_seconds", "pure_bf16_seconds",
                                "vs_fp32", "vs_bf16", "tokens_per_second", "loss"});
    EXPECT_EQ(all.json()["vs_bf16"],
              std::min(all.json()["vs_autocast"], all.json()["vs_pure_bf16"]));
    const Call alone = run(step + " --alone --head int8");
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    expect_figures(alone.json(), {"seconds", "peak_bytes"});
    EXPECT_FALSE(alone.json().contains("vs_fp32"));
    EXPECT_EQ(alone.json()["head"], "int8");
}

TEST_F(Bench, TextIsATable) {
    const Call call = run("bench gemm --shape 8,8,8 --seconds 0 --rounds 1");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    EXPECT_NE(call.out.find("vs_fp32"), std::string::npos) << call.out;
}

TEST_F(Bench, MistakesAreExitTwo) {
    expect_error(run("bench"), 2, "bench --help");
    expect_error(run("bench gemm --shape 8,8"), 2, "--shape");
    expect_error(run("bench gemm --shape 8,0,8"), 2, "N is 0");
    const Call spec = run("bench gemm --spec e9m9");
    EXPECT_EQ(spec.exit_code, 2);
    EXPECT_NE(spec.err.find("e9m9"), std::string::npos) << spec.err;
    expect_error(run("bench layer --recipe fp5"), 2, "fp5");
    expect_error(run("bench step --model llama-9"), 2, "llama-9m");
    expect_error(run("bench step --batch 0"), 2, "batch is 0");
    expect_error(run("bench gemm --threads -1"), 2, "--threads");
}

}  // namespace
}  // namespace subbyte::testing
