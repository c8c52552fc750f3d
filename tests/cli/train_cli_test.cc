// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer as its users meet it: a process with flags, files and exit codes.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace {

namespace fs = std::filesystem;

using Flags = std::vector<std::string>;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A fresh directory for the test that runs.
fs::path Scratch() {
  const fs::path path =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(path);
  return path;
}

pid_t Start(const Flags& flags, const fs::path& log, const std::string& directory = "") {
  const std::string binary = fs::absolute("train/train").string();
  const pid_t child = fork();
  if (child != 0) return child;
  const int out = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (!directory.empty()) setenv("BUILD_WORKING_DIRECTORY", directory.c_str(), 1);
  std::vector<std::string> words = {binary};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(binary.c_str(), arguments.data());
  _exit(127);
}

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome RunTrainer(const Flags& flags, const std::string& directory = "") {
  const fs::path log = Scratch() / "log";
  const pid_t child = Start(flags, log, directory);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read(log)};
}

std::vector<nlohmann::json> Metrics(const fs::path& out) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(out / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    // A line may be half written while the trainer runs.
    nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded()) lines.push_back(std::move(json));
  }
  return lines;
}

// The run that tests/testdata/gpt2_tiny records.
Flags Reference(const fs::path& out) {
  return {"--init_from=tests/testdata/gpt2_tiny",
          "--data=tests/testdata/gpt2_tiny/tokens.npy",
          "--seq_len=32",
          "--shuffle=false",
          "--lr_schedule=constant",
          "--lr=1e-3",
          "--warmup_steps=0",
          "--steps=20",
          "--sample_tokens=0",
          "--out=" + out.string()};
}

Flags With(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(TrainCliTest, FollowsTheReferenceAndExportsWhatLoadsAgain) {
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(With(Reference(out), {"--world_size=2", "--batch_size=4"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json expected =
      nlohmann::json::parse(Read("tests/testdata/gpt2_tiny/expected.json"));
  const std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_EQ(lines.size(), 21u);
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_EQ(lines[step]["step"], step + 1);
    const double loss = expected["loss"][step];
    EXPECT_LE(std::abs(lines[step]["loss"].get<double>() - loss), 2e-5 * loss) << step;
    for (const char* key : {"grad_norm", "lr", "tokens_per_second", "memory_peak_bytes"}) {
      EXPECT_TRUE(lines[step].contains(key)) << key;
    }
  }
  EXPECT_EQ(lines[20]["summary"]["steps"], 20);
  EXPECT_EQ(lines[20]["summary"]["interrupted"], false);

  const fs::path again = Scratch() / "again";
  const Outcome copy = RunTrainer(
      {"--init_from=" + (out / "final").string(), "--data=tests/testdata/gpt2_tiny/tokens.npy",
       "--seq_len=32", "--shuffle=false", "--steps=0", "--world_size=3", "--batch_size=1",
       "--sample_tokens=0", "--out=" + again.string()});
  ASSERT_EQ(copy.exit_code, 0) << copy.output;
  EXPECT_EQ(Read(again / "final/model.safetensors"), Read(out / "final/model.safetensors"));
}

TEST(TrainCliTest, StrategiesWriteTheSameModel) {
  std::string weights;
  std::vector<nlohmann::json> losses;
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    const fs::path out = Scratch() / strategy;
    Flags flags = With(Reference(out),
                       {"--world_size=4", "--batch_size=2", std::string("--strategy=") + strategy});
    if (std::string(strategy) == "hybrid_shard") flags.push_back("--shard_size=2");
    const Outcome run = RunTrainer(flags);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    std::vector<nlohmann::json> mine;
    for (const nlohmann::json& line : Metrics(out)) {
      if (line.contains("loss")) mine.push_back({line["loss"], line["grad_norm"]});
    }
    const std::string model = Read(out / "final/model.safetensors");
    ASSERT_FALSE(model.empty());
    if (weights.empty()) {
      weights = model;
      losses = mine;
    }
    EXPECT_EQ(model, weights) << strategy;
    EXPECT_EQ(mine, losses) << strategy;
  }
}

TEST(TrainCliTest, RelativePathsMeanWhereTheUserStands) {
  const fs::path home = Scratch() / "home";
  fs::create_directories(home);
  Write(home / "text.txt", std::string(5000, 'a') + "\n");
  const Outcome run = RunTrainer({"--data=text.txt", "--steps=2", "--seq_len=16", "--batch_size=1",
                                  "--sample_tokens=4", "--out=mine"},
                                 home.string());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(fs::exists(home / "mine/final/config.json"));
  EXPECT_TRUE(fs::exists(home / "mine/metrics.jsonl"));
}

TEST(TrainCliTest, AnInterruptEndsAfterTheStepAndSaves) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  Write(Scratch() / "text.txt", std::string(5000, 'b'));
  const pid_t child = Start({"--data=" + (Scratch() / "text.txt").string(), "--steps=1000000",
                             "--seq_len=16", "--batch_size=1", "--out=" + out.string()},
                            log);
  int status = 0;
  // The test's own time limit is what ends a trainer that never gets there.
  while (Metrics(out).size() < 3 && waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(child, SIGINT);
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << Read(log);
  const std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_TRUE(lines.back().contains("summary")) << Read(log);
  EXPECT_EQ(lines.back()["summary"]["interrupted"], true);
  EXPECT_TRUE(fs::exists(out / "final/model.safetensors"));
  EXPECT_NE(Read(log).find("interrupted after"), std::string::npos) << Read(log);
}

struct Refusal {
  std::string name;
  Flags flags;
  Flags message;  // parts of it
};

class TrainCliErrorTest : public testing::TestWithParam<Refusal> {};

TEST_P(TrainCliErrorTest, SaysWhatIsWrongAndFails) {
  const fs::path scratch = fs::path(testing::TempDir()) / ("error_" + GetParam().name);
  fs::remove_all(scratch);
  fs::create_directories(scratch);
  Write(scratch / "text.txt", std::string(4000, 'c'));
  Write(scratch / "short.txt", "short");
  Write(scratch / "empty.txt", "");
  Flags flags;
  for (std::string flag : GetParam().flags) {
    const size_t at = flag.find("SCRATCH");
    if (at != std::string::npos) flag.replace(at, 7, scratch.string());
    flags.push_back(flag);
  }
  for (const char* model : {"truncated", "overlap", "lying", "bert"}) {
    fs::create_directories(scratch / model);
    fs::copy_file("tests/testdata/gpt2_tiny/config.json", scratch / model / "config.json");
    Write(scratch / model / "model.safetensors",
          Read("tests/testdata/gpt2_tiny/model.safetensors"));
  }
  const std::string whole = Read(scratch / "lying/model.safetensors");
  Write(scratch / "truncated/model.safetensors", whole.substr(0, whole.size() / 2));
  const auto with_header = [](const std::string& header) {
    uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(32, '\0');
  };
  Write(
      scratch / "overlap/model.safetensors",
      with_header(
          R"({"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})"));
  Write(scratch / "lying/model.safetensors",
        with_header(R"({"a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,32]}})"));
  nlohmann::json config = nlohmann::json::parse(Read(scratch / "bert/config.json"));
  config["model_type"] = "bert";
  fs::remove(scratch / "bert/config.json");
  Write(scratch / "bert/config.json", config.dump());

  const Outcome run = RunTrainer(flags);
  EXPECT_NE(run.exit_code, 0) << run.output;
  EXPECT_NE(run.exit_code, -1) << "ended by a signal: " << run.output;
  for (const std::string& part : GetParam().message) {
    EXPECT_NE(run.output.find(part), std::string::npos)
        << "expected '" << part << "' in: " << run.output;
  }
}

