// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(ProgressTest, Formats) {
  EXPECT_EQ(FormatDuration(7.4), "0:07");
  EXPECT_EQ(FormatDuration(245), "4:05");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
  EXPECT_EQ(FormatDuration(INFINITY), "?");
  EXPECT_EQ(FormatBytes(512), "0.5 KiB");
  EXPECT_EQ(FormatBytes(40 * 1024 * 1024), "40.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(FitToWidth("abcdef", 4), "abcd");
  EXPECT_EQ(FitToWidth("abcdef", 0), "abcdef");
  PreferenceStatistics pairs;
  pairs.reward_chosen = 0.5f;
  pairs.reward_rejected = 0.25f;
  pairs.accuracy = 0.75f;
  EXPECT_EQ(FormatPreference(std::nullopt), "");
  EXPECT_EQ(FormatPreference(pairs), "  margin 0.250  accuracy 0.75");
  pairs.kl = 0.0f;
  pairs.desirable = 1.0f;
  EXPECT_EQ(FormatPreference(pairs), "  accuracy 0.75") << "without undesirable answers";
}

StepMetrics Metrics(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.5f;
  metrics.grad_norm = 0.75;
  metrics.lr = 5e-4;
  metrics.tokens_per_second = 24100;
  metrics.memory_peak_bytes = 38 << 20;
  return metrics;
}

TEST(ProgressTest, ALineHasEverything) {
  ProgressOptions options;
  options.steps = 200;
  options.flops_per_token = 1e6;
  options.gemm_rate = 1e11;
  EXPECT_EQ(FormatProgress(options, Metrics(120), 31),
            "step 120/200  loss 2.5000  norm 0.750  lr 5.00e-04  24.1k tok/s  GEMM util 24%  mem "
            "38.0 MiB/rank  left 0:31");
}

std::string TextOf(std::FILE* file) {
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ProgressTest, AStepThatBeatsTheMeasuredRateRaisesIt) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressOptions options;
  options.steps = 4;
  options.log_every = 1;
  options.flops_per_token = 1e6;
  options.gemm_rate = 10e9;
  options.out = file;
  // Never shows more than 100%.
  EXPECT_THAT(FormatProgress(options, Metrics(1), 1), testing::HasSubstr("  GEMM util 100%  "));
  Progress progress(options);
  int64_t step = 0;
  for (const double tokens : {5e3, 20e3, 40e3, 10e3}) {
    StepMetrics metrics = Metrics(++step);
    metrics.tokens_per_second = tokens;
    progress.Step(metrics, 1);
  }
  progress.Finish();
  const std::string text = TextOf(file);
  std::vector<std::string> shown;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find("GEMM util ");
    if (line.substr(0, 4) == "step") shown.emplace_back(line.substr(at, line.find('%') - at + 1));
  }
  EXPECT_THAT(shown, testing::ElementsAre("GEMM util 50%", "GEMM util 100%", "GEMM util 100%",
                                          "GEMM util 25%"));
  const std::string note =
      "note      step 2 reached 20 GFLOP/s, more than the 10 measured for matmuls";
  EXPECT_THAT(text, testing::HasSubstr(note));
  EXPECT_EQ(text.find("note", text.find(note) + 1), std::string::npos) << "once is enough";
}

TEST(ProgressTest, WithoutATerminalSomeStepsAreLines) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressOptions options;
  options.steps = 25;
  options.log_every = 10;
  options.out = file;
  Progress progress(options);
  for (int64_t step = 1; step <= 25; ++step) progress.Step(Metrics(step), 1);
  progress.Print("done");
  progress.Finish();
  const std::string text = TextOf(file);
  for (const char* line : {"step 1/25", "step 10/25", "step 20/25", "step 25/25", "done\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(text.find("step 2/25"), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressTest, TheFirstStepOfAResumedRunIsALine) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressOptions options;
  options.steps = 25;
  options.log_every = 10;
  options.out = file;
  Progress progress(options);
  for (int64_t step = 14; step <= 16; ++step) progress.Step(Metrics(step), 1);
  progress.Finish();
  const std::string text = TextOf(file);
  EXPECT_NE(text.find("step 14/25"), std::string::npos) << text;
  EXPECT_EQ(text.find("step 15/25"), std::string::npos) << text;
}

// The terminal that mpirun gives its ranks.
TEST(ProgressTest, ATerminalWithoutColumnsIsNotUsedAsOne) {
  const int ours = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(ours, 0);
  ASSERT_EQ(grantpt(ours), 0);
  ASSERT_EQ(unlockpt(ours), 0);
  for (const int columns : {0, 80}) {
    ProgressOptions options;
    options.steps = 25;
    options.out = std::fopen(ptsname(ours), "w");
    ASSERT_NE(options.out, nullptr);
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    ASSERT_EQ(ioctl(fileno(options.out), TIOCSWINSZ, &size), 0);
    Progress progress(options);
    for (const int64_t step : {1, 2}) progress.Step(Metrics(step), 1);
    progress.Print("done");
    // A terminal may deliver one write in several reads.
    std::string text;
    while (text.find("done") == std::string::npos) {
      char more[4096];
      const ssize_t count = read(ours, more, sizeof(more));
      ASSERT_GT(count, 0);
      text.append(more, static_cast<size_t>(count));
    }
    EXPECT_EQ(text.find("step 2/25") != std::string::npos, columns > 0) << text;
    std::fclose(options.out);
  }
  close(ours);
}

}  // namespace
}  // namespace zeroth
