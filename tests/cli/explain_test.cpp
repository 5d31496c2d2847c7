// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Machine profiles, pipeline stages and the explanations of `subbyte inspect plan` and `stats`.
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using nlohmann::json;

class Explain : public Program {
protected:
    // Statistics of a run of three blocks, in s.json.
    void measure() {
        write("run.toml", tiny_config() +
                              "[train]\nsteps = 4\nbatch_size = 4\nseq_len = 32\n"
                              "eval_batches = 1\n");
        const Call trained = run("train run.toml --set run.dir=r");
        ASSERT_EQ(trained.exit_code, 0) << trained.err;
        const Call planned =
            run("plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32"
                " --batches 1 --target 0.5 --out plan.json --save-stats s.json");
        ASSERT_EQ(planned.exit_code, 0) << planned.err;
    }
};

TEST_F(Explain, ProfilesAreMeasuredReadAndTiedToTheirMachine) {
    const std::string quick = " --seconds 0 --rounds 1 --threads 1";
    const Call call =
        run("bench --profile p.json --shapes 64x32x48,64x32x32 --recipes fp4" + quick);
    ASSERT_EQ(call.exit_code, 0) << call.err;
    EXPECT_NE(call.out.find("64 x 32 x 48"), std::string::npos) << call.out;
    json profile = json::parse(read_file(path("p.json")));
    ASSERT_EQ(profile["entries"].size(), 4u);
    EXPECT_EQ(profile["entries"][0]["recipe"], "bf16");
    for (const json& entry : profile["entries"]) {
        for (const char* slot : {"fprop", "dgrad", "wgrad"}) {
            for (const char* part : {"product", "quantise_a", "quantise_b"}) {
                EXPECT_GT(entry["seconds"][slot][part].get<double>(), 0) << slot << part;
            }
        }
    }
    // Bytes as held: BF16 two per number of W, W^T and X^T; FP4 half of one, and its scales.
    EXPECT_EQ(profile["entries"][0]["weight_bytes"], 2 * 2 * 32 * 48);
    EXPECT_EQ(profile["entries"][0]["activation_bytes"], 2 * 64 * 32);
    EXPECT_EQ(profile["entries"][1]["weight_bytes"], 32 * 48 + 2 * 4);
    EXPECT_EQ(profile["entries"][1]["activation_bytes"], 64 * 32 / 2 + 4 * 32);

    const std::string plan =
        "plan llama-9m --method layer-id --options bf16,fp4 --target 0"
        " --efficiency seconds --set run.threads=1";
    const Call used = run(plan + " --profile p.json --json");
    ASSERT_EQ(used.exit_code, 0) << used.err;
    const json planned = used.json();
    EXPECT_EQ(planned["efficiency"], "seconds");
    EXPECT_EQ(planned["times"].size(), 2u * 7);
    EXPECT_FALSE(planned["times"][0]["measured"].get<bool>());
    EXPECT_NE(planned["notes"].dump().find("interpolated"), std::string::npos);
    EXPECT_EQ(run("inspect p.json --json").json()["kind"], "machine-profile");

    expect_error(run(plan), 2, "needs a machine profile");
    expect_error(run("plan llama-9m --set run.threads=2 --efficiency seconds --profile p.json"), 2,
                 "measured with threads 1, here it is 2");
    profile["cpu"] = "another processor";
    write("q.json", profile.dump());
    expect_error(run(plan + " --profile q.json"), 2, "another processor");
    EXPECT_EQ(run(plan + " --profile q.json --foreign-profile").exit_code, 0);
    expect_error(run("plan llama-9m --options int8,fp4 --efficiency seconds --profile q.json"
                     " --foreign-profile"),
                 2, "'int8'");
    profile.erase("cpu");
    write("q.json", profile.dump());
    expect_error(run(plan + " --profile q.json"), 3, "cpu");
    expect_error(run(plan + " --profile nowhere.json"), 3, "nowhere.json");
    expect_error(run("plan llama-9m --foreign-profile"), 2, "--profile");
}

