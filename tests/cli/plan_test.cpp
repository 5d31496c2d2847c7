// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// `subbyte plan` from a configuration and from a checkpoint of a tiny run, and `subbyte inspect` of
// that run.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using nlohmann::json;

class PlanVerb : public Program {
protected:
    // A run of 6 steps with at least 2 plans.
    void train_tiny_run(const std::string& dir, const std::string& extra = "") {
        write("run.toml",
              tiny_config() +
                  "[train]\nsteps = 6\nbatch_size = 4\nseq_len = 32\n"
                  "eval_every = 3\neval_batches = 1\n"
                  "[precision]\nrecipe = \"snip\"\n"
                  "[precision.snip]\ntarget = 0.5\nupdate_interval = 2\nswap_delay = 1\n"
                  "warmup_steps = 1\nfreeze_fraction = 0.0\n"
                  "[checkpoint]\nevery = 3\n");
        const Call call = run("train run.toml --set run.dir=" + dir + " " + extra);
        ASSERT_EQ(call.exit_code, 0) << call.err << call.out;
    }
};

std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(PlanVerb, SeventyBillionParametersFromTheConfigurationAlone) {
    const auto start = std::chrono::steady_clock::now();
    const Call call = run("plan llama-70b --stages 8 --out plan.json");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    RecordProperty("seconds", std::to_string(seconds.count()));
    ASSERT_EQ(call.exit_code, 0) << call.err;
    for (const char* part : {"68.98B parameters", "down_proj", "modelled speed", "Pipeline stages",
                             "Plan by layer-type", "method snip needs statistics"}) {
        EXPECT_NE(call.out.find(part), std::string::npos) << part << "\n" << call.out;
    }
    const json plan = json::parse(read_file(path("plan.json")));
    EXPECT_EQ(plan["layers"].size(), 80u * 7);

    const json described = run("plan llama-70b --stages 8 --json").json();
    EXPECT_EQ(described["plan"], plan);
    EXPECT_EQ(described["costs"]["plan"]["stages"].size(), 8u);
    EXPECT_GT(described["costs"]["fp4"]["speedup"], described["costs"]["fp8"]["speedup"]);
}

TEST_F(PlanVerb, TimeSavedIsCalledByItsName) {
    const std::string arguments =
        "plan llama-9m --set precision.snip.efficiency=time-saved"
        " --set 'precision.snip.options=[\"bf16\", \"fp8\", \"fp4\"]'"
        " --set precision.snip.method=layer-id";
    const Call call = run(arguments);
    ASSERT_EQ(call.exit_code, 0) << call.err;
    EXPECT_NE(call.out.find("time-saved 3"), std::string::npos) << call.out;
    EXPECT_EQ(run(arguments + " --json").json()["efficiency"], "time-saved");
}

TEST_F(PlanVerb, OptionsOfTheSolverChangeThePlanOfAConfiguration) {
    const json plain = run("plan llama-9m --json").json();
    const json asked =
        run("plan llama-9m --target 0.9 --method random --seed 3 --options mxfp8,mxfp4"
            " --efficiency time-saved --json")
            .json();
    const json set =
        run("plan llama-9m --set precision.snip.target=0.9 --set precision.snip.max_target=1"
            " --set precision.snip.method=random --set run.seed=3"
            " --set 'precision.snip.options=[\"mxfp8\", \"mxfp4\"]'"
            " --set precision.snip.efficiency=time-saved --json")
            .json();
    EXPECT_EQ(asked, set);
    EXPECT_EQ(asked["target"], 0.9);
    EXPECT_EQ(asked["plan"]["method"], "random");
    EXPECT_NE(asked["plan"], plain["plan"]);
}

