// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/distillation/student_suite.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

class DistillationSuite : public StudentSuite {};

TEST_P(DistillationSuite, PartsTogetherAreTheDefinition) {
  for (int trial = 0; trial < 36; ++trial) {
    const Case drawn = Draw(trial);
    const int64_t k = RandomSize(1, drawn.vocab);
    const std::vector<float> log_probs = RandomNormal(drawn.rows * k, 1.5f);
    std::vector<int32_t> ids;
    for (int64_t row = 0; row < drawn.rows; ++row) {
      std::vector<int32_t> all(static_cast<size_t>(drawn.vocab));
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random());
      ids.insert(ids.end(), all.begin(), all.begin() + k);
    }
    const auto divergence = [&](int64_t row, const std::vector<double>& log_q) {
      const std::vector<double> log_p =
          LogSoftmax(Slice(log_probs, row * k, k), static_cast<double>(drawn.options.temperature));
      double kl = 0;
      for (size_t j = 0; j < log_p.size(); ++j) {
        const auto token = static_cast<size_t>(ids[static_cast<size_t>(row * k) + j]);
        kl += std::exp(log_p[j]) * (log_p[j] - log_q[token]);
      }
      return kl;
    };
    const TeacherArgs teacher = {UploadTokens({drawn.rows, k}, ids),
                                 Upload({drawn.rows, k}, log_probs), 0, drawn.options};
    const auto set_teacher = [&](auto& args, int64_t begin, int64_t) {
      args.teacher = teacher;
      args.teacher.first = begin;
    };
    ExpectTheDefinition(drawn, kDistillStatistics, divergence, set_teacher,
                        &kernels::DistillStatistics, &kernels::DistillGradient);
  }
}

TEST_P(DistillationSuite, RefusesWrongArguments) {
  DistillStatisticsArgs args;
  args.teacher = {UploadTokens({2, 3}, {0, 1, 2, 0, 1, 2}), Upload({2, 3}, RandomNormal(6)), 0, {}};
  args.logits = Upload({2, 5}, RandomNormal(10));
  args.count = 5;
  args.targets = UploadTokens({2}, {0, 1});
  args.statistics = Unwritten({2, kDistillStatistics});
  DistillStatisticsArgs wrong = args;
  wrong.teacher.log_probs = Upload({2, 2}, RandomNormal(4));
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"DistillStatistics", "log_probs"});
  wrong = args;
  wrong.teacher.options.temperature = 0;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"temperature", "above 0"});
  wrong = args;
  wrong.teacher.options.alpha = 1.5f;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"alpha", "0 to 1"});
  wrong = args;
  wrong.count = 6;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"count", "a part of 5"});
}

INSTANTIATE_TEST_SUITE_P(Devices, DistillationSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
