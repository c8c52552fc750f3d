// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/progress.h"

#include <cmath>
#include <cstdio>
#include <string>

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
  options.gemm_peak_flops = 1e11;
  EXPECT_EQ(FormatProgress(options, Metrics(120), 31),
            "step 120/200  loss 2.5000  norm 0.750  lr 5.00e-04  24.1k tok/s  MFU 24%  mem 38.0 "
            "MiB/rank  left 0:31");
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
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  for (const char* line : {"step 1/25", "step 10/25", "step 20/25", "step 25/25", "done\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(text.find("step 2/25"), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

}  // namespace
}  // namespace zeroth