TEST_F(PlanVerb, OptionsThatWouldChangeNothingAreRefused) {
    for (const std::string option :
         {"--probes none", "--batch-size 4", "--seq-len 32", "--batches 2", "--save-stats s.json",
          "--estimator first-order", "--loss-weight 2", "--weight-weight 2", "--squared false",
          "--layers", "--seconds 1"}) {
        expect_error(run("plan llama-9m " + option), 2, option.substr(0, option.find(' ')));
        expect_error(run("plan llama-9m " + option), 2, "model folder with --data");
    }
    expect_error(run("plan llama-9m --target 0.3,0.5"), 2, "several targets");
    expect_error(run("plan llama-9m --method uniform,random"), 2, "several targets or methods");
    write("plan.json", R"({"version": 1, "method": "given", "fallback": "bf16", "layers": {}})");
    expect_error(run("plan llama-9m --set precision.plan=plan.json --target 0.5"), 2,
                 "precision.plan");

    expect_error(run("plan . --data x.txt --set run.seed=1"), 2, "--set means nothing");
    expect_error(run("plan . --data x.txt --from-stats s.json --probes none"), 2, "--probes");
    expect_error(run("plan . --from-stats s.json"), 2, "there is no --data");
    expect_error(run("plan --from-stats s.json --data x.txt"), 2, "--data needs a model folder");
    expect_error(run("plan --from-stats s.json --stretch"), 2, "--stretch means nothing");
    expect_error(run("plan llama-9m --stages 2 --stage-starts 0,4"), 2, "--stage");
    expect_error(run("plan llama-9m --from-stats s.json --layers"), 2, "--layers means nothing");
    expect_error(run("plan llama-9m --instance x.json"), 2, "MODEL means nothing");
    expect_error(run("plan --instance x.json --target 0.5"), 2, "--target means nothing");
    EXPECT_EQ(file_count(), 1u);
}

TEST_F(PlanVerb, MisuseIsExitTwoAndMissingFilesAreExitThree) {
    expect_error(run("plan"), 2, "something to plan for");
    expect_error(run("plan llama-9m --stages 9"), 2, "9 pipeline stages for 8 blocks");
    expect_error(run("plan llama-9m --data x.txt"), 2, "--data needs a model folder");
    expect_error(run("plan ."), 2, "there is no --data");
    expect_error(run("plan . --data x.txt"), 3, "config.json");
    expect_error(run("plan --from-stats nowhere.json"), 3, "nowhere.json");
    expect_error(run("plan --from-stats nowhere.json --method magic"), 2, "magic");
    expect_error(run("plan --from-stats nowhere.json --target 1.5"), 2, "1.5");
    expect_error(run("plan llama-9m --out no/such/folder/plan.json"), 3, "no/such/folder");
    EXPECT_EQ(file_count(), 0u);
}

