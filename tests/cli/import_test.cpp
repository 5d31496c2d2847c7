// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// `subbyte import` on a small LLaMA in GGUF, and what is done with the folder it makes.
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using nlohmann::json;

class Import : public Program {
protected:
    Import() {
        std::filesystem::copy_file(std::filesystem::path(SUBBYTE_GOLDEN_DIR) / "import_llama.gguf",
                                   path("m.gguf"));
        std::string text;
        for (int i = 0; i < 60; ++i) {
            text += "It is a truth number " + std::to_string(i) + " and it's universal.\n";
        }
        write("t.txt", text);
    }
};

TEST_F(Import, SaysWhatItMade) {
    const Call call = run("import m.gguf --out m");
    EXPECT_EQ(call.exit_code, 0) << call.err;
    for (const char* part : {"tiny", "LLaMA of 27808 parameters", "2 layers", "288 pieces", "Q4_1",
                             "smollm", "model.safetensors"}) {
        EXPECT_NE(call.out.find(part), std::string::npos) << part << " in: " << call.out;
    }
    EXPECT_EQ(file_count(), 3u);
    const json report = run("import m.gguf --out n/o/ --json").json();
    EXPECT_EQ(report["parameters"], 27808);
    EXPECT_EQ(report["types"][0]["bits_per_value"], 5);
    EXPECT_EQ(read_file(path("n/o/model.safetensors")), read_file(path("m/model.safetensors")));
}

TEST_F(Import, LeavesNothingWhenItFails) {
    const std::string whole = read_file(path("m.gguf"));
    write("cut.gguf", whole.substr(0, whole.size() - 40));
    const std::size_t before = file_count();
    expect_error(run("import cut.gguf --out m"), 3, "cut.gguf: tensor");
    expect_error(run("import missing.gguf --out m"), 3, "missing.gguf");
    expect_error(run("import t.txt --out m"), 3, "no GGUF file");
    // The disk is full before the weights are written.
    EXPECT_NE(run("import m.gguf --out m", "ulimit -f 40;").exit_code, 0);
    EXPECT_EQ(file_count(), before);
    std::filesystem::create_directory(path("m"));
    write("m/mine", "x");
    expect_error(run("import m.gguf --out m"), 2, "exists already");
    EXPECT_EQ(read_file(path("m/mine")), "x");
}

TEST_F(Import, TheFolderIsEvaluatedPlannedAndContinued) {
    ASSERT_EQ(run("import m.gguf --out m").exit_code, 0);
    const json loss = run("eval m --data t.txt --seq-len 32 --json").json();
    EXPECT_GT(loss["loss"], 0);
    const Call text = run("generate m --prompt 'It is' --tokens 4");
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_TRUE(text.out.starts_with("It is")) << text.out;
    const Call plan = run("plan m --data t.txt --seq-len 32 --target 0.5");
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    write("c.toml", R"([model]
path = "m"
[data]
path = "t.txt"
[train]
steps = 3
batch_size = 2
seq_len = 32
[precision]
recipe = "fp8"
)");
    const Call training = run("train c.toml");
    ASSERT_EQ(training.exit_code, 0) << training.err;
    EXPECT_NE(training.out.find("288 pieces"), std::string::npos) << training.out;
    // The checkpoint brings the tokenizer along.
    const std::string checkpoint = "runs/c/checkpoints/latest";
    EXPECT_EQ(read_file(path(checkpoint + "/tokenizer.json")), read_file(path("m/tokenizer.json")));
    EXPECT_EQ(run("eval " + checkpoint + " --data t.txt --seq-len 32").exit_code, 0);
}

}  // namespace
}  // namespace subbyte::testing
