// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's output: one directory for each run, the model before any optional file, and nothing
// if it only evaluates.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

void ExpectSaid(const Outcome& run, const std::string& words) {
  EXPECT_NE(run.output.find(words), std::string::npos) << words << "\nin\n" << run.output;
}

void ExpectRefused(const Outcome& run, const Flags& parts) {
  EXPECT_EQ(run.exit_code, 1) << run.output;
  for (const std::string& words : parts) {
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << "\nin\n" << run.errors;
  }
}

// Token ids below 100 in NumPy's format.
void WriteTokens(const fs::path& path) {
  std::string ids;
  for (int i = 0; i < 4000; ++i) ids += {static_cast<char>(i * i % 97), '\0'};
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (4000,), }";
  header.resize(117, ' ');
  header += '\n';
  Write(path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + ids);
}

// gpt2_tiny with the first 100 of its tokens.
void WriteSmallVocabulary(const fs::path& directory) {
  constexpr int64_t kVocabulary = 100;
  fs::create_directories(directory);
  nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/gpt2_tiny/config.json"));
  config["vocab_size"] = kVocabulary;
  Write(directory / "config.json", config.dump());
  const std::string file = Read("tests/testdata/gpt2_tiny/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
  std::string data;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    size_t bytes = end - begin;
    if (name.find("wte.weight") != std::string::npos || name == "lm_head.weight") {
      bytes = bytes / tensor["shape"][0].get<size_t>() * kVocabulary;
      tensor["shape"][0] = kVocabulary;
    }
    tensor["data_offsets"] = {data.size(), data.size() + bytes};
    data += file.substr(8 + length + begin, bytes);
  }
  const std::string text = header.dump();
  length = text.size();
  Write(directory / "model.safetensors",
        std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data);
}

TEST(TrainOutputTest, TheModelIsWrittenEvenIfTheSampleFails) {
  WriteTokens(Scratch() / "tokens.npy");
  WriteSmallVocabulary(Scratch() / "small");
  const Flags flags = {"--data=" + (Scratch() / "tokens.npy").string(),
                       "--init_from=" + (Scratch() / "small").string(), "--seq_len=16",
                       "--batch_size=1", "--steps=3"};
  // The text of these tokens is unknown.
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(With(flags, {"--sample_every=2", "--out=" + out.string()}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "tokenizer none");
  ExpectSaid(run, "samples   none");
  EXPECT_EQ(run.output.find("sample: "), std::string::npos) << run.output;
  EXPECT_TRUE(fs::exists(out / "final/model.safetensors"));
  // A tokenizer with ids beyond the model's vocabulary.
  const fs::path bytes = Scratch() / "bytes";
  const Outcome wrong =
      RunTrainer(With(flags, {"--tokenizer=byte", "--sample_every=2", "--out=" + bytes.string()}));
  EXPECT_EQ(wrong.exit_code, 0) << wrong.output;
  ExpectSaid(wrong, "warning   no sample: ");
  ExpectSaid(wrong, "vocabulary ends at 99");
  EXPECT_TRUE(Read(bytes / "final/model.safetensors") == Read(out / "final/model.safetensors"));
  EXPECT_LT(wrong.output.find("warning   no sample"), wrong.output.find("done after 3 steps"));
}

TEST(TrainOutputTest, TheModelIsThereBeforeTheLastSample) {
  const fs::path out = Scratch() / "out";
  Write(Scratch() / "text.txt", std::string(5000, 'a'));
  const Outcome run =
      RunTrainer({"--data=" + (Scratch() / "text.txt").string(), "--steps=2", "--seq_len=16",
                  "--batch_size=1", "--sample_tokens=3", "--out=" + out.string()});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "step 2  sample: The ");
  ExpectSaid(run, "model in " + (out / "final").string());
}