TEST_F(PlanVerb, CheckpointIsMeasuredAndSolvedAgainFromItsStatistics) {
    train_tiny_run("r");
    const std::string solve = " --target 0.5 --method snip,uniform,random --layers --json";
    const Call call =
        run("plan r/checkpoints/step_00000006 --data text.txt --batch-size 4 --seq-len 32"
            " --batches 2 --out plan.json --save-stats stats.json" +
            solve);
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const json result = call.json();
    EXPECT_EQ(result["step"], 6);
    EXPECT_EQ(result["probe_passes"], 3);
    EXPECT_EQ(result["notes"].size(), 0u) << result["notes"];  // the optimizer came with it
    ASSERT_EQ(result["plans"].size(), 3u);
    EXPECT_GE(result["plans"][0]["reached"].get<double>(), 0.5 * (1 - 1e-9));
    EXPECT_EQ(result["plans"][1]["fp4_share"], 1.0);
    // Brute force over all plans is not at hand here, but no other plan may be predicted better at
    // the same target.
    EXPECT_LE(result["plans"][0]["predicted"], result["plans"][2]["predicted"]);
    EXPECT_LE(result["plans"][0]["predicted"], result["plans"][1]["predicted"]);
    EXPECT_EQ(result["divergences"].size(), 3u * 7);
    for (const json& plan : result["plans"]) {
        EXPECT_NEAR(plan["loss"], result["evaluation"]["bf16_loss"], 0.5);
        EXPECT_DOUBLE_EQ(plan["loss_gap"], plan["loss"].get<double>() -
                                               result["evaluation"]["bf16_loss"].get<double>());
        // What the plan does to the measured batch, and its prediction.
        EXPECT_GT(plan["realised_weight"], 0);
        EXPECT_NEAR(
            plan["weight_factor"],
            plan["realised_weight"].get<double>() / plan["predicted_plan_weight"].get<double>(),
            1e-9);
        EXPECT_LE(plan["predicted_plan_weight"], plan["predicted_weight"]);
    }
    EXPECT_EQ(json::parse(read_file(path("plan.json"))), result["plans"][0]["plan"]);

    const json again = run("plan --from-stats stats.json" + solve).json();
    ASSERT_EQ(again["plans"].size(), 3u);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(again["plans"][i]["plan"], result["plans"][i]["plan"]);
    EXPECT_EQ(again["divergences"], result["divergences"]);

    // A plan that the solver had no time for is not a plan of zero loss.
    const std::string no_time =
        " --batch-size 4 --seq-len 32 --batches 2 --from-stats stats.json"
        " --method uniform,snip --seconds 1e-9";
    const Call late = run("plan r/checkpoints/latest --data text.txt" + no_time);
    ASSERT_EQ(late.exit_code, 0) << late.err;
    EXPECT_EQ(late.out.find("0.0000"), std::string::npos) << late.out;
    EXPECT_EQ(late.out.find("-100"), std::string::npos) << late.out;
    const json missing =
        run("plan r/checkpoints/latest --data text.txt --json" + no_time).json()["plans"];
    EXPECT_TRUE(missing[0]["loss"].is_number());
    for (const char* number : {"loss", "loss_gap", "reached", "fp4_share", "plan"}) {
        EXPECT_TRUE(missing[1][number].is_null()) << number;
    }

    json other = json::parse(read_file(path("stats.json")));
    other["layers"][4]["in_features"] = 31;
    write("other.json", other.dump());
    expect_error(run("plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32"
                     " --from-stats other.json"),
                 3, "linear layer 4 is 'model.layers.0.mlp.gate_proj' of 64 x 31");

    // The head, when it is asked for: measured, planned, and run as planned.
    const json head = run("plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32"
                          " --batches 2 --include lm_head --target 1 --layers --json")
                          .json();
    EXPECT_EQ(head["divergences"].size(), 3u * 7 + 1);
    EXPECT_GT(head["divergences"].back()["fp4"]["loss"], 0);
    EXPECT_EQ(head["plans"][0]["plan"]["layers"]["lm_head"], "fp4");
    EXPECT_NE(head["plans"][0]["loss"], result["plans"][1]["loss"]);

    const Call text = run("plan --from-stats stats.json --layers");
    EXPECT_NE(text.out.find("model.layers.2.mlp.down_proj"), std::string::npos) << text.out;

    // The plan trains, and a copy of the model without optimizer state plans too.
    EXPECT_EQ(run("train run.toml --set run.dir=p --set precision.plan=plan.json").exit_code, 0);
    std::filesystem::create_directory(path("model"));
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.txt"}) {
        std::filesystem::copy_file(path("r/checkpoints/step_00000006") / name,
                                   path("model") / name);
    }
    const Call fresh = run("plan model --data text.txt --batch-size 4 --seq-len 32 --probes none");
    ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
    EXPECT_NE(fresh.out.find("no optimizer state in the folder"), std::string::npos) << fresh.out;
    expect_error(run("plan model --data text.txt --seq-len 64"), 2, "sequence length 64");
    expect_error(run("plan model --data text.txt --batch-size 9999 --seq-len 32"), 3,
                 "a batch needs 9999");
}

