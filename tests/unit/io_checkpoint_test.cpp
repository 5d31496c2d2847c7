// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/checkpoint.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "io_test_util.h"
#include "subbyte/io/json_file.h"
#include "tests/refuses.h"

namespace subbyte::io {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public ::testing::Test {
protected:
    fs::path save(std::int64_t step, std::int64_t size = 100) {
        CheckpointWriter writer(run_.path(), step);
        writer.add_tensors("model.safetensors", {{"w", at::full({size}, double(step))}});
        writer.add_tensors("optimizer.safetensors", {{"m", at::full({size}, -double(step))}});
        writer.add_tensors("scaling.safetensors", {{"amax", at::full({16}, double(step))}});
        writer.add_json("trainer_state.json", {{"step", step}, {"loss", NAN}});
        writer.add_text("tokenizer.txt", "abc");
        return writer.commit({{"world_size", 1}});
    }
    fs::path folder_of(std::int64_t step) const { return checkpoint_folder(run_.path(), step); }
    std::string defect(std::int64_t step) {
        const std::string message =
            error_of(ErrorCode::kData, [&] { verify_checkpoint(folder_of(step)); });
        EXPECT_NE(message.find(folder_of(step).string()), std::string::npos) << message;
        return message;
    }
    std::int64_t latest() {
        warnings_.clear();
        const auto found = latest_valid_checkpoint(
            run_.path(), [&](const CheckpointInfo& info) { warnings_.push_back(info); });
        return found ? found->step : -1;
    }
    void expect_fallback(const std::string& word) {
        EXPECT_NE(defect(40).find(word), std::string::npos) << defect(40);
        EXPECT_EQ(latest(), 20);
        ASSERT_EQ(warnings_.size(), 1u);
        EXPECT_EQ(warnings_[0].folder, folder_of(40));
        EXPECT_NE(warnings_[0].reason.find(word), std::string::npos) << warnings_[0].reason;
    }
    std::vector<std::int64_t> steps() {
        std::vector<std::int64_t> found;
        for (const CheckpointInfo& info : find_checkpoints(run_.path())) {
            found.push_back(info.valid ? info.step : -info.step);
        }
        return found;
    }

    TempFolder run_;
    std::vector<CheckpointInfo> warnings_;
};

TEST_F(Checkpoint, SavesWholeFolders) {
    EXPECT_EQ(latest(), -1);
    EXPECT_TRUE(find_checkpoints(run_.path()).empty());
    const fs::path folder = save(1200);
    EXPECT_EQ(folder, run_.path() / "checkpoints" / "step_00001200");
    EXPECT_EQ(count_entries(folder), 6u);
    EXPECT_EQ(fs::read_symlink(run_ / "checkpoints/latest"), "step_00001200");
    EXPECT_EQ(count_entries(run_ / "checkpoints"), 2u);
    const Manifest manifest = verify_checkpoint(run_ / "checkpoints/latest");
    EXPECT_EQ(manifest.step, 1200);
    EXPECT_EQ(manifest.files.size(), 5u);
    EXPECT_EQ(manifest.info["world_size"], 1);
    EXPECT_EQ(manifest.files.at("tokenizer.txt").bytes, 3u);
    // XXH64 of "abc" as published with xxHash.
    EXPECT_EQ(manifest.files.at("tokenizer.txt").checksum, 0x44bc2cf5ad770999u);
    save(1300);
    EXPECT_EQ(fs::read_symlink(run_ / "checkpoints/latest"), "step_00001300");
    EXPECT_EQ(latest(), 1300);
    EXPECT_TRUE(warnings_.empty());
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{1200, 1300}));
}

TEST_F(Checkpoint, MissingFile) {
    save(20);
    save(40);
    fs::remove(folder_of(40) / "trainer_state.json");
    expect_fallback("trainer_state.json is missing");
}

TEST_F(Checkpoint, MissingManifest) {
    save(20);
    save(40);
    fs::remove(folder_of(40) / "manifest.json");
    expect_fallback("manifest.json is missing");
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{20, -40}));
}

