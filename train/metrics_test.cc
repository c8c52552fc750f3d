// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/metrics.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

TEST(MetricsTest, NumbersReadBackAsTheyWere) {
  const std::string path = testing::TempDir() + "/metrics.jsonl";
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<StepMetrics> written;
  for (int i = 0; i < 200; ++i) {
    StepMetrics metrics;
    metrics.step = i + 1;
    metrics.loss = std::nextafter(5.0f + 0.37f * static_cast<float>(i), 10.0f);
    metrics.grad_norm = std::exp(0.1 * i) / 3.0;
    metrics.lr = 1e-3 / (i + 1);
    metrics.tokens_per_second = 1e5 / 7.0 * (i + 1);
    metrics.wall_seconds = 0.3 * i;
    metrics.tokens = int64_t{4096} * i;
    metrics.data_seconds = 1e-4 / (i + 1);
    metrics.memory_peak_bytes = int64_t{1} << (i % 60);
    metrics.skipped_steps = i % 2;
    if (i % 3 == 0) metrics.loss_scale = 1024.0 * i;
    if (i % 2 == 0) metrics.communication_seconds = 1e-3 / (i + 1);
    if (i % 5 == 0) metrics.gemm_utilization = 0.7 / (i + 1);
    if (i % 7 == 0) metrics.mfu = 0.3 / (i + 1);
    if (i % 4 == 0) metrics.late = Straggler{2, i, i + 1, 0.1, 0.2 / (i + 1), 0.3};
    ASSERT_TRUE(writer->Write(metrics).ok());
    written.push_back(metrics);
  }
  ASSERT_TRUE(writer->WriteSummary({{"steps", 200}}).ok());
  std::ifstream file(path);
  std::string line;
  for (const StepMetrics& metrics : written) {
    ASSERT_TRUE(std::getline(file, line));
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(json["step"], metrics.step);
    EXPECT_EQ(std::stof(json["loss"].dump()), metrics.loss);
    EXPECT_EQ(json["grad_norm"].get<double>(), metrics.grad_norm);
    EXPECT_EQ(json["lr"].get<double>(), metrics.lr);
    EXPECT_EQ(json["tokens_per_second"].get<double>(), metrics.tokens_per_second);
    EXPECT_EQ(json["wall_seconds"].get<double>(), metrics.wall_seconds);
    EXPECT_EQ(json["tokens"], metrics.tokens);
    EXPECT_EQ(json["data_seconds"].get<double>(), metrics.data_seconds);
    EXPECT_EQ(json["memory_peak_bytes"], metrics.memory_peak_bytes);
    EXPECT_EQ(json.value("skipped_steps", int64_t{0}), metrics.skipped_steps);
    EXPECT_EQ(json.contains("loss_scale"), metrics.loss_scale.has_value());
    if (metrics.loss_scale.has_value()) {
      EXPECT_EQ(json["loss_scale"].get<double>(), *metrics.loss_scale);
    }
    const std::vector<std::pair<const char*, std::optional<double>>> optional = {
        {"communication_seconds", metrics.communication_seconds},
        {"gemm_utilization", metrics.gemm_utilization},
        {"mfu", metrics.mfu}};
    for (const auto& [key, value] : optional) {
      ASSERT_EQ(json.contains(key), value.has_value()) << key;
      if (value.has_value()) {
        EXPECT_EQ(json[key].get<double>(), *value) << key;
      }
    }
    ASSERT_EQ(json.contains("late"), metrics.late.has_value());
    if (metrics.late.has_value()) {
      EXPECT_EQ(json["late"]["rank"], 2);
      EXPECT_EQ(json["late"]["since_step"], metrics.late->since);
      EXPECT_EQ(json["late"]["until_step"], metrics.late->until);
      EXPECT_EQ(json["late"]["mean_seconds"].get<double>(), metrics.late->mean_seconds);
      EXPECT_EQ(json["late"]["worst_seconds"].get<double>(), 0.3);
    }
  }
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["summary"]["steps"], 200);
}

// A resumed run must know whether the run before it was ended between a step and its evaluation.
TEST(MetricsTest, AResumedFileSaysWhetherItsLastStepWasEvaluated) {
  const std::string path = testing::TempDir() + "/evaluated.jsonl";
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t step = 1; step <= 3; ++step) {
    StepMetrics metrics;
    metrics.step = step;
    ASSERT_TRUE(writer->Write(metrics).ok());
    if (step == 2) {
      ASSERT_TRUE(writer->Write(EvaluationMetrics{2, 0.1f, 0.3f}).ok());
    }
  }
  ASSERT_TRUE(writer->WriteSummary({{"steps", 3}}).ok());
  EXPECT_TRUE(MetricsWriter::Resume(path, 3)->lacks_evaluation());
  EXPECT_FALSE(MetricsWriter::Resume(path, 2)->lacks_evaluation());
  std::ifstream file(path);
  std::string line;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, R"({"step": 2, "eval_loss": 0.1, "ema_eval_loss": 0.3})");
  EXPECT_FALSE(std::getline(file, line)) << line;
  // Nothing is missing in a file that this run did not begin.
  EXPECT_FALSE(MetricsWriter::Resume(path + "_new", 2)->lacks_evaluation());
}