TEST_F(PlanVerb, PlansAreBetteredByTheLossOfTheMeasuredBatches) {
    train_tiny_run("r");
    const std::string plan =
        "plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32 --batches 2"
        " --measure-batches 2 --target 0.5 --granularity layer --json --methods ";
    const json solved = run(plan + "fisher --save-stats stats.json").json()["plans"][0];
    EXPECT_FALSE(solved.contains("evaluations"));
    const std::string better = plan + "fisher --from-stats stats.json --remeasure 2 --refine 12";
    const json refined = run(better).json()["plans"][0];
    EXPECT_EQ(refined["method"], "fisher");
    EXPECT_GE(refined["reached"].get<double>(), 0.5 * (1 - 1e-9));
    EXPECT_GE(refined["evaluations"], 12);
    EXPECT_LE(refined["evaluations"], 12 + 3);
    EXPECT_GE(refined["remeasured"], 1);
    EXPECT_GT(refined["accepted"], 0) << refined;
    EXPECT_LT(refined["measured_loss"], refined["measured_loss_solved"]);
    EXPECT_NE(refined["plan"], solved["plan"]);

    // Evaluated on the very text that was measured, the loss is the one the search saw.
    const json same = run(better + " --eval-data text.txt --loss-only").json()["plans"][0];
    EXPECT_FALSE(same.contains("realised_loss"));
    EXPECT_TRUE(refined.contains("realised_loss"));
    EXPECT_EQ(same["plan"], refined["plan"]);
    EXPECT_DOUBLE_EQ(same["loss"], same["measured_loss"]);

    expect_error(run(plan + "uniform,random --refine 3"), 2, "--refine");
    expect_error(run("plan llama-9m --refine 3"), 2, "--refine means nothing");
}

// One recipe per GEMM: the loss judges fprop, and the rest follows under the same target.
TEST_F(PlanVerb, PlansPerGemmAreBetteredByFpropAlone) {
    train_tiny_run("r");
    const std::string plan =
        "plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32 --batches 2"
        " --measure-batches 2 --granularity gemm --loss-only --json --methods ";
    const std::string file = " --save-stats stats.json", again = " --from-stats stats.json";
    const json solved = run(plan + "snip --targets 0.8" + file).json()["plans"][0];
    for (const char* method : {"snip", "min-abs-err", "fisher"}) {
        const std::string stats = std::string(method) == "fisher" ? "" : again;
        const json refined =
            run(plan + method + " --targets 0.8 --refine 20 --eval-data text.txt" + stats)
                .json()["plans"][0];
        EXPECT_GE(refined["reached"].get<double>(), 0.8 * (1 - 1e-9));
        EXPECT_LE(refined["measured_loss"], refined["measured_loss_solved"]) << method;
        EXPECT_DOUBLE_EQ(refined["loss"], refined["measured_loss"]);
        EXPECT_GT(refined["unseen_damage_solved"], 0);
        EXPECT_LE(refined["measured_loss"].get<double>() + refined["unseen_damage"].get<double>(),
                  refined["measured_loss_solved"].get<double>() +
                      refined["unseen_damage_solved"].get<double>());
        EXPECT_GE(refined["evaluations"], 10) << refined;
    }
    // While dgrad and wgrad carry the target, there is nothing for the loss to judge: it is said.
    const json low = run(plan + "fisher --targets 0.3 --refine 20").json()["plans"][0];
    EXPECT_EQ(low["evaluations"], 2);
    EXPECT_NE(low["notes"].dump().find("no search by the loss"), std::string::npos) << low["notes"];
    const json around = run(plan + "snip --targets 0.8 --remeasure 1" + again).json()["plans"][0];
    EXPECT_EQ(around["remeasured"], 1);
    EXPECT_LE(around["measured_loss"], around["measured_loss_solved"]);
    EXPECT_GE(around["reached"].get<double>(), 0.8 * (1 - 1e-9));
}

