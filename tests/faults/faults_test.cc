// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Repeats a short run with checkpoints: each time another of its system calls that modify files
// below --out fails, once. Whatever fails, no completed checkpoint is lost, no run succeeds without
// its model or fails without a message, and the next one reaches the undisturbed run's bits.

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

constexpr int kSteps = 4;
constexpr char kWeights[] = "final/model.safetensors";
constexpr char kLastCheckpoint[] = "step-00000004";  // of kSteps

// A sanitizer's run-time library must be loaded first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanPreload = false;
#else
constexpr bool kCanPreload = true;
#endif

Flags Training(const fs::path& out, bool async) {
  Flags flags = {"--init_from=tests/testdata/gpt2_tiny",
                 "--data=tests/testdata/gpt2_tiny/tokens.npy",
                 "--seq_len=32",
                 "--lr=1e-2",
                 "--world_size=2",
                 "--batch_size=1",
                 "--sample_tokens=0",
                 "--threads_per_rank=1",
                 "--steps=" + std::to_string(kSteps),
                 "--checkpoint_every=1",
                 "--out=" + out.string()};
  if (async) flags.push_back("--async_checkpoint");
  return flags;
}

// A system call below --out, as logged by faults.cc.
struct Call {
  int number = 0;
  std::string name;
  int metrics_lines = 0;  // written before it
  std::string path;
};

std::vector<Call> ReadCalls(const fs::path& log) {
  std::vector<Call> calls;
  std::istringstream lines(Read(log));
  Call call;
  while (lines >> call.number >> call.name >> call.metrics_lines) {
    std::getline(lines >> std::ws, call.path);
    calls.push_back(call);
  }
  return calls;
}

struct Fault {
  int at = 0;
  std::string kind;
};

Environment Preload(const fs::path& out, const Fault& fault, const fs::path& log) {
  return {{"LD_PRELOAD", fs::absolute("tests/faults/faults.so").string()},
          {"ZEROTH_FAULT_UNDER", out.string()},
          {"ZEROTH_FAULT_AT", std::to_string(fault.at)},
          {"ZEROTH_FAULT_KIND", fault.kind},
          {"ZEROTH_FAULT_LOG", log.string()}};
}

Outcome RunWith(const Flags& flags, const Environment& environment) {
  const fs::path log = Scratch() / "log";
  const int exit_code = Wait(Start(flags, log, "", environment));
  return {exit_code, Logs(log), Read(ErrorLog(log))};
}

std::vector<nlohmann::json> Losses(const fs::path& out) {
  std::vector<nlohmann::json> losses;
  for (const nlohmann::json& line : Metrics(out)) {
    if (line.contains("step")) losses.push_back({line["step"], line["loss"], line["grad_norm"]});
  }
  return losses;
}

// The checkpoints that the run reported as complete, in this order.
std::vector<std::string> Completed(const std::string& output) {
  std::vector<std::string> names;
  const std::string words = "  checkpoint in ";
  for (size_t at = output.find(words); at != std::string::npos; at = output.find(words, at + 1)) {
    const size_t begin = at + words.size();
    names.push_back(fs::path(output.substr(begin, output.find(',', begin) - begin)).filename());
  }
  return names;
}

void ExpectCheckpoints(const fs::path& out, const std::string& output) {
  if (!fs::exists(out)) return;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().filename().string().rfind("step-", 0) != 0) continue;
    const auto reader = zeroth::CheckpointReader::Open(entry.path().string());
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const absl::Status& damage : (*reader)->Verify()) ADD_FAILURE() << damage;
  }
  // --keep_last is 2.
  const std::vector<std::string> completed = Completed(output);
  for (size_t i = completed.size() < 2 ? 0 : completed.size() - 2; i < completed.size(); ++i) {
    EXPECT_TRUE(fs::exists(out / completed[i])) << completed[i] << " is lost";
  }
}

// Whether a run may end because of it: at its start, in the last save, or in an export.
bool MayEndTheRun(const Call& call) {
  const std::string name = fs::path(call.path).filename();
  const bool is_metrics = name == "metrics.jsonl" || name.rfind("events.out.", 0) == 0;
  if (is_metrics && call.name == "write") return false;
  if (call.path.find(".deleted-") != std::string::npos) return false;
  return call.metrics_lines == 0 || call.metrics_lines >= kSteps;
}

