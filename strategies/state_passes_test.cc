// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/state_passes.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/device/testing/faulty_store.h"

namespace zeroth {
namespace {

class StatePassesTest : public testing::Test {
 protected:
  StatePassesTest()
      : device_(*DeviceRegistry::Create("cpu", DeviceOptions())),
        store_(std::make_shared<FaultyStore>(*device_->CreateOffloadStore({}), INT64_MAX)) {}

  std::unique_ptr<StatePasses> Passes(int64_t chunk_numel) {
    return *StatePasses::Create(*device_, chunk_numel, /*is_offloaded=*/true);
  }
  StateTensor Make(bool offloaded, const std::vector<float>& values) {
    const Tensor tensor = *Tensor::FromHost<float>(
        *device_, Shape({static_cast<int64_t>(values.size())}), values, MemoryCategory::kWorkspace);
    if (!offloaded) return tensor;
    const StateTensor state = *StateTensor::Offloaded(*store_, tensor.numel(), DType::kFloat32);
    EXPECT_EQ(state.Write(0, tensor, device_->compute_stream()), absl::OkStatus());
    return state;
  }
  std::vector<float> ToHost(const StateTensor& state) {
    const Tensor out = *Tensor::Empty(*device_, Shape({state.numel()}), DType::kFloat32,
                                      MemoryCategory::kWorkspace);
    EXPECT_EQ(state.Read(0, out, device_->compute_stream()), absl::OkStatus());
    return *out.ToHost<float>();
  }
  MemoryStats::Usage Staging() {
    return device_->allocator().stats()[MemoryCategory::kOffloadStaging];
  }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<FaultyStore> store_;
};

std::vector<float> RandomValues(const std::string& name, int64_t numel) {
  std::vector<float> values(static_cast<size_t>(numel));
  CounterRng(1, name).FillNormal(0, 1.0f, absl::MakeSpan(values));
  return values;
}

// a += b.
StatePass AddPass(StateTensor a, StateTensor b) {
  StatePass pass;
  pass.operands = {{std::move(a), /*written=*/true}, {std::move(b)}};
  pass.body = [](int64_t, absl::Span<const Tensor> chunk) {
    for (int64_t i = 0; i < chunk[0].numel(); ++i) {
      chunk[0].data<float>()[i] += chunk[1].data<float>()[i];
    }
    return absl::OkStatus();
  };
  return pass;
}

TEST_F(StatePassesTest, GivesWhatTheWholeGivesWhereverStateLies) {
  for (const int64_t chunk_numel : {1, 3, 16, 1000}) {
    for (int where = 0; where < 4; ++where) {
      SCOPED_TRACE(testing::Message() << "chunks of " << chunk_numel << ", operands " << where);
      const std::unique_ptr<StatePasses> passes = Passes(chunk_numel);
      std::vector<StatePass> list;
      std::vector<std::vector<float>> expected;
      for (const int64_t numel : {0, 1, 47, 3, 100}) {
        std::vector<float> a = RandomValues("a", numel);
        const std::vector<float> b = RandomValues("b", numel);
        list.push_back(AddPass(Make((where & 1) != 0, a), Make((where & 2) != 0, b)));
        for (size_t i = 0; i < a.size(); ++i) a[i] += b[i] + b[i];
        expected.push_back(std::move(a));
      }
      for (int times = 0; times < 2; ++times) ASSERT_EQ(passes->Run(list), absl::OkStatus());
      for (size_t i = 0; i < list.size(); ++i) {
        const std::vector<float> sums = ToHost(list[i].operands[0].state);
        ASSERT_EQ(sums.size(), expected[i].size());
        for (size_t j = 0; j < sums.size(); ++j) EXPECT_NEAR(sums[j], expected[i][j], 1e-5);
      }
    }
  }
}

TEST_F(StatePassesTest, ChunksComeInOrderAndCoverEverythingOnce) {
  const std::unique_ptr<StatePasses> passes = Passes(4);
  std::vector<std::pair<int64_t, int64_t>> seen;
  std::vector<StatePass> list;
  for (const bool offloaded : {true, false}) {
    StatePass pass;
    pass.operands = {{Make(offloaded, RandomValues("x", 10))}};
    pass.body = [&](int64_t begin, absl::Span<const Tensor> chunk) {
      seen.emplace_back(begin, chunk[0].numel());
      return absl::OkStatus();
    };
    list.push_back(std::move(pass));
  }
  ASSERT_EQ(passes->Run(list), absl::OkStatus());
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 4}, {4, 4}, {8, 2}, {0, 10}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(store_->stats().bytes_written, 40) << "what is only read is not written back";
}

// Chunks never split a block, wherever the operands lie.
TEST_F(StatePassesTest, BlocksAreNotCut) {
  constexpr int64_t kBlock = 6;
  for (const int64_t chunk_numel : {1, 7, 12, 1000}) {
    for (int where = 0; where < 4; ++where) {
      const std::unique_ptr<StatePasses> passes = Passes(chunk_numel);
      for (const int64_t numel : {0, 1, 6, 47}) {
        const int64_t blocks = (numel + kBlock - 1) / kBlock;
        std::vector<float> values = RandomValues("values", numel);
        const std::vector<float> factors = RandomValues("factors", blocks);
        StatePass pass;
        pass.operands = {{Make((where & 1) != 0, values), /*written=*/true},
                         {Make((where & 2) != 0, factors), /*written=*/true, kBlock}};
        pass.body = [](int64_t begin, absl::Span<const Tensor> chunk) {
          EXPECT_EQ(begin % kBlock, 0);
          EXPECT_EQ(chunk[1].numel(), (chunk[0].numel() + kBlock - 1) / kBlock);
          for (int64_t i = 0; i < chunk[0].numel(); ++i) {
            chunk[0].data<float>()[i] *= chunk[1].data<float>()[i / kBlock];
          }
          for (int64_t i = 0; i < chunk[1].numel(); ++i) chunk[1].data<float>()[i] += 1.0f;
          return absl::OkStatus();
        };
        ASSERT_EQ(passes->Run({pass}), absl::OkStatus());
        for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / kBlock];
        EXPECT_EQ(ToHost(pass.operands[0].state), values);
        for (size_t i = 0; i < factors.size(); ++i) {
          EXPECT_EQ(ToHost(pass.operands[1].state)[i], factors[i] + 1.0f);
        }
      }
    }
  }
}