// Output errors by labels drawn from the model, as a training with labels = "sampled" measures
// them.
TEST_F(PlanVerb, LabelsAreThoseOfTheDataOrDrawnFromTheModel) {
    train_tiny_run("r");
    const std::string plan =
        "plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32 --batches 2"
        " --loss-only --json --method ";
    const auto statistics = [&](const std::string& more, const std::string& file) {
        const json result = run(plan + "fisher --probes none --save-stats " + file + more).json();
        EXPECT_EQ(result["plans"].size(), 1u);
        return json::parse(read_file(path(file)));
    };
    const json data = statistics("", "data.json"), same = statistics(" --labels data", "same.json"),
               drawn = statistics(" --labels sampled", "drawn.json"),
               again = statistics(" --labels sampled", "again.json"),
               other = statistics(" --labels sampled --seed 5", "other.json");
    EXPECT_EQ(data, same);
    EXPECT_EQ(drawn, again);
    EXPECT_NE(drawn, other);
    for (std::size_t l = 0; l < data["layers"].size(); ++l) {
        if (!data["layers"][l]["candidate"].get<bool>()) continue;
        const json &a = data["layers"][l]["errors"]["fp4"],
                   &b = drawn["layers"][l]["errors"]["fp4"];
        EXPECT_EQ(a["ex"], b["ex"]);
        ASSERT_TRUE(b.contains("output")) << b;
        EXPECT_NE(a["output"], b["output"]);
    }
    expect_error(run(plan + "snip --labels sampled"), 2, "--labels sampled means nothing");
    expect_error(run(plan + "fisher --labels sampled --from-stats data.json"), 2,
                 "--labels means nothing");
    expect_error(run("plan llama-9m --labels sampled"), 2, "--labels means nothing");
}

// Finer FP4 blocks as options: measured, planned, evaluated, trained with, read back.
TEST_F(PlanVerb, VariantsOfRecipesAreOptionsLikeOthers) {
    train_tiny_run("r");
    const json result = run("plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32"
                            " --batches 2 --probes none --options fp8,fp4,fp4.w=1x16"
                            " --target 0.9 --layers --save-stats s.json --out p.json --json")
                            .json();
    double coarse = 0, fine = 0;
    for (const json& layer : result["divergences"]) {
        coarse += layer["fp4"]["loss"].get<double>();
        fine += layer["fp4.w=1x16"]["loss"].get<double>();
    }
    EXPECT_LT(fine, coarse);
    EXPECT_GE(result["plans"][0]["fp4_share"], 0.9);
    // Both save the same, so coarse blocks are never worth it where a product reads W.
    int chosen = 0;
    for (const auto& [name, slots] : result["plans"][0]["plan"]["layers"].items()) {
        const json& fprop = slots.is_object() ? slots["fprop"] : slots;
        EXPECT_NE(fprop, "fp4") << name;
        chosen += fprop == "fp4.w=1x16";
    }
    EXPECT_GT(chosen, 0);
    for (const std::string& verb :
         {std::string("plan --from-stats s.json --options fp8,fp4.w=1x16"),
          std::string("inspect plan p.json --stats s.json"),
          std::string("eval r/checkpoints/latest --data text.txt --seq-len 32 --plan p.json"),
          std::string("eval r/checkpoints/latest --data text.txt --seq-len 32 --recipe fp4.w=1x16"),
          std::string("train run.toml --set run.dir=given --set precision.plan=p.json"),
          std::string("train run.toml --set run.dir=snip --set "
                      "'precision.snip.options=[\"fp8\",\"fp4.w=e2m1:1x32:e8m0/rceil\"]'")}) {
        const Call call = run(verb);
        EXPECT_EQ(call.exit_code, 0) << verb << "\n" << call.err;
    }
    EXPECT_NE(read_file(path("snip/summary.json")).find("fp4.w=e2m1:1x32:e8m0/rceil"),
              std::string::npos);
    expect_error(run("plan llama-9m --options fp8,fp4.w=1y16"), 2, "fp4.w=1y16");
    expect_error(run("plan llama-9m --options fp8,fp4,fp4.w=128x128"), 2, "are the same");
}