TEST_F(Checkpoint, FileCutByOneByte) {
    save(20);
    save(40);
    const fs::path file = folder_of(40) / "model.safetensors";
    const auto size = fs::file_size(file);
    fs::resize_file(file, size - 1);
    expect_fallback("model.safetensors has " + std::to_string(size - 1) +
                    " bytes, the manifest says " + std::to_string(size));
}

TEST_F(Checkpoint, FlippedBit) {
    save(20);
    save(40);
    const fs::path file = folder_of(40) / "optimizer.safetensors";
    std::string bytes = read_bytes(file);
    bytes[bytes.size() - 7] ^= 0x10;
    write_bytes(file, bytes);
    expect_fallback("optimizer.safetensors has checksum");
}

TEST_F(Checkpoint, FileOfAnotherStep) {
    save(20);
    save(40);
    fs::copy_file(folder_of(20) / "scaling.safetensors", folder_of(40) / "scaling.safetensors",
                  fs::copy_options::overwrite_existing);
    expect_fallback("scaling.safetensors has checksum");
}

TEST_F(Checkpoint, FolderOfAnotherStep) {
    save(20);
    save(40);
    fs::remove_all(folder_of(40));
    fs::copy(folder_of(20), folder_of(40));
    expect_fallback("belongs to step 20, the folder is named for step 40");
    // Under a name of its own a copy is a checkpoint.
    fs::copy(folder_of(20), run_ / "copy");
    EXPECT_EQ(verify_checkpoint(run_ / "copy").step, 20);
}

TEST_F(Checkpoint, EmptyFolderOfAHigherStep) {
    save(20);
    save(40);
    fs::create_directory(folder_of(60));
    EXPECT_EQ(latest(), 40);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_EQ(warnings_[0].folder, folder_of(60));
    EXPECT_NE(warnings_[0].reason.find("the folder is empty"), std::string::npos);
    EXPECT_NE(defect(80).find("no such folder"), std::string::npos);
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{20, 40, -60}));
}

TEST_F(Checkpoint, OldDefectsAreNoNewsAndNoneValidIsSaid) {
    save(20);
    save(40);
    fs::remove(folder_of(20) / "manifest.json");
    EXPECT_EQ(latest(), 40);
    EXPECT_TRUE(warnings_.empty());
    fs::remove(folder_of(40) / "tokenizer.txt");
    EXPECT_EQ(latest(), -1);
    EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(Checkpoint, EveryBitOfTheManifestCounts) {
    save(20);
    const fs::path file = folder_of(20) / "manifest.json";
    const std::string good = read_bytes(file);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
        write_bytes(file, bad);
        try {
            verify_checkpoint(folder_of(20));
            FAIL() << "bit " << bit << " of " << bad;
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        }
    }
}

TEST_F(Checkpoint, NewerFormatIsRefusedWithItsNumber) {
    save(20);
    nlohmann::json manifest = read_json(folder_of(20) / "manifest.json");
    manifest["version"] = 7;
    write_json(folder_of(20) / "manifest.json", manifest);
    EXPECT_NE(defect(20).find("format version 7, this program reads up to 1"), std::string::npos);
}

TEST_F(Checkpoint, ManifestFuzz) {
    save(20);
    const fs::path file = folder_of(20) / "manifest.json";
    const std::string good = read_bytes(file);
    std::mt19937_64 random(5);
    for (int i = 0; i < 4000; ++i) {
        const std::string bad = mutate(good, random, good.size());
        write_bytes(file, bad);
        try {
            // Whatever passes says the same as the one that was written.
            const Manifest manifest = verify_checkpoint(folder_of(20));
            EXPECT_EQ(manifest.step, 20);
            EXPECT_EQ(manifest.files.size(), 5u);
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        }
    }
}

TEST_F(Checkpoint, SavingAStepAgainReplacesIt) {
    save(20);
    save(40, 100);
    save(40, 300);
    EXPECT_EQ(verify_checkpoint(folder_of(40)).sequence, 2);
    const auto file = SafetensorsFile::open(folder_of(40) / "model.safetensors");
    EXPECT_EQ(file.info("w").shape, (std::vector<std::int64_t>{300}));
    // Also a broken one.
    fs::remove(folder_of(40) / "manifest.json");
    save(40);
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{20, 40}));
    EXPECT_EQ(count_entries(run_ / "checkpoints"), 3u);
}

