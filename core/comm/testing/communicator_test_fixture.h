// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Real ranks for the tests of communicator_test_suite.h. Ranks may be processes, so a test passes
// data between ranks only by collectives. Every rank knows what all ranks send, by seed, and checks
// by itself what it receives.

#pragma once

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::testing {

// A back end under test, by its name and its device's, with a world size.
struct CommunicatorTestParam {
  std::string back_end;
  std::string device;
  int world_size = 1;
};

inline std::string CommunicatorTestName(
    const ::testing::TestParamInfo<CommunicatorTestParam>& info) {
  return absl::StrCat(info.param.back_end, "_", info.param.device, "_", info.param.world_size);
}

// The objects of one rank of a test. `stream` runs concurrently with the rank's main thread.
struct TestRank {
  Communicator& world;
  Device& device;
  Stream& stream;

  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
};

class CommunicatorTest : public ::testing::TestWithParam<CommunicatorTestParam> {
 protected:
  using RankFunction = std::function<absl::Status(TestRank&)>;

  void SetUp() override { ZEROTH_SKIP_WITHOUT_DEVICE(GetParam().device); }

  int size() const { return GetParam().world_size; }

  // Runs `function` on every rank, and returns the launcher's result.
  absl::Status Launch(const RankFunction& function,
                      absl::Duration timeout = absl::Minutes(5)) const {
    LaunchOptions options;
    options.world_size = size();
    options.timeout = timeout;
    return LauncherRegistry::Launch(
        GetParam().back_end, options, [&](Communicator& world) -> absl::Status {
          DeviceOptions device_options;
          device_options.index = world.device_index();
          device_options.transport_memory = world.memory_source();
          ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                  DeviceRegistry::Create(GetParam().device, device_options));
          device->BindThread();
          ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream,
                                  device->CreateStream("comm"));
          TestRank rank{world, *device, *stream};
          return function(rank);
        });
  }

  void ExpectAllOk(const RankFunction& function) const {
    const absl::Status status = Launch(function);
    EXPECT_TRUE(status.ok()) << status;
  }
};

// Element i of the values that `rank` sends. Floats have different magnitudes, so that another
// order of additions rounds differently, and their sums fit in fp16.
template <typename T>
std::vector<T> TestValues(uint64_t seed, int rank, int64_t count) {
  const CounterRng rng(seed, std::to_string(rank));
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(rng.Bits64(i));
    } else {
      const float scale = std::exp2(static_cast<float>(rng.Bits(i) % 10));
      const float value = (rng.Uniform(i + (uint64_t{1} << 40)) - 0.5f) * scale;
      if constexpr (std::is_same_v<T, float>) {
        values[i] = value;
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        values[i] = ToBFloat16(value);
      } else {
        values[i] = ToFloat16(value);
      }
    }
  }
  return values;
}

// values[r] = TestValues of rank r.
template <typename T>
std::vector<std::vector<T>> TestValuesOfAll(uint64_t seed, int size, int64_t count) {
  std::vector<std::vector<T>> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(TestValues<T>(seed, rank, count));
  return values;
}

template <typename T>
absl::StatusOr<Tensor> ToDevice(Device& device, const std::vector<T>& values) {
  return Tensor::FromHost<T>(device, Shape({static_cast<int64_t>(values.size())}), values,
                             MemoryCategory::kWorkspace);
}

template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) FAIL() << "element " << i;
  }
}

// The tensor's elements after all work on `stream`.
template <typename T>
absl::StatusOr<std::vector<T>> Fetch(const Tensor& tensor, Stream& stream) {
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
  return tensor.ToHost<T>();
}

// Zeros, in memory that the rank's transport can register if there is some.
inline absl::StatusOr<Tensor> TransportFloats(TestRank& rank, int64_t count) {
  Tensor tensor;
  if (rank.device.allocator().has_transport_memory()) {
    ZEROTH_ASSIGN_OR_RETURN(tensor,
                            Tensor::EmptyForTransport(rank.device, Shape({count}), DType::kFloat32,
                                                      MemoryCategory::kWorkspace));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(tensor, Tensor::Empty(rank.device, Shape({count}), DType::kFloat32,
                                                  MemoryCategory::kWorkspace));
  }
  Stream& compute = rank.device.compute_stream();
  ZEROTH_RETURN_IF_ERROR(rank.device.FillZero(tensor.raw_data(), tensor.bytes(), compute));
  ZEROTH_RETURN_IF_ERROR(compute.Synchronize());
  return tensor;
}

// Gathers the values of all ranks of the group into `full`, in place or not, and compares them.
inline absl::Status CheckGatherInto(TestRank& rank, Communicator& group, const Tensor& full,
                                    uint64_t seed, bool in_place) {
  const int64_t count = full.numel() / group.size();
  const auto values = TestValuesOfAll<float>(seed, group.size(), count);
  ZEROTH_ASSIGN_OR_RETURN(Tensor mine,
                          ToDevice(rank.device, values[static_cast<size_t>(group.rank())]));
  if (in_place) {
    const Tensor slice = full.View(count * group.rank(), Shape({count}));
    Stream& compute = rank.device.compute_stream();
    ZEROTH_RETURN_IF_ERROR(
        rank.device.Copy(slice.raw_data(), mine.raw_data(), mine.bytes(), compute));
    ZEROTH_RETURN_IF_ERROR(compute.Synchronize());
    mine = slice;
  }
  ZEROTH_RETURN_IF_ERROR(group.AllGather(mine, full, rank.stream, "gather"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> all, Fetch<float>(full, rank.stream));
  std::vector<float> expected;
  for (const std::vector<float>& part : values) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  ExpectSameBits(all, expected);
  return absl::OkStatus();
}

inline void SleepFor(int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// Waits until another rank breaks the world.
inline void SleepUntilBroken(const Communicator& world) {
  while (world.status().ok()) SleepFor(500);
}

inline void ExpectWords(const absl::Status& status, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << "no \"" << word << "\" in: " << status;
  }
}

// Calls function(T()) for the type of every dtype.
template <typename Function>
absl::Status ForEachType(Function function) {
  ZEROTH_RETURN_IF_ERROR(function(float()));
  ZEROTH_RETURN_IF_ERROR(function(BFloat16()));
  ZEROTH_RETURN_IF_ERROR(function(Float16()));
  ZEROTH_RETURN_IF_ERROR(function(int32_t()));
  ZEROTH_RETURN_IF_ERROR(function(int64_t()));
  return function(uint8_t());
}

template <typename T>
std::vector<ReduceOp> ReduceOpsOf() {
  if (std::is_integral_v<T>) return {ReduceOp::kSum, ReduceOp::kMax};
  return {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax};
}

}  // namespace zeroth::testing