TEST_F(PlanVerb, EstimatorsAreComparedWithBruteForce) {
    train_tiny_run("r");
    const std::string compare =
        "plan r/checkpoints/latest --data text.txt --batch-size 4 --seq-len 32 --batches 2"
        " --options fp4 --compare-estimators";
    const json result = run(compare + " --json").json();
    EXPECT_EQ(result["brute_force"]["passes"], 2 * (1 + 3 * 7));
    std::vector<std::string> names;
    for (const json& row : result["estimators"]) {
        names.push_back(row["estimator"]);
        const json& quality = row["recipes"]["fp4"]["quality"];
        EXPECT_LE(std::abs(quality["rank"].get<double>()), 1.0);
        if (row["probes"] == "layer") {
            EXPECT_GT(row["recipes"]["fp4"]["weight"]["rank"], 0.5) << row;
            EXPECT_EQ(row["passes"], 1 + 2 * 3 * 7) << row;
        }
    }
    for (const char* name : {"norm-only", "first-order", "second-order", "gradient-output",
                             "fisher", "hessian-trace", "taylor", "min-abs-err", "min-rel-err"}) {
        EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
    }
    EXPECT_EQ(result["brute_force"]["layers"].size(), 3u * 7);
    const Call text = run(compare);
    EXPECT_NE(text.out.find("half the brute force"), std::string::npos) << text.out;
    expect_error(run("plan r/checkpoints/latest --compare-estimators"), 2, "there is no --data");
    expect_error(run(compare + " --target 0.5"), 2, "--target means nothing");
}

TEST_F(PlanVerb, ACheckpointKeepsTheRulesOfItsRunAndIsVerified) {
    train_tiny_run("r",
                   "--set 'precision.rule=[{match = \"*.down_proj\", recipe = \"fp8\"},"
                   "{match = \"model.layers.1.*\", recipe = \"bf16\", slot = \"wgrad\"}]'");
    const std::string measure = " --data text.txt --batch-size 4 --seq-len 32 --probes none";
    const json result = run("plan r/checkpoints/latest" + measure +
                            " --method uniform,snip"
                            " --save-stats s.json --json")
                            .json();
    const json statistics = json::parse(read_file(path("s.json")));
    for (const json& layer : statistics["layers"]) {
        const std::string name = layer["name"];
        const bool pinned = name.ends_with(".down_proj");
        EXPECT_EQ(layer["candidate"], !pinned && name != "lm_head") << name;
        EXPECT_EQ(result["plans"][0]["plan"]["layers"].contains(name),
                  layer["candidate"].get<bool>())
            << name;
        if (pinned || !name.starts_with("model.layers.1.")) continue;
        EXPECT_EQ(layer["pinned"], json({"", "", "bf16"})) << name;
        EXPECT_EQ(result["plans"][0]["plan"]["layers"][name]["wgrad"], "bf16") << name;
    }
    // The measured loss is that of the model with its pinned layers, not of BF16 everywhere.
    std::filesystem::remove(path("r/config.resolved.toml"));
    const json free = run("plan r/checkpoints/latest" + measure + " --json").json();
    EXPECT_NE(free["loss"], result["loss"]);

    // A flipped bit in the weights is found by every verb that reads a checkpoint.
    const std::string file = "r/checkpoints/step_00000006/model.safetensors";
    std::string bytes = read_file(path(file));
    bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
    write(file, bytes);
    for (const std::string& verb : {"plan r/checkpoints/latest" + measure,
                                    std::string("eval r/checkpoints/latest --data text.txt"),
                                    std::string("generate r/checkpoints/latest --prompt line")}) {
        expect_error(run(verb), 3, "model.safetensors");
    }
}

