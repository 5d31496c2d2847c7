// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The newest checkpoint is damaged in every way a crash or a disk can damage it.
#include <algorithm>

#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

void flip_bit(const fs::path& path) {
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
    write_file(path, bytes);
}

struct Defect {
    std::string name, file;
    std::function<void(const fs::path& newest, const fs::path& older)> damage;
};

std::vector<Defect> defects() {
    std::vector<Defect> result;
    for (const char* file : {"trainer_state.json", "manifest.json", "model.safetensors",
                             "optimizer.safetensors", "precision.json", "config.json"}) {
        const std::string name = file;
        result.push_back({"delete " + name, name, [name](const fs::path& newest, const fs::path&) {
                              fs::remove(newest / name);
                          }});
        result.push_back(
            {"flip a bit in " + name, name,
             [name](const fs::path& newest, const fs::path&) { flip_bit(newest / name); }});
        // The line end behind the manifest's JSON is no part of what it says; a byte more is.
        const std::size_t cut = name == "manifest.json" ? 2 : 1;
        result.push_back(
            {"cut " + name, name, [name, cut](const fs::path& newest, const fs::path&) {
                 const std::string bytes = read_file(newest / name);
                 write_file(newest / name, bytes.substr(0, bytes.size() - cut));
             }});
    }
    result.push_back({"take precision.json of the older one", "precision.json",
                      [](const fs::path& newest, const fs::path& older) {
                          write_file(newest / "precision.json",
                                     read_file(older / "precision.json"));
                      }});
    result.push_back({"take manifest.json of the older one", "manifest.json",
                      [](const fs::path& newest, const fs::path& older) {
                          write_file(newest / "manifest.json", read_file(older / "manifest.json"));
                      }});
    result.push_back(
        {"leave the folder empty", "empty", [](const fs::path& newest, const fs::path&) {
             fs::remove_all(newest);
             fs::create_directory(newest);
         }});
    return result;
}

TEST(TrainDamage, AutoFallsBackAndNamedIsRefused) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.train.steps = 8;
    config.precision.snip.probes = "none";
    config.train.eval_every = 0;
    config.checkpoint.every = 3;
    Recorder whole;
    run(config, whole);
    std::vector<double> after3 = whole.losses();
    after3.erase(after3.begin(), after3.begin() + 3);
    fs::remove_all(checkpoint_of(config, 8));
    const std::string good = folder / "good";
    fs::copy(config.run.dir, good, fs::copy_options::recursive | fs::copy_options::copy_symlinks);

    for (const Defect& defect : defects()) {
        SCOPED_TRACE(defect.name);
        fs::remove_all(config.run.dir);
        fs::copy(good, config.run.dir,
                 fs::copy_options::recursive | fs::copy_options::copy_symlinks);
        const std::string newest = checkpoint_of(config, 6);
        defect.damage(newest, checkpoint_of(config, 3));
        const auto before = snapshot(config.run.dir);

        Config named = config;
        named.checkpoint.resume = newest;
        Recorder refused;
        const std::string message = error_of(ErrorCode::kData, [&] { run(named, refused); });
        EXPECT_NE(message.find("step_00000006"), std::string::npos) << message;
        EXPECT_NE(message.find(defect.file), std::string::npos) << message;
        EXPECT_TRUE(snapshot(config.run.dir) == before);

        Recorder resumed;
        run(config, resumed);
        EXPECT_NE(resumed.messages.find("warning: "), std::string::npos) << resumed.messages;
        EXPECT_NE(resumed.messages.find(newest), std::string::npos) << resumed.messages;
        EXPECT_NE(resumed.messages.find("at step 3"), std::string::npos) << resumed.messages;
        EXPECT_EQ(resumed.losses(), after3);
    }
}

TEST(TrainDamage, WithoutAnyGoodCheckpointNothingStartsFromStepZero) {
    TempFolder folder;
    Config config = tiny_config(folder);
    Recorder recorder;
    run(config, recorder, 3);
    fs::remove(checkpoint_of(config, 3) + "/trainer_state.json");
    const auto before = snapshot(config.run.dir);
    const std::string message = error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_NE(message.find("trainer_state.json"), std::string::npos) << message;
    EXPECT_TRUE(snapshot(config.run.dir) == before);
    Config named = config;
    named.checkpoint.resume = folder / "nowhere";
    error_of(ErrorCode::kData, [&] { run(named, recorder); });
    EXPECT_TRUE(snapshot(config.run.dir) == before);
}

}  // namespace
}  // namespace subbyte::train
