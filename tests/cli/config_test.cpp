// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

class ConfigVerb : public Program {
protected:
    void write_config(const std::string& text) const {
        write("run.toml", "[model]\npreset = \"llama-9m\"\n" + text);
    }
};

TEST_F(ConfigVerb, CheckAcceptsEveryFileOfConfigs) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(SUBBYTE_CONFIG_DIR)) {
        const Call call = run("config check '" + entry.path().string() + "'");
        EXPECT_EQ(call.exit_code, 0) << entry.path() << "\n" << call.err;
        EXPECT_NE(call.out.find(": good"), std::string::npos);
        ++files;
    }
    EXPECT_GE(files, 10);
}

TEST_F(ConfigVerb, OneMistakeIsTwoLines) {
    write_config("[train]\nlr = 5e-5\n");
    expect_error(run("config check run.toml"), 2, "run.toml:4:1: unknown key lr in [train]");
    expect_error(run("config show run.toml"), 2, "did you mean optim.lr?");
    write_config("");
    expect_error(run("config check run.toml --set optim.lr="), 2, "optim.lr has no value");
    expect_error(run("config check run.toml --set optim.lr.x=1"), 2, "is a value, not a section");
    EXPECT_EQ(file_count(), 1u);  // nothing was created
}

TEST_F(ConfigVerb, SeveralMistakesAreListedTogether) {
    write_config("[train]\nlr = 5e-5\nsteps = 1e3\n[optim]\nbetas = [0.9]\n");
    const Call call = run("config check run.toml");
    EXPECT_EQ(call.exit_code, 2);
    EXPECT_TRUE(call.err.starts_with("error: 3 mistakes in the configuration\n")) << call.err;
    for (const char* part : {"run.toml:4:1:", "run.toml:5:9:", "run.toml:7:9:", "\n  hint: "}) {
        EXPECT_NE(call.err.find(part), std::string::npos) << part;
    }
}

TEST_F(ConfigVerb, MissingEmptyAndJunkFilesAreReported) {
    expect_error(run("config check nowhere.toml"), 3, "nowhere.toml");
    expect_error(run("config check ."), 3, "folder");
    write("empty.toml", "");
    expect_error(run("config check empty.toml"), 2, "empty.toml: the model has no size");
    std::string junk;
    for (int i = 0; i < 4096; ++i) junk += static_cast<char>((i * 197 + 89) % 256);
    write("junk.toml", junk);
    const Call call = run("config check junk.toml");
    EXPECT_EQ(call.exit_code, 2);
    EXPECT_NE(call.err.find("junk.toml:1:"), std::string::npos) << call.err;
}

TEST_F(ConfigVerb, ShowTellsTheOriginOfEachValue) {
    write_config("[optim]\nlr = 2e-3\n");
    const Call text = run("config show run.toml --set train.steps=42");
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_NE(text.out.find("lr = 0.002                                    # run.toml:4\n"),
              std::string::npos)
        << text.out;
    EXPECT_NE(text.out.find("# --set train.steps=42"), std::string::npos);

    const nlohmann::json json = run("config show run.toml --set train.steps=42 --json").json();
    EXPECT_EQ(json["optim.lr"]["value"], 2e-3);
    EXPECT_EQ(json["optim.lr"]["origin"], "run.toml:4");
    EXPECT_EQ(json["train.steps"]["value"], 42);
    EXPECT_EQ(json["run.name"]["value"], "run");

    // What show prints is itself a configuration with the same values.
    write("again.toml", text.out);
    const nlohmann::json again = run("config show again.toml --json").json();
    for (const auto& [key, entry] : json.items())
        EXPECT_EQ(again[key]["value"], entry["value"]) << key;
}

TEST_F(ConfigVerb, SchemaListsEveryKey) {
    const nlohmann::json schema = run("config schema --json").json();
    const std::string text = run("config schema").out;
    EXPECT_GE(schema.size(), 70u);
    for (const nlohmann::json& key : schema) {
        EXPECT_FALSE(key["meaning"].get<std::string>().empty()) << key;
        const std::string name = key["key"];
        if (name.find('[') != std::string::npos) continue;  // keys of a rule
        EXPECT_NE(text.find(name), std::string::npos) << name;
    }
}

}  // namespace
}  // namespace subbyte::testing