TEST_F(PlanVerb, ShardsAndCheckpointsOfARunAreInspected) {
    train_tiny_run("r");
    const json checkpoint = run("inspect r/checkpoints/step_00000006 --json").json();
    EXPECT_EQ(checkpoint["kind"], "checkpoint");
    EXPECT_EQ(checkpoint["step"], 6);
    std::map<std::string, std::uintmax_t> sizes;
    for (const json& file : checkpoint["files"]) sizes[file["name"]] = file["bytes"];
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "trainer_state.json",
                             "precision.json", "config.json", "tokenizer.txt"}) {
        EXPECT_EQ(sizes[name],
                  std::filesystem::file_size(path("r/checkpoints/step_00000006") / name))
            << name;
    }
    EXPECT_NE(run("inspect r/checkpoints/latest").out.find("model.safetensors"), std::string::npos);

    int shards = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path(".cache"))) {
        if (entry.path().extension() != ".sbtk") continue;
        ++shards;
        const json shard = run("inspect '" + entry.path().string() + "' --json").json();
        EXPECT_EQ(shard["kind"], "tokens");
        EXPECT_GT(shard["ids"], 1000);
        EXPECT_EQ(shard["vocabulary"], 258);
        EXPECT_EQ(shard["first_ids"].size(), 16u);
        if (entry.path().filename() == "train.sbtk") {
            // "line 0 ..." in the tokenizer's bytes
            EXPECT_EQ(shard["first_ids"][1].get<int>() - shard["first_ids"][0].get<int>(),
                      'i' - 'l');
        }
    }
    EXPECT_EQ(shards, 2);
}

TEST_F(PlanVerb, RunsAreInspectedAloneAndSideBySide) {
    train_tiny_run("r");
    train_tiny_run("b", "--set precision.recipe=bf16");
    const Call call = run("inspect r");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    EXPECT_LE(lines(call.out), 40u) << call.out;
    for (const char* part : {"finished at step 6 of 6", "\nValidation loss\n", "\nPlan in force\n",
                             "\nHow often it changed\n", "\nSNIP overhead\n", "\nFiles\n",
                             "down_proj", "with a plan every 500 steps", "summary.json"}) {
        EXPECT_NE(call.out.find(part), std::string::npos) << part << "\n" << call.out;
    }
    const json view = run("inspect r --json").json();
    EXPECT_EQ(view["state"], "finished");
    EXPECT_EQ(view["evaluations"].size(), 2u);
    EXPECT_EQ(view["planning"]["interval"], 2);
    EXPECT_EQ(view["plans"].size(), view["planning"]["updates"]);
    EXPECT_GE(view["plans"].size(), 2u);

    const Call both = run("inspect r --against b");
    ASSERT_EQ(both.exit_code, 0) << both.err;
    EXPECT_NE(both.out.find("validation loss"), std::string::npos) << both.out;
    const json compared = run("inspect r --against b --json").json();
    EXPECT_EQ(compared["comparison"][0]["first"], view["validation_loss"]);
    EXPECT_EQ(compared["second"]["planning"]["updates"], 0);

    // Killed while writing: a notice. No log: an error.
    const std::string log = read_file(path("r/log.jsonl"));
    write("r/log.jsonl", log.substr(0, log.size() - 20));
    std::filesystem::remove(path("r/summary.json"));
    const Call torn = run("inspect r");
    EXPECT_EQ(torn.exit_code, 0) << torn.err;
    EXPECT_NE(torn.out.find("not complete"), std::string::npos) << torn.out;
    EXPECT_NE(torn.out.find("down_proj"), std::string::npos) << torn.out;
    std::filesystem::remove(path("r/log.jsonl"));
    expect_error(run("inspect r"), 3, "no log.jsonl");
    expect_error(run("inspect b --against nowhere"), 3, "nowhere: no such folder");
}

}  // namespace
}  // namespace subbyte::testing
