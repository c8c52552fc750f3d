// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/parity/comparison.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

// The key bias of GPT-2's attention has a true gradient of zero, since softmax does not see it;
// Adam turns the rounding noise there into steps of full size.
bool IsNoise(const std::string& name, size_t index, size_t size) {
  return absl::EndsWith(name, "c_attn.bias") && index >= size / 3 && index < 2 * (size / 3);
}

double RelativeDistance(const std::string& name, const std::vector<float>& values,
                        const std::vector<float>& reference) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (IsNoise(name, i, reference.size())) continue;
    const double r = reference[i];
    difference += (values[i] - r) * (values[i] - r);
    norm += r * r;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

void ExpectSameValues(const NamedValues& a, const NamedValues& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    const std::vector<float>& other = b.at(name);
    ASSERT_EQ(values.size(), other.size()) << name;
    EXPECT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(float)), 0) << name;
  }
}

}  // namespace

std::string TestDevice() {
  const char* device = std::getenv("ZEROTH_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

std::vector<int> WorldSizes() {
  if (RunsAreShort()) return {2};
  return TestDevice() == "cpu" ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 2, 4};
}

bool RunsAreShort() {
  return TestDevice() != "cpu" && std::getenv("ZEROTH_CUDA_EMULATION") != nullptr;
}

std::vector<RunSetup> SetupsFor(const std::string& model, int world_size,
                                const MixedPrecision& precision) {
  std::vector<RunSetup> setups;
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    RunSetup setup;
    setup.model = model;
    setup.strategy = strategy;
    setup.device = TestDevice();
    setup.precision = precision;
    if (RunsAreShort()) setup.steps = precision.computes_in_masters() ? 3 : 1;
    setup.world_size = world_size;
    setups.push_back(setup);
  }
  for (int shard_size : {1, 2, 4}) {
    if (world_size % shard_size != 0) continue;
    RunSetup setup;
    setup.model = model;
    setup.strategy = "hybrid_shard";
    setup.device = TestDevice();
    setup.precision = precision;
    if (RunsAreShort()) setup.steps = precision.computes_in_masters() ? 3 : 1;
    setup.world_size = world_size;
    setup.shard_size = shard_size;
    setups.push_back(setup);
    if (shard_size * 2 != world_size) continue;
    setup.shard_optimizer_over_world = true;
    setups.push_back(setup);
  }
  return setups;
}

const TrainingRecord& Record(const RunSetup& setup) {
  static auto* records = new std::map<std::string, TrainingRecord>;
  const std::string key = setup.ToString();
  const auto found = records->find(key);
  if (found != records->end()) return found->second;
  absl::StatusOr<TrainingRecord> record = Train(setup);
  EXPECT_TRUE(record.ok()) << record.status();
  return (*records)[key] = record.ok() ? *std::move(record) : TrainingRecord();
}

double Relative(double value, double reference) {
  return std::abs(value - reference) / std::abs(reference);
}

void ExpectClose(const NamedValues& values, const NamedValues& reference, double tolerance,
                 const char* what) {
  ASSERT_EQ(values.size(), reference.size()) << what;
  for (const auto& [name, expected] : reference) {
    const auto found = values.find(name);
    ASSERT_NE(found, values.end()) << what << " of " << name;
    ASSERT_EQ(found->second.size(), expected.size()) << what << " of " << name;
    EXPECT_LE(RelativeDistance(name, found->second, expected), tolerance) << what << " of " << name;
  }
}

void ExpectSameBits(const TrainingRecord& a, const TrainingRecord& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.grad_norms, b.grad_norms);
  ExpectSameValues(a.first_gradients, b.first_gradients);
  ExpectSameValues(a.final_weights, b.final_weights);
}

}  // namespace zeroth