TEST_F(Checkpoint, NewestIsTheOneSavedLast) {
    save(20);
    save(40);
    save(30);  // the run went back to 20
    EXPECT_EQ(latest(), 30);
    EXPECT_TRUE(warnings_.empty());
    prune_checkpoints(run_.path(), 2, 0);
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{30, 40}));
}

TEST_F(Checkpoint, KeepsTheLastAndEveryNth) {
    for (const std::int64_t step : {10, 20, 30, 40, 50, 60}) save(step);
    fs::create_directory(folder_of(5));  // not ours to delete
    prune_checkpoints(run_.path(), 2, 30);
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{-5, 30, 50, 60}));
    prune_checkpoints(run_.path(), 1, 0);
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{-5, 60}));
    EXPECT_EQ(fs::read_symlink(run_ / "checkpoints/latest"), "step_00000060");
    error_of(ErrorCode::kUsage, [&] { prune_checkpoints(run_.path(), 0, 0); });
}

TEST_F(Checkpoint, TemporaryFoldersAreIgnoredAndCleaned) {
    save(20);
    fs::create_directories(run_ / "checkpoints/.tmp-step_00000040-1/x");
    write_bytes(run_ / "checkpoints/.tmp-step_00000040-1/model.safetensors", "half");
    fs::create_symlink("step_00000010", run_ / "checkpoints/.tmp-latest-1");
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{20}));
    EXPECT_EQ(latest(), 20);
    EXPECT_TRUE(warnings_.empty());
    save(40);
    EXPECT_EQ(count_entries(run_ / "checkpoints"), 3u);  // 20, 40, latest
}

TEST_F(Checkpoint, WithoutCommitNothingStays) {
    save(20);
    {
        CheckpointWriter writer(run_.path(), 40);
        writer.add_text("x", "y");
        // While it is at work nobody else may clean up.
        EXPECT_TRUE(refuses(
            ErrorCode::kUsage, [&] { CheckpointWriter other(run_.path(), 60); },
            "another checkpoint"));
    }
    EXPECT_EQ(count_entries(run_ / "checkpoints"), 2u);
    EXPECT_EQ(latest(), 20);
}

TEST_F(Checkpoint, FileNames) {
    CheckpointWriter writer(run_.path(), 1);
    writer.add_text("x", "y");
    for (const char* name : {"x", "", ".", "..", "a/b", "../x", "/x", "manifest.json"}) {
        error_of(ErrorCode::kUsage, [&] { writer.add_text(name, "y"); });
    }
    error_of(ErrorCode::kUsage, [&] { CheckpointWriter negative(run_.path(), -1); });
}

TEST_F(Checkpoint, CopiesFiles) {
    std::string text(3'000'000, 'x');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 >> 3);
    write_bytes(run_ / "tokenizer.model", text);
    CheckpointWriter writer(run_.path(), 1);
    writer.add_copy("tokenizer.model", run_ / "tokenizer.model");
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { writer.add_copy("no", run_ / "no"); }, "No such file"));
    const fs::path folder = writer.commit();
    EXPECT_EQ(read_bytes(folder / "tokenizer.model"), text);
    EXPECT_EQ(verify_checkpoint(folder).files.at("tokenizer.model").checksum, checksum_of(text));
}

TEST_F(Checkpoint, FullDiskLeavesEarlierCheckpointsAlone) {
    save(20);
    const std::string before = read_bytes(folder_of(20) / "model.safetensors");
    std::string message;
    {
        const FileSizeLimit limit(64 * 1024);
        message = error_of(ErrorCode::kData, [&] { save(40, 100000); });
    }
    EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find("400072 bytes are needed"), std::string::npos) << message;
    EXPECT_EQ(count_entries(run_ / "checkpoints"), 2u);
    EXPECT_EQ(latest(), 20);
    EXPECT_TRUE(warnings_.empty());
    EXPECT_EQ(read_bytes(folder_of(20) / "model.safetensors"), before);
    save(40, 100000);
    EXPECT_EQ(latest(), 40);
}

}  // namespace
}  // namespace subbyte::io