TEST(MetricsTest, WhatIsNotFiniteIsStillJson) {
  const std::string path = testing::TempDir() + "/not_finite.jsonl";
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  StepMetrics metrics;
  metrics.loss = std::numeric_limits<float>::quiet_NaN();
  metrics.grad_norm = -std::numeric_limits<double>::infinity();
  metrics.loss_scale = std::numeric_limits<double>::infinity();
  metrics.mfu = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(writer->Write(metrics).ok());
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["loss"], "nan");
  EXPECT_EQ(json["grad_norm"], "-inf");
  EXPECT_EQ(json["loss_scale"], "inf");
  EXPECT_EQ(json["mfu"], "nan");
}

TEST(MetricsTest, APathThatCannotBeWrittenIsNamed) {
  const absl::Status status = MetricsWriter::Create("/no/such/directory/metrics.jsonl").status();
  EXPECT_NE(status.ToString().find("/no/such/directory/metrics.jsonl"), std::string::npos)
      << status;
}

TEST(MetricsTest, LinesThatCannotBeWrittenComeLater) {
  const std::string path = testing::TempDir() + "/late.jsonl";
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 150;  // a line and a half
  StepMetrics metrics;
  std::vector<absl::Status> statuses;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  for (metrics.step = 1; metrics.step <= 3; ++metrics.step) {
    statuses.push_back(writer->Write(metrics));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_NE(statuses[2].message().find(path), std::string_view::npos) << statuses[2];
  EXPECT_TRUE(writer->Write(metrics).ok());
  std::ifstream file(path);
  int64_t step = 0;
  for (std::string line; std::getline(file, line);) {
    EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
  }
  EXPECT_EQ(step, 4);
}

TEST(MetricsTest, AResumedRunWritesItsStepsAgain) {
  const std::string path = testing::TempDir() + "/resumed.jsonl";
  const auto lines = [&] {
    std::vector<std::string> all;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  };
  {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Resume(path, 3);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = 1; i <= 5; ++i) {
      StepMetrics metrics;
      metrics.step = i;
      ASSERT_TRUE(writer->Write(metrics).ok());
    }
    ASSERT_TRUE(writer->WriteSummary({{"steps", 5}}).ok());
  }
  const std::vector<std::string> before = lines();
  ASSERT_EQ(before.size(), 6u);
  {
    // A run that dies before it writes anything has lost nothing.
    EXPECT_TRUE(MetricsWriter::Resume(path, 5).ok());
    EXPECT_EQ(lines(), before);
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Resume(path, 5);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Write(EvaluationMetrics{5, 0.5f, std::nullopt}).ok());
    EXPECT_EQ(lines().size(), 7u);
    EXPECT_EQ(lines()[5], before[5]) << "until there is another one";
    ASSERT_TRUE(writer->WriteSummary(writer->earlier_summary()).ok());
    EXPECT_EQ(lines().size(), 7u);
    EXPECT_EQ(lines().back(), before.back()) << "the summary is the last line";
  }
  {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Resume(path, 5);
    ASSERT_TRUE(writer.ok()) << writer.status();
    StepMetrics metrics;
    metrics.step = 6;
    ASSERT_TRUE(writer->Write(metrics).ok());
    EXPECT_EQ(lines().size(), 7u) << "the summary of step 5 is gone";
    EXPECT_NE(lines().back().find("\"step\": 6"), std::string::npos) << lines().back();
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"lo";
  {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Resume(path, 3);
    ASSERT_TRUE(writer.ok()) << writer.status();
    StepMetrics metrics;
    metrics.step = 4;
    metrics.loss = 7;
    ASSERT_TRUE(writer->Write(metrics).ok());
  }
  const std::vector<std::string> after = lines();
  ASSERT_EQ(after.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(after[i], before[i]);
  EXPECT_NE(after[3].find("\"loss\": 7"), std::string::npos);
}

TEST(MetricsTest, ASummarysNumbersFollowTheRuleOfTheLines) {
  const std::string path = testing::TempDir() + "/summary.jsonl";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer
                  ->WriteSummary({{"loss", std::nan("")},
                                  {"losses", {1.5, kInfinity, -kInfinity}},
                                  {"late", {{"seconds", kInfinity}}}})
                  .ok());
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(
      nlohmann::json::parse(line)["summary"],
      nlohmann::json(
          {{"loss", "nan"}, {"losses", {1.5, "inf", "-inf"}}, {"late", {{"seconds", "inf"}}}}));
}

}  // namespace
}  // namespace zeroth
