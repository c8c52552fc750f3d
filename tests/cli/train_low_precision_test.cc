// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs of the trainer program on English text in fp16, and with traffic in int8.

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

Flags OnText(const fs::path& out, int steps) {
  return {"--data=LICENSE",       "--world_size=2",
          "--batch_size=2",       "--seq_len=64",
          "--warmup_steps=10",    "--sample_tokens=0",
          "--log_every=1",        "--steps=" + std::to_string(steps),
          "--out=" + out.string()};
}

std::vector<nlohmann::json> Steps(const fs::path& out) {
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : Metrics(out)) {
    if (line.contains("loss")) steps.push_back(line);
  }
  return steps;
}

nlohmann::json Summary(const fs::path& out) { return Metrics(out).back()["summary"]; }

double MeanLoss(const std::vector<nlohmann::json>& steps, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += steps[i]["loss"].get<double>();
  return sum / static_cast<double>(end - begin);
}

// The scale doubles after every two good steps, until gradients overflow: this only costs steps,
// which are announced and counted.
TEST(TrainLowPrecisionTest, Fp16LearnsTextAndAnnouncesOverflows) {
  constexpr int kSteps = 100;
  const fs::path plain_out = Scratch() / "fp32";
  const Outcome plain = RunTrainer(OnText(plain_out, kSteps));
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  const fs::path out = Scratch() / "fp16";
  const Outcome run =
      RunTrainer(With(OnText(out, kSteps), {"--param_dtype=fp16", "--reduce_dtype=fp16",
                                            "--loss_scale_growth_interval=2"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::vector<nlohmann::json> steps = Steps(out);
  ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(steps[0]["loss_scale"], 65536);
  EXPECT_EQ(steps[2]["loss_scale"], 131072);
  // Every skipped step halves the scale for the next, and no other does.
  int64_t skipped = 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    const double before = steps[i - 1]["loss_scale"].get<double>();
    const double after = steps[i]["loss_scale"].get<double>();
    const int64_t now = steps[i - 1].value("skipped_steps", int64_t{0});
    EXPECT_EQ(after<before, now> skipped) << "step " << i;
    if (after < before) {
      EXPECT_EQ(after, before / 2) << "step " << i;
    }
    skipped = now;
  }
  skipped = steps.back().value("skipped_steps", int64_t{0});
  EXPECT_GT(skipped, 0) << "nothing has overflowed";
  EXPECT_LT(skipped, kSteps / 2);
  EXPECT_EQ(Summary(out)["skipped_steps"], skipped);
  EXPECT_NE(run.output.find("skipped: gradients overflow at loss scale "), std::string::npos)
      << run.output;
  // It learns as fp32 does, a few steps later.
  const std::vector<nlohmann::json> reference = Steps(plain_out);
  const double first = MeanLoss(reference, 0, 5);
  const double last = MeanLoss(reference, kSteps - 10, kSteps);
  EXPECT_NEAR(MeanLoss(steps, 0, 5), first, 0.01 * first);
  EXPECT_LT(last, 0.6 * first);
  EXPECT_NEAR(MeanLoss(steps, kSteps - 10, kSteps), last, 0.1 * (first - last));
}

// Scales are computed just in time, so checkpoints do not hold them.
TEST(TrainLowPrecisionTest, Fp8LearnsTextAndGoesOnWithTheSameBits) {
  constexpr int kSteps = 40;
  const fs::path plain_out = Scratch() / "bf16";
  const Outcome plain = RunTrainer(With(OnText(plain_out, kSteps), {"--param_dtype=bf16"}));
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  const Flags fp8 = {"--param_dtype=bf16", "--fp8=tensorwise", "--checkpoint_every=20",
                     "--keep_last=0"};
  const fs::path out = Scratch() / "fp8";
  const Outcome run = RunTrainer(With(OnText(out, kSteps), fp8));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("fp8       16 of 16 linear layers, scales tensorwise\n"),
            std::string::npos)
      << run.output;
  const std::vector<nlohmann::json> steps = Steps(out);
  const std::vector<nlohmann::json> reference = Steps(plain_out);
  ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
  EXPECT_NE(steps[1]["loss"], reference[1]["loss"]) << "nothing was multiplied in 8 bits";
  const double first = MeanLoss(reference, 0, 5);
  const double last = MeanLoss(reference, kSteps - 10, kSteps);
  EXPECT_LT(last, 0.7 * first);
  EXPECT_NEAR(MeanLoss(steps, kSteps - 10, kSteps), last, 0.02 * (first - last));

  const fs::path again = Scratch() / "again";
  const Outcome resumed = RunTrainer(
      With(OnText(again, kSteps), With(fp8, {"--resume=" + (out / "step-00000020").string()})));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(Read(again / "final" / "model.safetensors"), Read(out / "final" / "model.safetensors"));
}

TEST(TrainLowPrecisionTest, UnsupportedPrecisionIsRefusedBeforeAnythingIsBuilt) {
  const Outcome tf32 = RunTrainer(With(OnText(Scratch() / "tf32", 1), {"--fp32_precision=tf32"}));
  EXPECT_NE(tf32.exit_code, 0);
  EXPECT_NE(tf32.errors.find("--device=cpu: fp32_precision = tf32: devices of type 'cpu' have no "
                             "TF32; expected ieee"),
            std::string::npos)
      << tf32.errors;
  EXPECT_FALSE(fs::exists(Scratch() / "tf32"));
}

TEST(TrainLowPrecisionTest, QuantizedTrafficIsWhatTheFlagsSay) {
  const auto collectives = [](const char* name, const Flags& flags) {
    const fs::path out = Scratch() / name;
    const Outcome run = RunTrainer(With(OnText(out, 3), flags));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return Summary(out)["collectives"];
  };
  const auto bytes = [](const nlohmann::json& counts, const char* op) {
    return counts[op]["bytes"].get<int64_t>();
  };
  const nlohmann::json plain = collectives("plain", {});
  const nlohmann::json weights = collectives("weights", {"--quantized_weights"});
  const nlohmann::json gradients = collectives("gradients", {"--quantized_gradients"});
  EXPECT_EQ(bytes(plain, "all_to_all"), 0);
  EXPECT_LT(bytes(weights, "all_gather"), 0.4 * static_cast<double>(bytes(plain, "all_gather")));
  EXPECT_EQ(weights["reduce_scatter"], plain["reduce_scatter"]);
  EXPECT_EQ(weights["all_to_all"], plain["all_to_all"]);
  EXPECT_EQ(gradients["all_gather"], plain["all_gather"]);
  EXPECT_EQ(bytes(gradients, "reduce_scatter"), 0);
  EXPECT_EQ(gradients["all_to_all"]["calls"], plain["reduce_scatter"]["calls"]);
  const double ratio = static_cast<double>(bytes(gradients, "all_to_all")) /
                       static_cast<double>(bytes(plain, "reduce_scatter"));
  EXPECT_NEAR(ratio, (1 + 4.0 / 256) / 4, 1e-3);
}

}  // namespace
}  // namespace zeroth::testing