const char kText[] = "--data=SCRATCH/text.txt";
const char kOut[] = "--out=SCRATCH/out";

INSTANTIATE_TEST_SUITE_P(
    Refusals, TrainCliErrorTest,
    testing::Values(
        Refusal{"strategy",
                {kText, kOut, "--strategy=zero9"},
                {"unknown sharding strategy 'zero9'", "full_shard", "hybrid_shard"}},
        Refusal{"world_size", {kText, kOut, "--world_size=0"}, {"--world_size=0", "at least 1"}},
        Refusal{"shard_size",
                {kText, kOut, "--strategy=hybrid_shard", "--world_size=4", "--shard_size=3"},
                {"shard size 3", "world size 4", "1, 2, 4"}},
        Refusal{"no_data", {kOut}, {"--data is missing"}},
        Refusal{"absent_data", {"--data=SCRATCH/nothing.txt", kOut}, {"nothing.txt"}},
        Refusal{"empty_data", {"--data=SCRATCH/empty.txt", kOut}, {"empty.txt"}},
        Refusal{"short_data", {"--data=SCRATCH/short.txt", kOut}, {"short.txt", "129"}},
        Refusal{"truncated",
                {kText, kOut, "--init_from=SCRATCH/truncated"},
                {"truncated/model.safetensors"}},
        Refusal{"overlap",
                {kText, kOut, "--init_from=SCRATCH/overlap"},
                {"overlap/model.safetensors", "overlap"}},
        Refusal{"lying",
                {kText, kOut, "--init_from=SCRATCH/lying"},
                {"lying/model.safetensors", "1000000"}},
        Refusal{
            "architecture", {kText, kOut, "--init_from=SCRATCH/bert"}, {"'bert'", "gpt2", "llama"}},
        Refusal{"unwritable", {kText, "--out=SCRATCH/text.txt/out"}, {"--out=", "text.txt/out"}},
        Refusal{"flag", {kText, kOut, "--no_such_flag"}, {"no_such_flag"}},
        Refusal{"number", {kText, kOut, "--lr=fast"}, {"lr"}},
        Refusal{"argument", {kText, kOut, "stray"}, {"'stray'"}},
        Refusal{"model", {kText, kOut, "--model=gpt9"}, {"'gpt9'", "gpt2_124m", "llama_8b"}},
        Refusal{"two_models",
                {kText, kOut, "--model=gpt2_nano", "--init_from=tests/testdata/gpt2_tiny"},
                {"--model", "--init_from"}},
        Refusal{"positions", {kText, kOut, "--seq_len=4000"}, {"--seq_len=4000", "256"}},
        Refusal{"schedule", {kText, kOut, "--lr_schedule=step"}, {"'step'", "cosine"}},
        Refusal{"device", {kText, kOut, "--device=tpu"}, {"tpu", "cpu"}},
        Refusal{"comm", {kText, kOut, "--comm=pigeon"}, {"pigeon", "local"}}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
