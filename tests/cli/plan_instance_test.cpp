// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>

#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using nlohmann::json;

using PlanInstance = Program;

json golden_instances() {
    std::ifstream file(SUBBYTE_GOLDEN_DIR "/ilp.json");
    return json::parse(file);
}

TEST_F(PlanInstance, FileOfInstancesGivesTheKnownOptima) {
    const json known = golden_instances().at("instances");
    const Call call = run("plan --instance '" SUBBYTE_GOLDEN_DIR "/ilp.json' --json");
    EXPECT_EQ(call.exit_code, 2);  // two of them are infeasible
    EXPECT_NE(call.err.find("infeasible"), std::string::npos) << call.err;
    const json results = call.json();
    ASSERT_EQ(results.size(), known.size());
    for (std::size_t i = 0; i < known.size(); ++i) {
        EXPECT_EQ(results[i]["name"], known[i]["name"]);
        EXPECT_EQ(results[i]["status"], known[i]["status"]) << known[i]["name"];
        if (known[i]["status"] != "optimal") continue;
        const double objective = known[i]["objective"];
        EXPECT_NEAR(results[i]["objective"], objective, 1e-9 * std::abs(objective));
        EXPECT_EQ(results[i]["choice"].size(), known[i]["layers"]);
    }
}

TEST_F(PlanInstance, OneInstanceIsSolvedAndWritten) {
    const json instance = golden_instances().at("instances").at(0);
    write("one.json", instance.dump());
    const Call call = run("plan --instance one.json --out result.json");
    EXPECT_EQ(call.exit_code, 0) << call.err;
    EXPECT_NE(call.out.find("optimal"), std::string::npos) << call.out;
    const json result = json::parse(read_file(path("result.json")));
    EXPECT_EQ(result["status"], "optimal");
    EXPECT_EQ(result["choice"].size(), 8u);
    EXPECT_NEAR(result["objective"], instance["objective"], 1e-12);
}

TEST_F(PlanInstance, BadFilesAreExitThree) {
    expect_error(run("plan --instance missing.json"), 3, "missing.json");
    write("empty.json", "");
    expect_error(run("plan --instance empty.json"), 3, "empty.json");
    json instance = golden_instances().at("instances").at(0);
    instance["cost"][0].push_back(1.0);
    write("ragged.json", instance.dump());
    expect_error(run("plan --instance ragged.json"), 3, "cost");
    expect_error(run("plan --instance ragged.json --seconds 0"), 2, "--seconds");
}

}  // namespace
}  // namespace subbyte::testing