TEST_F(Explain, ProfilesThatCannotBeMeasuredAreRefused) {
    expect_error(run("bench --profile p.json gemm"), 2, "another benchmark");
    expect_error(run("bench --shapes 8x8x8"), 2, "--profile");
    expect_error(run("bench --profile p.json --shapes 8x8"), 3, "8x8");
    expect_error(run("bench --profile p.json --shapes 8x0x8"), 2, "K is 0");
    expect_error(run("bench --profile p.json --shapes 8x8x8 --recipes fp5"), 2, "fp5");
    expect_error(run("bench --profile no/such/p.json --shapes 8x8x8 --rounds 1 --seconds 0"), 3,
                 "no/such");
    EXPECT_EQ(file_count(), 0u);
}

TEST_F(Explain, StagesAndCandidatesOfAConfiguration) {
    const json balanced = run("plan llama-9m --stages 3 --json").json();
    ASSERT_EQ(balanced["stages"].size(), 3u);
    double flops = 0;
    for (const json& stage : balanced["stages"]) {
        flops += stage["flops_share"].get<double>();
        EXPECT_GE(stage["reached"].get<double>(), stage["target"].get<double>() * (1 - 1e-9));
    }
    EXPECT_NEAR(flops, 1, 1e-9);
    const json given = run("plan llama-9m --stage-starts 0,1,7 --json").json();
    EXPECT_EQ(given["stages"][1]["first_block"], 1);
    EXPECT_EQ(given["stages"][1]["last_block"], 6);
    expect_error(run("plan llama-9m --stage-starts 0,9"), 2, "block 9 of 8");
    expect_error(run("plan llama-9m --stage-starts 1,4"), 2, "block 1 of 8");

    const json head = run("plan llama-9m --include lm_head --method uniform --json").json();
    EXPECT_EQ(head["plan"]["layers"]["lm_head"], "fp4");
    const json some =
        run("plan llama-9m --exclude '*.down_proj,*.0.*' --method uniform --json").json();
    EXPECT_EQ(some["plan"]["layers"].size(), 7u * 6);
    expect_error(run("plan llama-9m --include model.embed_tokens"), 2, "no GEMM");
    expect_error(run("plan llama-9m --exclude '*.down'"), 2, "matches no layer");
    expect_error(run("plan llama-9m --coupled q_proj"), 2, "one name alone");
    expect_error(run("plan llama-9m --granularity layer --coupled dgrad+wgrad"), 2,
                 "granularity gemm");
    expect_error(run("plan llama-9m --granularity gem"), 2, "gem");
    const json all = run("plan llama-9m --exclude '*' --json").json();
    EXPECT_TRUE(all["plan"]["layers"].empty());
}

