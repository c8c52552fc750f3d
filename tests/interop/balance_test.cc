// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the load-balancing loss of experts with transformers. For a batch of one sequence both
// definitions agree; for several, ours is the mean of transformers' losses of each alone.

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/ops/moe.h"
#include "zeroth/nn/tape.h"
#include "zeroth/tests/interop/python.h"

namespace zeroth {
namespace {

// The script's exit code for "no such package".
constexpr int kNoPackage = 77;

struct Sizes {
  int64_t sequences = 1;
  int64_t length = 1;
  int64_t experts = 1;
  int64_t top_k = 1;
};

struct Balance {
  double loss = 0;
  std::vector<float> gradient;  // by the logits
};

class BalanceTest : public ::testing::TestWithParam<Sizes> {
 protected:
  static Balance Ours(const Sizes& sizes, const std::vector<float>& values) {
    const std::shared_ptr<Device> device = DeviceRegistry::Create("cpu", {}).value();
    const auto kernels = KernelRegistry::Create(*device, device->compute_stream()).value();
    Tape tape;
    Context context(*device, *kernels, tape);
    const auto upload = [&](const Shape& shape, const std::vector<float>& host) {
      return Tensor::FromHost<float>(*device, shape, host, MemoryCategory::kActivations).value();
    };
    const Value logits =
        context.MakeValue(upload(Shape({sizes.sequences, sizes.length, sizes.experts}), values));
    const RoutedTokens routed = RouteOp(context, logits, sizes.top_k, {.normalize = true}).value();
    context.set_extra_loss(upload(Shape({1}), {0.0f}));
    EXPECT_TRUE(BalanceOp(context, logits, routed.routing, 1.0f).ok());
    EXPECT_TRUE(tape.Backward().ok());
    return {context.extra_loss().ToHost<float>()->front(), *logits.node->grad.ToHost<float>()};
  }
};

TEST_P(BalanceTest, IsThatOfTransformersForEachSequence) {
  const Sizes& sizes = GetParam();
  const auto of_sequence = static_cast<size_t>(sizes.length * sizes.experts);
  const CounterRng rng(7, "router logits");
  std::vector<float> values(static_cast<size_t>(sizes.sequences) * of_sequence);
  rng.FillNormal(0, 2.0f, absl::MakeSpan(values));
  nlohmann::json request = nlohmann::json::array();
  for (size_t begin = 0; begin < values.size(); begin += of_sequence) {
    nlohmann::json rows = nlohmann::json::array();
    for (size_t row = begin; row < begin + of_sequence; row += static_cast<size_t>(sizes.experts)) {
      rows.push_back(
          std::vector<float>(values.begin() + static_cast<int64_t>(row),
                             values.begin() + static_cast<int64_t>(row) + sizes.experts));
    }
    request.push_back({{"logits", rows}, {"top_k", sizes.top_k}});
  }
  const TemporaryDirectory dir;
  const PythonOutcome outcome =
      RunPython("balance_with_transformers.py", {dir.Write("request.json", request.dump())});
  if (outcome.exit_code == kNoPackage) GTEST_SKIP() << HowToGetTransformers();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  const nlohmann::json cases =
      nlohmann::json::parse(outcome.output.substr(outcome.output.find("{\"cases\"")))["cases"];
  ASSERT_EQ(cases.size(), static_cast<size_t>(sizes.sequences));

  const Balance ours = Ours(sizes, values);
  const auto sequences = static_cast<double>(sizes.sequences);
  double loss = 0;
  size_t i = 0;
  for (const nlohmann::json& expected : cases) {
    loss += expected["loss"].get<double>() / sequences;
    for (const nlohmann::json& slope : expected["gradient"]) {
      EXPECT_NEAR(ours.gradient.at(i), slope.get<double>() / sequences, 1e-5) << i;
      ++i;
    }
  }
  EXPECT_EQ(i, ours.gradient.size());
  EXPECT_NEAR(ours.loss, loss, 1e-5 * loss);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BalanceTest,
                         ::testing::Values(Sizes{1, 1, 4, 2}, Sizes{1, 9, 4, 2},
                                           Sizes{1, 64, 16, 4}, Sizes{3, 33, 8, 1}));

}  // namespace
}  // namespace zeroth