bool Writes(const Call& call) { return call.name == "write" || call.name == "pwrite"; }

bool MayBeInterrupted(const Call& call) {
  return Writes(call) || call.name == "open" || call.name == "fsync" || call.name == "fallocate" ||
         call.name == "ftruncate";
}

// True if it ended the run.
bool Try(bool async, const Fault& fault, const fs::path& whole) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "fault";
  fs::remove_all(out);
  fs::remove(log);
  const Outcome run = RunWith(Training(out, async), Preload(out, fault, log));
  const std::vector<Call> hit = ReadCalls(log);
  // Threads are scheduled differently each time, so that a run may make a call or two less.
  const Call call = hit.empty() ? Call() : hit[0];
  SCOPED_TRACE(fault.kind + " in call " + std::to_string(fault.at) + ", " + call.name + " " +
               call.path + "\n" + run.output);
  ExpectCheckpoints(out, run.output);
  if (run.exit_code == 0) {
    EXPECT_TRUE(Read(out / kWeights) == Read(whole / kWeights)) << "without its model";
    EXPECT_TRUE(fs::exists(out / kLastCheckpoint)) << "without its last checkpoint";
    return false;
  }
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.errors.find("error: "), std::string::npos);
  EXPECT_FALSE(hit.empty());
  EXPECT_NE(fault.kind, "SHORT");
  // Another call than intended may have failed.
  EXPECT_FALSE(fault.kind == "EINTR" && MayBeInterrupted(call));
  EXPECT_TRUE(MayEndTheRun(call)) << "training could have gone on";
  const Outcome rest = RunWith(With(Training(out, async), {"--resume=auto"}), {});
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(Read(out / kWeights) == Read(whole / kWeights)) << "other bits";
  EXPECT_EQ(Losses(out), Losses(whole));
  return true;
}

// Tries one of `slices` equal parts of all pairs of a place and a kind. Returns how many it tried.
size_t TryAll(bool async, size_t slices) {
  const fs::path whole = Scratch() / "whole";
  const fs::path calls_log = Scratch() / "calls";
  const Outcome undisturbed = RunWith(Training(whole, async), Preload(whole, {}, calls_log));
  EXPECT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
  EXPECT_FALSE(Read(whole / kWeights).empty());
  EXPECT_TRUE(fs::exists(whole / kLastCheckpoint));
  std::vector<Fault> faults;
  for (const Call& call : ReadCalls(calls_log)) {
    for (const char* kind : {"EIO", "ENOSPC"}) faults.push_back({call.number, kind});
    if (MayBeInterrupted(call)) faults.push_back({call.number, "EINTR"});
    if (Writes(call)) faults.push_back({call.number, "SHORT"});
  }
  size_t tried = 0;
  size_t ended = 0;
  for (size_t i = slices / 2; i < faults.size(); i += slices) {
    ++tried;
    ended += Try(async, faults[i], whole) ? 1 : 0;
    if (testing::Test::HasFatalFailure()) break;
  }
  std::cout << tried << " of " << faults.size() << " faults, of which " << ended
            << " ended their run\n";
  return tried;
}

// A spread of about twenty faults each.
TEST(FaultsTest, SomeFaultsCostNoMoreThanTheyMust) {
  if (!kCanPreload) GTEST_SKIP() << "a sanitizer is linked in";
  EXPECT_GE(TryAll(false, 31), 20u);
}

TEST(FaultsTest, SomeFaultsInTheBackgroundCostNoMoreThanTheyMust) {
  if (!kCanPreload) GTEST_SKIP() << "a sanitizer is linked in";
  EXPECT_GE(TryAll(true, 31), 20u);
}

TEST(FaultsTest, NightlyEveryFault) {
  if (!kCanPreload) GTEST_SKIP() << "a sanitizer is linked in";
  EXPECT_GE(TryAll(false, 1), 500u);
}

TEST(FaultsTest, NightlyEveryFaultInTheBackground) {
  if (!kCanPreload) GTEST_SKIP() << "a sanitizer is linked in";
  EXPECT_GE(TryAll(true, 1), 500u);
}

}  // namespace
