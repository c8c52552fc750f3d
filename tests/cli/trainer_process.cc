// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/cli/trainer_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "gtest/gtest.h"

namespace zeroth::testing {

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

fs::path Scratch() {
  const fs::path path = fs::path(::testing::TempDir()) /
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(path);
  return path;
}

fs::path ErrorLog(const fs::path& log) { return log.string() + ".stderr"; }

std::string Logs(const fs::path& log) { return Read(log) + Read(ErrorLog(log)); }

int Wait(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

pid_t Start(const Flags& flags, const fs::path& log, const std::string& directory,
            const Environment& environment, const std::string& program) {
  const std::string binary = fs::absolute(program).string();
  const std::string error_log = ErrorLog(log).string();
  const pid_t child = fork();
  if (child != 0) return child;
  const int out = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(open(error_log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), STDERR_FILENO);
  if (!directory.empty()) setenv("BUILD_WORKING_DIRECTORY", directory.c_str(), 1);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words = {binary};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(binary.c_str(), arguments.data());
  _exit(127);
}

Outcome RunTrainer(const Flags& flags, const std::string& directory) {
  const fs::path log = Scratch() / "log";
  const int exit_code = Wait(Start(flags, log, directory));
  return {exit_code, Logs(log), Read(ErrorLog(log))};
}

std::vector<nlohmann::json> Metrics(const fs::path& out) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(out / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    // A line may be half written while the trainer runs.
    nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) continue;
    // An evaluation follows its step on a separate line.
    const bool evaluates = json.contains("eval_loss") && !json.contains("loss");
    if (evaluates && !lines.empty() && lines.back().value("step", -1) == json["step"]) {
      lines.back().update(json);
    } else {
      lines.push_back(std::move(json));
    }
  }
  return lines;
}

std::vector<nlohmann::json> StepFacts(const fs::path& out) {
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : Metrics(out)) {
    if (!line.contains("step")) continue;
    nlohmann::json facts;
    for (const char* key : {"step", "loss", "grad_norm", "eval_loss"}) {
      if (line.contains(key)) facts[key] = line[key];
    }
    steps.push_back(std::move(facts));
  }
  return steps;
}

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
  for (const std::string& flag : more) {
    // The trainer allows one data flag only, and uses the last of any other flag.
    if (flag.starts_with("--data=")) {
      std::erase_if(flags, [](const std::string& each) { return each.starts_with("--data="); });
    }
    flags.push_back(flag);
  }
  return flags;
}

}  // namespace zeroth::testing
