// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/cuda/tree_reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/testing/missing_device.h"

namespace zeroth::cuda {
namespace {

struct Case {
  int ranks = 1;
  int64_t count = 1;
  DType dtype = DType::kFloat32;
  DType result_dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool accumulate = false;
  int mean_of = 0;
  bool aligned = true;  // to 16 bytes, all ranks' elements and the result

  std::string ToString() const {
    return absl::StrCat(ranks, " ranks, ", count, " x ", DTypeName(dtype), " into ",
                        DTypeName(result_dtype), ", op ", static_cast<int>(op),
                        accumulate ? ", accumulating" : "", aligned ? "" : ", not aligned");
  }
};

size_t RoundUp(size_t bytes) { return (bytes + 15) / 16 * 16; }

// All ranks' elements, and behind them the result, in one stretch of memory.
class Arena {
 public:
  Arena(const Case& reduction, std::mt19937& random)
      : shift_(reduction.aligned ? 0 : SizeOf(reduction.dtype)),
        stride_(RoundUp(static_cast<size_t>(reduction.count) * SizeOf(reduction.dtype)) + shift_),
        destination_(RoundUp(shift_ + stride_ * static_cast<size_t>(reduction.ranks)) +
                     (reduction.aligned ? 0 : SizeOf(reduction.result_dtype))),
        bytes_(destination_ +
               static_cast<size_t>(reduction.count) * SizeOf(reduction.result_dtype)) {
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random());
    for (int rank = 0; rank < reduction.ranks; ++rank) {
      Fill(place(rank), reduction.count, reduction.dtype, random);
    }
    Fill(destination_, reduction.count, reduction.result_dtype, random);
  }

  size_t place(int rank) const { return shift_ + static_cast<size_t>(rank) * stride_; }
  size_t stride() const { return stride_; }
  size_t destination() const { return destination_; }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  // Ordinary numbers: arbitrary bits may be NaNs, whose payload is not specified.
  void Fill(size_t at, int64_t count, DType dtype, std::mt19937& random) {
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = static_cast<uint32_t>(random());
      const float value = normal(random);
      if (dtype == DType::kFloat32 || dtype == DType::kBFloat16) {
        std::memcpy(&bits, &value, sizeof(bits));
      }
      if (dtype == DType::kBFloat16) bits >>= 16;
      if (dtype == DType::kFloat16) bits &= 0xbfff;  // below 2, either sign
      std::memcpy(&bytes_[at + static_cast<size_t>(i) * SizeOf(dtype)], &bits,
                  std::min(sizeof(bits), SizeOf(dtype)));
    }
  }

  const size_t shift_;
  const size_t stride_;
  const size_t destination_;
  std::vector<uint8_t> bytes_;
};

class TreeReduceTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
  }

  static HostReduction Listed(const Case& reduction, std::vector<const void*>& sources,
                              std::vector<void*>& destinations, Arena& arena, uint8_t* base) {
    for (int rank = 0; rank < reduction.ranks; ++rank) sources.push_back(base + arena.place(rank));
    destinations = {base + arena.destination()};
    HostReduction listed;
    listed.sources = sources;
    listed.destinations = absl::MakeSpan(destinations);
    listed.count = reduction.count;
    listed.dtype = reduction.dtype;
    listed.result_dtype = reduction.result_dtype;
    listed.op = reduction.op;
    listed.accumulate = reduction.accumulate;
    listed.mean_of = reduction.mean_of;
    return listed;
  }

  // `own` is the rank whose elements are passed separately: the first or the last, so that the
  // others stay contiguous; -1: none.
  static StridedReduction Strided(const Case& reduction, int own, Arena& arena, uint8_t* base) {
    StridedReduction strided;
    strided.others = base + arena.place(own == 0 ? 1 : 0);
    strided.bytes_per_rank = static_cast<int64_t>(arena.stride());
    strided.ranks = reduction.ranks;
    strided.own = own;
    if (own >= 0) strided.own_elements = base + arena.place(own);
    strided.destination = base + arena.destination();
    strided.count = reduction.count;
    strided.dtype = reduction.dtype;
    strided.result_dtype = reduction.result_dtype;
    strided.op = reduction.op;
    strided.accumulate = reduction.accumulate;
    strided.mean_of = reduction.mean_of;
    return strided;
  }

  // The memory after `reduce`, which is given it on the device.
  template <typename Reduce>
  std::vector<uint8_t> OnDevice(const std::vector<uint8_t>& before, const Reduce& reduce) {
    CudaDevice& device = CudaDevice::From(*device_);
    const auto memory = *device.allocator().Allocate(before.size(), MemoryCategory::kWorkspace);
    CudaStream& stream = device.compute_stream();
    EXPECT_TRUE(device.CopyFromHost(memory->data(), before.data(), before.size(), stream).ok());
    EXPECT_EQ(reduce(static_cast<uint8_t*>(memory->data()), device.properties().multiprocessors,
                     stream.handle()),
              absl::OkStatus());
    std::vector<uint8_t> after(before.size());
    EXPECT_TRUE(device.CopyToHost(after.data(), memory->data(), after.size(), stream).ok());
    EXPECT_TRUE(stream.Synchronize().ok());
    return after;
  }

  // Both forms give the host's bits, and write nothing else.
  void Check(const Case& reduction) {
    SCOPED_TRACE(reduction.ToString());
    Arena arena(reduction, random_);
    const std::vector<uint8_t> before = arena.bytes();
    std::vector<uint8_t> expected = before;
    {
      std::vector<const void*> sources;
      std::vector<void*> destinations;
      ReduceOnHost(Listed(reduction, sources, destinations, arena, expected.data()));
    }
    if (reduction.ranks <= kMostTreeRanks) {
      EXPECT_EQ(OnDevice(before,
                         [&](uint8_t* base, int multiprocessors, cudaStream_t stream) {
                           std::vector<const void*> sources;
                           std::vector<void*> destinations;
                           return TreeReduce(Listed(reduction, sources, destinations, arena, base),
                                             multiprocessors, stream);
                         }),
                expected);
    }
    for (const int own : {-1, 0, reduction.ranks - 1}) {
      EXPECT_EQ(OnDevice(before,
                         [&](uint8_t* base, int multiprocessors, cudaStream_t stream) {
                           return TreeReduce(Strided(reduction, own, arena, base), multiprocessors,
                                             stream);
                         }),
                expected)
          << "own rank " << own;
    }
  }

  std::shared_ptr<Device> device_;
  std::mt19937 random_{11};
};

constexpr int64_t kCounts[] = {1, 3, 8, 17, 1027};

TEST_F(TreeReduceTest, SumsOfFloatsAreTheHostsAtEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const int64_t count : kCounts) Check({ranks, count});
  }
  for (const int ranks : {15, 16, 31, 32, 33, 63, 64, 65, 257}) Check({ranks, 19});
  Check({2047, 5});
  Check({2048, 5});
}

TEST_F(TreeReduceTest, SumsOfEveryTypeAlignedOrNot) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (const int64_t count : kCounts) {
        for (const bool aligned : {true, false}) {
          Case one{ranks, count, dtype, dtype};
          one.aligned = aligned;
          Check(one);
          if (!IsFloatingPoint(dtype)) continue;
          one.op = ReduceOp::kMean;
          one.result_dtype = DType::kFloat32;
          Check(one);
          one.accumulate = true;
          Check(one);
        }
      }
    }
  }
}

// The upper levels of a tree, over sums of subtrees.
TEST_F(TreeReduceTest, SumsOfSubtreesAreRoundedOnce) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const int ranks : {2, 3, 8}) {
      for (const int64_t count : kCounts) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
          Case one{ranks, count, DType::kFloat32, dtype, op};
          one.mean_of = ranks * 4;
          Check(one);
        }
      }
    }
  }
}

TEST_F(TreeReduceTest, MaximaOfEveryType) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    for (const int ranks : {1, 2, 5, 40}) Check({ranks, 21, dtype, dtype, ReduceOp::kMax});
  }
}

// More elements than a grid handles in one iteration.
TEST_F(TreeReduceTest, ThreadsTakeTurns) {
  const int64_t count =
      int64_t{4} * 256 * 8 * 3 * CudaDevice::From(*device_).properties().multiprocessors + 5;
  Check({3, count, DType::kBFloat16, DType::kFloat32});
}

}  // namespace
}  // namespace zeroth::cuda
