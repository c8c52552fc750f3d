// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "zeroth/kernels/distillation/student_suite.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

class DivergenceSuite : public StudentSuite {};

TEST_P(DivergenceSuite, PartsTogetherAreTheDefinition) {
  for (int trial = 0; trial < 72; ++trial) {
    Case drawn = Draw(trial);
    const bool is_reverse = RandomSize(0, 1) == 1;
    drawn.options.divergence = is_reverse ? Divergence::kReverse : Divergence::kForward;
    const std::vector<float> teacher = RandomNormal(drawn.rows * drawn.vocab, 1.5f);
    const auto divergence = [&](int64_t row, std::vector<double> log_q) {
      std::vector<double> log_p = LogSoftmax(Slice(teacher, row * drawn.vocab, drawn.vocab),
                                             static_cast<double>(drawn.options.temperature));
      if (is_reverse) std::swap(log_p, log_q);
      double kl = 0;
      for (size_t i = 0; i < log_p.size(); ++i) kl += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
      return kl;
    };
    const auto set_teacher = [&](auto& args, int64_t begin, int64_t count) {
      args.options = drawn.options;
      args.teacher = Upload(
          {drawn.rows, count + drawn.padding},
          PaddedColumns(teacher, drawn.rows, drawn.vocab, begin, count, drawn.padding, -50.0f));
    };
    ExpectTheDefinition(drawn, kDivergenceStatistics, divergence, set_teacher,
                        &kernels::DivergenceStatistics, &kernels::DivergenceGradient);
  }
}

TEST_P(DivergenceSuite, RefusesWrongArguments) {
  DivergenceStatisticsArgs args;
  args.teacher = Upload({2, 5}, RandomNormal(10));
  args.logits = Upload({2, 5}, RandomNormal(10));
  args.count = 5;
  args.targets = UploadTokens({2}, {0, 1});
  args.statistics = Unwritten({2, kDivergenceStatistics});
  DivergenceStatisticsArgs wrong = args;
  wrong.teacher = Upload({2, 4}, RandomNormal(8));
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong),
                {"DivergenceStatistics", "teacher", "[2, 5]"});
  wrong = args;
  wrong.options.temperature = 0;
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong), {"temperature", "above 0"});
  wrong = args;
  wrong.count = 6;
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong), {"count", "a part of 5"});
}

INSTANTIATE_TEST_SUITE_P(Devices, DivergenceSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