TEST_F(StatePassesTest, MemoryIsThreeChunksWhateverTheState) {
  const std::unique_ptr<StatePasses> passes = Passes(16);
  for (const int64_t numel : {64, 10000}) {
    const std::vector<StatePass> list = {
        AddPass(Make(true, RandomValues("a", numel)), Make(true, RandomValues("b", numel)))};
    device_->allocator().ResetPeaks();
    ASSERT_EQ(passes->Run(list), absl::OkStatus());
    EXPECT_EQ(Staging().peak_bytes, 3 * 2 * 16 * 4);
    EXPECT_EQ(Staging().current_bytes, 0);
  }
  const std::vector<StatePass> in_memory = {
      AddPass(Make(false, RandomValues("a", 50)), Make(false, RandomValues("b", 50)))};
  device_->allocator().ResetPeaks();
  ASSERT_EQ(passes->Run(in_memory), absl::OkStatus());
  EXPECT_EQ(Staging().peak_bytes, 0);
}

// A failed stream stays failed, so each place has its own device.
TEST(StatePassesFailureTest, EveryTransferThatBreaksIsAnErrorThatLeavesNothingUnderWay) {
  constexpr int64_t kTransfers = 30;  // ten chunks, each with two reads and a write
  for (int64_t good = 0; good <= kTransfers; ++good) {
    const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions());
    FaultyStore store(*device->CreateOffloadStore({}), good);
    const std::vector<StatePass> list = {
        AddPass(*StateTensor::Offloaded(store, 30, DType::kFloat32),
                *StateTensor::Offloaded(store, 30, DType::kFloat32))};
    const auto passes = *StatePasses::Create(*device, 3, /*is_offloaded=*/true);
    const absl::Status status = passes->Run(list);
    if (good == kTransfers) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "after " << good << " transfers";
    }
    EXPECT_EQ(device->allocator().stats().total.current_bytes, 0);
  }
}

TEST_F(StatePassesTest, AnErrorOfTheBodyIsReturned) {
  const std::unique_ptr<StatePasses> passes = Passes(3);
  StatePass pass;
  pass.operands = {{Make(true, RandomValues("a", 30)), /*written=*/true}};
  pass.body = [](int64_t begin, absl::Span<const Tensor>) {
    return begin < 9 ? absl::OkStatus() : absl::OutOfRangeError("the fourth chunk");
  };
  EXPECT_EQ(passes->Run({pass}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Staging().current_bytes, 0);
  pass.body = [](int64_t, absl::Span<const Tensor>) { return absl::OkStatus(); };
  EXPECT_EQ(passes->Run({pass}), absl::OkStatus()) << "streams are as good as before";
}

}  // namespace
}  // namespace zeroth