TEST(TrainOutputTest, EveryRunHasASeparateDirectory) {
  const fs::path home = Scratch() / "home";
  fs::create_directories(home);
  Write(home / "text.txt", std::string(5000, 'a') + "\n");
  const Flags flags = {"--data=text.txt",   "--seq_len=16", "--batch_size=1",
                       "--sample_tokens=0", "--lr=3e-5",    "--warmup_steps=0"};
  for (int i = 1; i <= 2; ++i) {
    const Outcome run = RunTrainer(With(flags, {"--steps=4", "--checkpoint_every=2"}), home);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const std::string name = "run-" + std::to_string(i);
    ExpectSaid(run, "model in zeroth_out/" + name + "/final");
    EXPECT_EQ(fs::read_symlink(home / "zeroth_out/latest"), name);
  }
  EXPECT_TRUE(fs::exists(home / "zeroth_out/run-1/final/config.json"));
  // The learning rate decays from --lr.
  const std::vector<nlohmann::json> steps = Metrics(home / "zeroth_out/latest");
  EXPECT_NEAR(steps[0]["lr"].get<double>(), 3e-5, 1e-12);
  EXPECT_LT(steps[3]["lr"].get<double>(), 2e-5);
  EXPECT_GE(steps[3]["lr"].get<double>(), 3e-6);
  // A failed start is not a run, and the latest run continues where it is.
  ExpectRefused(RunTrainer(With(flags, {"--steps=6", "--memory_limit=1KiB"}), home),
                {"memory limit"});
  EXPECT_EQ(fs::read_symlink(home / "zeroth_out/latest"), "run-2");
  const Outcome more =
      RunTrainer(With(flags, {"--steps=6", "--checkpoint_every=2", "--resume=auto"}), home);
  ASSERT_EQ(more.exit_code, 0) << more.output;
  ExpectSaid(more, "from " + (fs::canonical(home) / "zeroth_out/run-2/step-00000004").string());
  EXPECT_EQ(Metrics(home / "zeroth_out/run-2").size(), 7u);
}