TEST_F(Explain, PlansAndStatisticsAreExplained) {
    measure();
    const json stats = run("inspect stats s.json --json").json();
    EXPECT_EQ(stats["layers"].size(), 3u * 7);
    EXPECT_EQ(stats["types"].size(), 7u);
    const json& first = stats["layers"][0]["recipes"][0];
    EXPECT_EQ(first["recipe"], "fp4");
    EXPECT_GT(first["x_error"].get<double>(), 0.05);
    EXPECT_LT(first["x_error"].get<double>(), 0.25);
    const json one = run("inspect stats s.json --layer '*.1.mlp.up_proj' --json").json();
    ASSERT_EQ(one["layers"].size(), 1u);
    EXPECT_NE(run("inspect stats s.json").out.find("model.layers.2.mlp.down_proj"),
              std::string::npos);

    const json plan = run("inspect plan plan.json --stats s.json --json").json();
    ASSERT_EQ(plan["units"].size(), 3u * 7 * 3);  // GEMMs
    EXPECT_NEAR(plan["objective"], plan["best_objective"], 1e-6 * plan["objective"].get<double>());
    int moves = 0;
    for (const json& unit : plan["units"]) {
        for (const json& option : unit["options"]) {
            if (option["recipe"] == unit["planned"]) {
                EXPECT_EQ(option["flip"], 0.0);
            } else {
                moves += option["flip"].is_number();
            }
        }
    }
    EXPECT_GT(moves, 0);
    const Call text = run("inspect plan plan.json --stats s.json --layer '*.0.*'");
    ASSERT_EQ(text.exit_code, 0) << text.err;
    EXPECT_NE(text.out.find("if it cost"), std::string::npos) << text.out;
    EXPECT_EQ(text.out.find("model.layers.1."), std::string::npos) << text.out;
    EXPECT_NE(run("inspect plan plan.json").out.find("down_proj"), std::string::npos);

    // Per GEMM, coupled, in stages, saving bytes.
    const json fine = run("plan --from-stats s.json --granularity gemm --target 0.4 --stages 3"
                          " --coupled gate_proj+up_proj --out fine.json --json")
                          .json()["plans"][0];
    EXPECT_EQ(fine["stages"].size(), 3u);
    const json explained =
        run("inspect plan fine.json --stats s.json --stages 3 --target 0.4 --granularity gemm"
            " --coupled gate_proj+up_proj --layer '*.up_proj' --json")
            .json();
    EXPECT_EQ(explained["units"].size(), 3u * 3);
    EXPECT_EQ(run("plan --from-stats s.json --efficiency bytes --options bf16,fp8,fp4").exit_code,
              0);

    // A large model by the statistics of this small one.
    expect_error(run("plan llama-9m --from-stats s.json"), 2, "no statistics of layer");
    const Call large = run("plan llama-9m --from-stats s.json --stretch --target 0.5 --json");
    ASSERT_EQ(large.exit_code, 0) << large.err;
    EXPECT_EQ(large.json()["plan"]["method"], "snip");
    EXPECT_NE(large.json()["notes"].dump().find("assumed"), std::string::npos);

    expect_error(run("inspect plan plan.json --layer x"), 2, "--stats");
    expect_error(run("inspect plan plan.json --stats s.json --layer x"), 2, "matches no layer");
    expect_error(run("inspect stats s.json --layer x"), 2, "matches no layer");
    expect_error(run("inspect stats s.json --options int8"), 2, "'int8'");
    expect_error(run("inspect plan plan.json --stats plan.json"), 3, "statistics");
    expect_error(run("inspect plan s.json"), 3, "plan");
    expect_error(run("inspect plan nowhere.json"), 3, "nowhere.json");
    expect_error(run("inspect plan"), 2, "FILE");
    write("other.json",
          R"({"version": 1, "method": "given", "fallback": "bf16", "layers": {"fc": "fp4"}})");
    expect_error(run("inspect plan other.json --stats s.json"), 3, "fc");
}

TEST_F(Explain, ATrainingPlansPerGemmAndByMeasuredSeconds) {
    measure();
    const std::string train =
        "train run.toml --set run.threads=1 --set precision.recipe=snip --set train.steps=6"
        " --set precision.snip.update_interval=2 --set precision.snip.swap_delay=1"
        " --set precision.snip.warmup_steps=1 --set precision.snip.freeze_fraction=0"
        " --set precision.snip.target=0.5 --set precision.snip.granularity=gemm"
        " --set 'precision.snip.coupled=[\"gate_proj+up_proj\"]'";
    const Call trained = run(train + " --set run.dir=g");
    ASSERT_EQ(trained.exit_code, 0) << trained.err << trained.out;
    const json layers = json::parse(read_file(path("g/summary.json")))["plan"]["layers"];
    int mixed = 0;
    for (const auto& [name, recipes] : layers.items()) mixed += recipes.is_object();
    EXPECT_GT(mixed, 0);
    for (const std::string block : {"0", "1", "2"}) {
        const std::string mlp = "model.layers." + block + ".mlp.";
        EXPECT_EQ(layers[mlp + "gate_proj"], layers[mlp + "up_proj"]);
    }
    const std::string seconds = train + " --set precision.snip.efficiency=seconds --set run.dir=s";
    expect_error(run(seconds), 2, "precision.snip.profile");
    ASSERT_EQ(run("bench --profile p.json --shapes run.toml --threads 1 --rounds 1 --seconds 0")
                  .exit_code,
              0);
    const Call timed = run(seconds + " --set precision.snip.profile=p.json");
    EXPECT_EQ(timed.exit_code, 0) << timed.err;
    expect_error(run(seconds + " --set precision.snip.profile=p.json --set run.threads=2"), 2,
                 "threads");
}

}  // namespace
}  // namespace subbyte::testing
