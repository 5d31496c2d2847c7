// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "io_test_util.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/jsonl.h"
#include "tests/refuses.h"

namespace subbyte::io {
namespace {

using namespace std::string_literals;
using Json = nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(JsonFile, WritesAndReads) {
    const TempFolder folder;
    const Json value{{"z", 0.1}, {"a", {1, 2}}, {"text", "\"q\""}};
    write_json(folder / "x.json", value);
    EXPECT_EQ(read_json(folder / "x.json"), nlohmann::json(value));
    EXPECT_TRUE(read_bytes(folder / "x.json").starts_with("{\n  \"z\": 0.1,"));
    EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(JsonFile, NamesTheNumbersThatJsonLacks) {
    const TempFolder folder;
    write_json(folder / "x.json", {{"v", {kNan, kInf, -kInf, 1.5}}});
    const nlohmann::json read = read_json(folder / "x.json")["v"];
    EXPECT_EQ(read.dump(), R"(["nan","inf","-inf",1.5])");
    EXPECT_TRUE(std::isnan(number_of(read[0], "v")));
    EXPECT_EQ(number_of(read[1], "v"), kInf);
    EXPECT_EQ(number_of(read[2], "v"), -kInf);
    EXPECT_EQ(number_of(read[3], "v"), 1.5);
    EXPECT_EQ(error_of(ErrorCode::kData, [] { number_of("one", "v"); }).find("v: "), 0u);
}

TEST(JsonFile, ErrorsNamePathAndPosition) {
    const TempFolder folder;
    const auto refused = [&](const std::string& text) {
        write_bytes(folder / "x.json", text);
        const std::string message =
            error_of(ErrorCode::kData, [&] { read_json(folder / "x.json"); });
        EXPECT_EQ(message.find((folder / "x.json").string()), 0u) << message;
        return message;
    };
    EXPECT_NE(refused("{\n \"a\": 1,\n}").find("line 3, column 1"), std::string::npos);
    EXPECT_NE(refused("").find("not JSON"), std::string::npos);
    EXPECT_NE(refused("{}\0{}"s).find("byte 2 is zero"), std::string::npos);
    EXPECT_NE(refused("{} {}").find("column 4"), std::string::npos);
    EXPECT_NE(refused(std::string(100000, '[')).find("deeper than 500"), std::string::npos);
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { read_json(folder / "no"); }, "No such file"));
}

TEST(JsonFile, FullDiskKeepsTheOldFile) {
    const TempFolder folder;
    write_json(folder / "x.json", {{"old", true}});
    std::string message;
    {
        const FileSizeLimit limit(1000);
        message = error_of(ErrorCode::kData, [&] {
            write_json(folder / "x.json", {{"text", std::string(5000, 'x')}});
        });
    }
    EXPECT_NE(message.find("5017 bytes are needed"), std::string::npos) << message;
    EXPECT_EQ(read_json(folder / "x.json"), nlohmann::json({{"old", true}}));
    EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(Jsonl, TypeComesFirstAndEveryRecordIsOut) {
    const TempFolder folder;
    JsonlWriter writer(folder / "log.jsonl");
    writer.write("run");
    EXPECT_EQ(read_bytes(folder / "log.jsonl"), "{\"type\":\"run\"}\n");
    writer.write("step", {{"step", 1}, {"loss", kNan}, {"a", "x\ny"}});
    EXPECT_EQ(read_bytes(folder / "log.jsonl"),
              "{\"type\":\"run\"}\n"
              "{\"type\":\"step\",\"step\":1,\"loss\":\"nan\",\"a\":\"x\\ny\"}\n");
    error_of(ErrorCode::kUsage, [&] { writer.write("step", {{"type", 1}}); });
    error_of(ErrorCode::kUsage, [&] { writer.write("step", Json::array({1})); });
}

TEST(Jsonl, ResumeMarksLaterStepsAndDeletesNothing) {
    const TempFolder folder;
    {
        JsonlWriter writer(folder / "log.jsonl");
        writer.write("run");
        for (int step = 1; step <= 5; ++step) writer.write("step", {{"step", step}});
    }
    {
        JsonlWriter writer(folder / "log.jsonl");
        writer.resume(3);
        writer.write("step", {{"step", 4}});
    }
    const JsonlLog log = read_jsonl(folder / "log.jsonl");
    std::string seen;
    for (const JsonlRecord& record : log.records) {
        seen += record.value["type"].get<std::string>();
        if (record.value.contains("step")) seen += record.value["step"].dump();
        seen += record.superseded ? "- " : " ";
    }
    EXPECT_EQ(seen, "run step1 step2 step3 step4- step5- resume step4 ");
    EXPECT_EQ(log.records[7].line, 8u);
    EXPECT_FALSE(log.torn);
}

TEST(Jsonl, TornLastLineIsTolerated) {
    const TempFolder folder;
    const std::string whole = "{\"type\":\"run\"}\n{\"type\":\"step\",\"step\":12}\n";
    for (std::size_t size = whole.size() - 1; size > 15; --size) {
        write_bytes(folder / "log.jsonl", whole.substr(0, size));
        const JsonlLog log = read_jsonl(folder / "log.jsonl");
        const bool complete = size == whole.size() - 1;  // only the newline is missing
        EXPECT_EQ(log.torn, !complete);
        EXPECT_EQ(log.records.size(), complete ? 2u : 1u);
        JsonlWriter(folder / "log.jsonl").write("end");
        const JsonlLog after = read_jsonl(folder / "log.jsonl");
        EXPECT_FALSE(after.torn);
        ASSERT_EQ(after.records.size(), complete ? 3u : 2u);
        EXPECT_EQ(after.records.back().value["type"], "end");
    }
    // What a machine crash may leave, and a torn line longer than one read.
    for (const std::string& tail : {"{}\0\0\0"s, "{\"x\":\"" + std::string(20000, 'x')}) {
        write_bytes(folder / "log.jsonl", whole + tail);
        EXPECT_TRUE(read_jsonl(folder / "log.jsonl").torn);
        JsonlWriter(folder / "log.jsonl").write("end");
        EXPECT_EQ(read_bytes(folder / "log.jsonl"), whole + "{\"type\":\"end\"}\n");
    }
}

TEST(Jsonl, OtherDamageIsAnErrorWithTheLine) {
    const TempFolder folder;
    const auto refused = [&](const std::string& line) {
        write_bytes(folder / "log.jsonl", "{\"type\":\"run\"}\n" + line + "\n{\"type\":\"end\"}\n");
        return error_of(ErrorCode::kData, [&] { read_jsonl(folder / "log.jsonl"); });
    };
    for (const char* line : {"{\"type\":", "", "5", "{}", "{\"type\":5}", "{\"type\":\"resume\"}",
                             "{\"type\":\"resume\",\"from_step\":1.5}"}) {
        EXPECT_NE(refused(line).find("log.jsonl: line 2: "), std::string::npos) << line;
    }
}

TEST(Jsonl, FullDiskLeavesNoHalfRecord) {
    const TempFolder folder;
    JsonlWriter writer(folder / "log.jsonl");
    writer.write("run");
    const std::string before = read_bytes(folder / "log.jsonl");
    {
        const FileSizeLimit limit(100);
        const std::string message = error_of(ErrorCode::kData, [&] {
            writer.write("step", {{"text", std::string(200, 'x')}});
        });
        EXPECT_NE(message.find((folder / "log.jsonl").string()), std::string::npos) << message;
    }
    EXPECT_EQ(read_bytes(folder / "log.jsonl"), before);
    writer.write("end");
    EXPECT_EQ(read_jsonl(folder / "log.jsonl").records.size(), 2u);
}

TEST(Jsonl, Fuzz) {
    const TempFolder folder;
    std::string valid = "{\"type\":\"run\",\"seed\":1}\n";
    for (int i = 0; i < 6; ++i) valid += "{\"type\":\"step\",\"step\":" + std::to_string(i) + "}\n";
    valid +=
        "{\"type\":\"resume\",\"from_step\":3}\n{\"type\":\"step\",\"step\":4,\"loss\":1e-3}\n";
    fuzz(valid, valid.size(), 4000, folder / "log.jsonl",
         [](const std::filesystem::path& path) { read_jsonl(path); });
    // The writer opens any rubbish, and leaves a log that ends with its record.
    std::mt19937_64 random(1);
    for (int i = 0; i < 500; ++i) {
        write_bytes(folder / "log.jsonl", mutate(valid, random, valid.size()));
        JsonlWriter(folder / "log.jsonl").write("end");
        EXPECT_TRUE(read_bytes(folder / "log.jsonl").ends_with("{\"type\":\"end\"}\n"));
    }
}

}  // namespace
}  // namespace subbyte::io
