// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/temp_folder.h"

namespace subbyte::testing {

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

// What one call of the program did.
struct Call {
    int exit_code = -1;
    std::string out, err;

    nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// Runs the built program in a folder of its own, as a user would type it in a shell.
class Program : public ::testing::Test {
protected:
    Program() { std::filesystem::create_directories(folder_ / "work"); }

    // `arguments` as typed after "subbyte"; `before` stands in front of it, e.g. "VARIABLE=value".
    // Standard output goes to `sink` when one is named.
    Call run(const std::string& arguments, const std::string& before = "",
             const std::string& sink = "") const {
        const std::filesystem::path out =
            sink.empty() ? folder_ / "out" : std::filesystem::path(sink);
        const std::filesystem::path err = folder_ / "err";
        const std::string command = "cd '" + (folder_ / "work").string() + "' && " + before + " '" +
                                    SUBBYTE_PROGRAM + "' " + arguments + " >'" + out.string() +
                                    "' 2>'" + err.string() + "' </dev/null";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, sink.empty() ? read_file(out) : "",
                read_file(err)};
    }

    std::filesystem::path path(const std::string& name) const { return folder_ / "work" / name; }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(path(name), std::ios::binary) << content;
    }
    // Text for the smallest runs, and the sections of their configuration that name it and the
    // model: text.txt and "[model] ... [data] ...".
    std::string tiny_config() const {
        std::string text;
        for (int i = 0; i < 3000; ++i) {
            text += "line " + std::to_string(i * 7919 % 1000) + " of the text\n";
        }
        write("text.txt", text);
        return "[model]\nhidden_size = 32\nintermediate_size = 64\nlayers = 3\nheads = 2\n"
               "[data]\npath = \"text.txt\"\ntokenizer = \"bytes\"\n";
    }
    // Files and folders the program left in its working folder.
    std::size_t file_count() const {
        std::size_t count = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path("")))
            ++count;
        return count;
    }

    // The call failed with this exit code, two lines on standard error, and nothing on standard
    // output.
    static void expect_error(const Call& call, int exit_code, const std::string& part) {
        EXPECT_EQ(call.exit_code, exit_code) << call.err;
        EXPECT_EQ(call.out, "");
        EXPECT_TRUE(call.err.starts_with("error: ")) << call.err;
        EXPECT_NE(call.err.find("\n  hint: "), std::string::npos) << call.err;
        EXPECT_NE(call.err.find(part), std::string::npos) << part << " in: " << call.err;
        EXPECT_EQ(std::count(call.err.begin(), call.err.end(), '\n'), 2) << call.err;
    }

private:
    TempFolder folder_;
};

}  // namespace subbyte::testing
