// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using General = Program;

TEST_F(General, HelpAndVersionSucceed) {
    for (const std::string arguments :
         {"--help", "config --help", "config show --help", "info --help", "inspect --help",
          "quantize --help", "plan --help"}) {
        const Call call = run(arguments);
        EXPECT_EQ(call.exit_code, 0) << arguments;
        EXPECT_NE(call.out.find("Usage: subbyte"), std::string::npos) << call.out;
        EXPECT_EQ(call.err, "") << arguments;
    }
    for (const std::string arguments : {"--version", "version"}) {
        const Call call = run(arguments);
        EXPECT_EQ(call.exit_code, 0);
        EXPECT_TRUE(call.out.starts_with("subbyte ")) << call.out;
    }
}

TEST_F(General, MisuseIsExitTwoWithAHint) {
    expect_error(run(""), 2, "no verb given");
    expect_error(run("inof"), 2, "did you mean 'info'?");
    expect_error(run("config"), 2, "`subbyte config --help`");
    expect_error(run("config show"), 2, "CONFIG is required");
    expect_error(run("config show x.toml --bogus"), 2, "--bogus");
    expect_error(run("config schema extra"), 2, "extra");
    expect_error(run("info --json=maybe"), 2, "json");
}

TEST_F(General, UnknownInstructionSetCapIsRefused) {
    expect_error(run("info", "SUBBYTE_MAX_ISA=sse9"), 2, "sse9");
}

TEST_F(General, VerboseGemmsSayWhatRanAndWhy) {
    const std::string bench = "bench gemm --spec bf16 --shape 8,24,40 --seconds 0 --rounds 1";
    const Call quiet = run(bench), verbose = run(bench, "SUBBYTE_VERBOSE=gemm");
    EXPECT_EQ(quiet.err, "");
    EXPECT_EQ(verbose.exit_code, 0);
    EXPECT_NE(verbose.err.find("gemm 8 x 24 x 40, bf16 * bf16: "), std::string::npos)
        << verbose.err;
    EXPECT_NE(verbose.err.find(" ms; not avx512_vnni: "), std::string::npos) << verbose.err;
    expect_error(run(bench, "SUBBYTE_VERBOSE=all"), 2, "SUBBYTE_VERBOSE is 'all'");
}

TEST_F(General, FullDiskIsReported) {
    expect_error(run("config schema", "", "/dev/full"), 3, "standard output");
}

TEST_F(General, InfoTellsMachineAndRecipes) {
    const Call text = run("info");
    EXPECT_EQ(text.exit_code, 0);
    for (const char* part : {"processor", "instructions", "threads", "LibTorch", "nvfp4"}) {
        EXPECT_NE(text.out.find(part), std::string::npos) << part;
    }
    const nlohmann::json json = run("info --json").json();
    EXPECT_GE(json["threads"], 1);
    for (const char* recipe :
         {"fp32", "bf16", "fp8", "fp4", "mxfp8", "mxfp4", "nvfp4", "int8", "int4"}) {
        for (const char* slot : {"fprop", "dgrad", "wgrad"}) {
            EXPECT_FALSE(json["recipes"][recipe][slot]["kernel"].get<std::string>().empty())
                << recipe;
            EXPECT_TRUE(json["recipes"][recipe][slot]["native"].is_boolean()) << recipe;
        }
    }
    EXPECT_EQ(json["recipes"]["fp32"]["fprop"]["native"], true);

    const nlohmann::json capped = run("info --json", "SUBBYTE_MAX_ISA=reference").json();
    EXPECT_EQ(capped["isa"]["used"], "reference");
    EXPECT_EQ(capped["isa"]["detected"], json["isa"]["detected"]);
}

TEST_F(General, InspectFormatsListsElementsSpecsAndRecipes) {
    const nlohmann::json json = run("inspect formats --json").json();
    EXPECT_EQ(json["elements"]["e4m3"]["max"], 448);
    EXPECT_EQ(json["elements"]["e2m1"]["max"], 6);
    EXPECT_EQ(json["elements"]["e5m2"]["max"], 57344);
    EXPECT_EQ(json["specs"]["nvfp4"], "e2m1:1x16:ue4m3+f32");
    EXPECT_EQ(json["recipes"]["fp8"]["fprop"]["b"], "e4m3:128x128:f32");
    EXPECT_EQ(json["elements"]["e2m3"]["min_positive"], 0.125);
    EXPECT_EQ(json["elements"]["int8full"]["lowest"], -128);
    EXPECT_EQ(json["elements"]["e2m1"]["specs"],
              (std::vector<std::string>{"fp4", "mxfp4", "nvfp4"}));
    EXPECT_EQ(json["scales"]["ue5m3"]["rules"], std::vector<std::string>{"up"});
    const std::string text = run("inspect formats").out;
    for (const char* part : {"e2m1:1x16:ue4m3+f32", "dynamic8",
                             "The spec mxfp4 is e2m1:1x32:e8m0/floor; the recipe mxfp4 trains with "
                             "e2m1:1x32:e8m0/rceil.",
                             "The spec mxfp8 is e4m3:1x32:e8m0/floor; the recipe mxfp8 trains with "
                             "e4m3:1x32:e8m0/rceil."}) {
        EXPECT_NE(text.find(part), std::string::npos) << part;
    }
}

TEST_F(General, InspectKernelsGivesAReasonForEveryKernelThatDoesNotRun) {
    const Call call = run("inspect kernels --shape 64,128,256 --spec nvfp4 --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const nlohmann::json json = call.json();
    EXPECT_EQ(json["a"], "e2m1:1x16:ue4m3+f32");
    for (const char* op : {"gemm", "quantize", "quantize_transposed", "dequantize"}) {
        int chosen = 0;
        for (const nlohmann::json& candidate : json[op]) {
            chosen += candidate["chosen"].get<bool>() ? 1 : 0;
        }
        EXPECT_EQ(chosen, 1) << op;
    }
    EXPECT_NE(run("inspect kernels --spec mxfp4").out.find("runs here"), std::string::npos);
    const nlohmann::json forced =
        run("inspect kernels --spec fp4 --json", "SUBBYTE_FORCE_KERNEL=quantize=reference").json();
    EXPECT_EQ(forced["quantize"].back()["kernel"], "reference");
    EXPECT_EQ(forced["quantize"].back()["chosen"], true);

    expect_error(run("inspect kernels --shape 0,1,1"), 2, "--shape holds 0");
    expect_error(run("inspect kernels --shape 1,1"), 2, "--shape");
    expect_error(run("inspect kernels --shape a,b,c"), 2, "--shape");
}

}  // namespace
}  // namespace subbyte::testing
