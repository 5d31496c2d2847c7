// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/cli/files.h"
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

class Inspect : public Program {
protected:
    json inspect(const std::string& file) const {
        const Call call = run("inspect " + file + " --json");
        EXPECT_EQ(call.exit_code, 0) << call.err;
        return call.json();
    }
};

TEST_F(Inspect, SafetensorsFileListsItsTensorsByName) {
    write("w.safetensors", safetensors({{"b", {"F32", {2, 3}, bytes_of(std::vector<float>(6))}},
                                        {"a", {"U8", {5}, "12345"}},
                                        {"c", {"F32", {0, 4}, ""}}}));
    const json file = inspect("w.safetensors");
    EXPECT_EQ(file["kind"], "safetensors");
    EXPECT_EQ(file["elements"], 11);
    EXPECT_EQ(file["bytes"], 29);
    ASSERT_EQ(file["tensors"].size(), 3u);
    EXPECT_EQ(file["tensors"][0]["name"], "a");
    EXPECT_EQ(file["tensors"][1]["dtype"], "F32");
    EXPECT_EQ(file["tensors"][1]["shape"], (std::vector<int>{2, 3}));
    EXPECT_NE(run("inspect w.safetensors").out.find("[2,3]"), std::string::npos);
}

TEST_F(Inspect, QuantizedFileTellsItsSpec) {
    write("x.npy", npy({{1, 32}, std::vector<float>(32, 1.0f)}));
    ASSERT_EQ(run("quantize x.npy --spec nvfp4 --out q.safetensors --seed 5").exit_code, 0);
    const json file = inspect("q.safetensors");
    EXPECT_EQ(file["metadata"]["spec"], "e2m1:1x16:ue4m3+f32");
    EXPECT_EQ(file["metadata"]["seed"], "5");
    EXPECT_EQ(file["tensors"].size(), 4u);
}

TEST_F(Inspect, NumpyFileTellsShapeAndType) {
    write("x.npy", npy({{2, 3, 4}, std::vector<float>(24)}));
    EXPECT_EQ(inspect("x.npy"),
              (json{{"kind", "npy"}, {"dtype", "F32"}, {"shape", {2, 3, 4}}, {"elements", 24}}));
}

TEST_F(Inspect, PlanCountsItsGemms) {
    write("plan.json",
          json{{"version", 1},
               {"method", "snip"},
               {"fallback", "bf16"},
               {"layers",
                {{"a", "fp4"}, {"b", {{"fprop", "fp4"}, {"dgrad", "fp8"}, {"wgrad", "bf16"}}}}}}
              .dump());
    const json file = inspect("plan.json");
    EXPECT_EQ(file["kind"], "plan");
    EXPECT_EQ(file["gemms"], (json{{"fp4", 4}, {"fp8", 1}, {"bf16", 1}}));
    EXPECT_EQ(file["layers"][1]["dgrad"], "fp8");
    EXPECT_NE(run("inspect plan.json").out.find("fp8"), std::string::npos);

    write("bad.json", R"({"version": 1, "method": "snip", "fallback": "fp9", "layers": {}})");
    expect_error(run("inspect bad.json"), 3, "fp9");
    write("other.json", R"({"hidden_size": 3})");
    expect_error(run("inspect other.json"), 3, "other.json");
}

TEST_F(Inspect, ModelFolderListsItsTensors) {
    std::filesystem::create_directory(path("model"));
    write("model/model.safetensors",
          safetensors({{"w", {"F32", {4}, bytes_of(std::vector<float>(4))}}}));
    const json folder = inspect("model");
    EXPECT_EQ(folder["kind"], "model");
    EXPECT_EQ(folder["elements"], 4);
}

TEST_F(Inspect, DamagedAndMissingFilesAreExitThree) {
    write("empty", "");
    write("junk", "nothing of the kind that is known here");
    std::string cut = safetensors({{"w", {"F32", {4}, bytes_of(std::vector<float>(4))}}});
    cut.pop_back();
    write("cut.safetensors", cut);
    write("shard.sbtk", std::string("SBTK\1\0\0\0", 8));
    std::filesystem::create_directory(path("folder"));
    for (const std::string file :
         {"missing", "empty", "junk", "cut.safetensors", "shard.sbtk", "folder"}) {
        expect_error(run("inspect " + file), 3, file);
    }
    expect_error(run("inspect"), 2, "nothing to look into");
    expect_error(run("inspect empty extra"), 2, "extra");
}

}  // namespace
}  // namespace subbyte::testing