TEST(TrainOutputTest, NoRunWritesIntoAnothersDirectory) {
  const fs::path out = Scratch() / "out";
  const Flags flags = With(Reference(out), {"--steps=2", "--batch_size=1"});
  ASSERT_EQ(RunTrainer(flags).exit_code, 0);
  const std::string metrics = Read(out / "metrics.jsonl");
  const std::string model = Read(out / "final/model.safetensors");
  const Flags ways = {"--out=" + out.string(), "holds what an earlier run made", "--overwrite",
                      "another directory"};
  ExpectRefused(RunTrainer(flags), With(ways, {"--resume=auto"}));
  // There is nothing to resume, and a model to lose.
  ExpectRefused(RunTrainer(With(flags, {"--resume=auto"})),
                {"--resume=auto", "no checkpoint to resume from", "--overwrite"});
  ExpectRefused(RunTrainer(With(flags, {"--init_from=" + (out / "final").string(), "--overwrite"})),
                {"--init_from=", "lies in --out", "would replace this model, which it reads"});
  EXPECT_EQ(Read(out / "metrics.jsonl"), metrics);
  EXPECT_TRUE(Read(out / "final/model.safetensors") == model);
  // Files that are not a run's are kept.
  Write(out / "notes.txt", "mine");
  fs::create_directories(out / "step-00000007");
  const Outcome again =
      RunTrainer(With(flags, {"--overwrite", "--steps=3", "--checkpoint_every=3"}));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(Metrics(out).size(), 4u);
  EXPECT_EQ(Read(out / "notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(out / "step-00000007"));
  EXPECT_TRUE(fs::exists(out / "step-00000003"));
  // Its own checkpoints do not belong to another run; those of another directory do.
  const Outcome own =
      RunTrainer(With(flags, {"--steps=4", "--resume=" + (out / "step-00000003").string()}));
  EXPECT_EQ(own.exit_code, 0) << own.output;
  const fs::path other = Scratch() / "other";
  ASSERT_EQ(RunTrainer(With(flags, {"--out=" + other.string()})).exit_code, 0);
  ExpectRefused(RunTrainer(With(flags, {"--resume=" + out.string(), "--out=" + other.string()})),
                {"holds what an earlier run made"});
}

TEST(TrainOutputTest, WithoutStepsAModelIsOnlyEvaluated) {
  const Flags evaluation = {"--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_batches=3",
                            "--world_size=2", "--batch_size=4"};
  const fs::path out = Scratch() / "out";
  ASSERT_EQ(RunTrainer(With(With(Reference(out), evaluation),
                            {"--steps=3", "--checkpoint_every=1", "--trace=2:3"}))
                .exit_code,
            0);
  const std::string metrics = Read(out / "metrics.jsonl");
  char loss[64];
  std::snprintf(loss, sizeof(loss), "evaluation loss %.4f\n",
                Metrics(out)[2]["eval_loss"].get<double>());
  const Outcome exported =
      RunTrainer(With(With(Reference(Scratch() / "nothing"), evaluation),
                      {"--steps=0", "--init_from=" + (out / "final").string()}));
  EXPECT_EQ(exported.exit_code, 0) << exported.output;
  ExpectSaid(exported, loss);
  EXPECT_FALSE(fs::exists(Scratch() / "nothing"));
  // A checkpoint in its run's directory, which does not change.
  const Outcome saved =
      RunTrainer(With(With(Reference(out), evaluation), {"--steps=0", "--resume=auto"}));
  EXPECT_EQ(saved.exit_code, 0) << saved.output;
  ExpectSaid(saved, loss);
  EXPECT_EQ(Read(out / "metrics.jsonl"), metrics);
  // With the run's own flags, and newer checkpoints than the one evaluated.
  const Outcome older = RunTrainer(
      With(With(Reference(out), evaluation),
           {"--steps=0", "--checkpoint_every=1", "--resume=" + (out / "step-00000002").string()}));
  EXPECT_EQ(older.exit_code, 0) << older.output;
  EXPECT_TRUE(fs::exists(out / "step-00000003"));
  EXPECT_TRUE(fs::exists(out / "trace.json"));
}

TEST(TrainOutputTest, ProcessesOfALauncherAreNotRunsSideBySide) {
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  const Environment torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  const auto refused = [](const Flags& more, const Environment& environment, const Flags& parts) {
    const fs::path log = Scratch() / "log";
    const fs::path out = Scratch() / "out";
    const int exit_code =
        Wait(Start(With(Reference(out), With(more, {"--steps=1"})), log, "", environment));
    ExpectRefused({exit_code, Logs(log), Read(ErrorLog(log))}, parts);
    EXPECT_FALSE(fs::exists(out));
  };
  refused({"--comm=local"}, mpirun,
          {"--comm=local", "mpirun has started 2 processes", "--comm=mpi"});
  refused({}, torchrun, {"torchrun has started 2 processes", "mpirun or srun", "--device=cuda"});
}

TEST(TrainOutputTest, ProgramsArePrintedOnRequest) {
  Write(Scratch() / "text.txt", std::string(5000, 'a'));
  const Flags flags = {"--data=" + (Scratch() / "text.txt").string(),
                       "--steps=1",
                       "--seq_len=16",
                       "--batch_size=1",
                       "--sample_tokens=0",
                       "--strategy=full_shard",
                       "--out=" + (Scratch() / "out").string()};
  const Outcome run = RunTrainer(With(flags, {"--print_programs"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  // Units of the same shape are listed once.
  ExpectSaid(run, "units transformer.h.0, transformer.h.1");
  ExpectSaid(run, "reduce  reduce_scatter gradient.0[0:");
  EXPECT_EQ(run.output.find("unit transformer."), std::string::npos) << run.output;
}

TEST(TrainOutputTest, TheVersionIsPrinted) {
  const Outcome run = RunTrainer({"--version"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "Zeroth ");
  ExpectSaid(run, "commit ");
  ExpectSaid(run, "compiler      ");
  ExpectSaid(run, "oneDNN ");
  ExpectSaid(run, "; this processor runs ");
  // NVIDIA's libraries are those of //tools/package:cuda_wheel_test; this program has none.
  EXPECT_EQ(run.output.find("cuBLASLt"), std::string::npos) << run.output;
}

}  // namespace
