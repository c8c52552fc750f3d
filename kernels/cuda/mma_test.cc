// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the fragment layouts against a second version, written from the PTX ISA: its formulas give
// the row and column of element i of a fragment, in the ISA's order.

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/kernels/cuda/testing/mma_test_kernels.h"

namespace zeroth::cuda {
namespace {

// Memory of the device that a host vector is copied to, and back from.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : values_(values) {
    EXPECT_EQ(cudaMalloc(&data_, values.size() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  T* data() { return static_cast<T*>(data_); }
  std::vector<T> Read() {
    EXPECT_EQ(cudaMemcpy(values_.data(), data_, values_.size() * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values_;
  }

 private:
  std::vector<T> values_;
  void* data_ = nullptr;
};

struct Place {
  int row;
  int column;
};
// a0 .. a7 of lane `lane`.
Place PlaceInA(int lane, int i) {
  const int group = lane >> 2;
  const int thread_in_group = lane % 4;
  const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
  return {upper ? group : group + 8, thread_in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
// b0 .. b3.
Place PlaceInB(int lane, int i) { return {lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2}; }
// c0 .. c3.
Place PlaceInC(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}

uint16_t Bits(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? ToBFloat16(value).bits : ToFloat16(value).bits;
}
float Value(DType dtype, uint16_t bits) {
  return dtype == DType::kBFloat16 ? ToFloat(BFloat16{bits}) : ToFloat(Float16{bits});
}

TEST(MmaTest, MultipliesWhatTheFragmentsHold) {
  ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    uint16_t a[16][16];
    uint16_t b[16][8];
    float c[16][8];
    for (auto& row : a) {
      for (uint16_t& x : row) x = Bits(dtype, normal(random));
    }
    for (auto& row : b) {
      for (uint16_t& x : row) x = Bits(dtype, normal(random));
    }
    for (auto& row : c) {
      for (float& x : row) x = normal(random);
    }
    std::vector<uint32_t> a_lanes(32 * 4);
    std::vector<uint32_t> b_lanes(32 * 2);
    std::vector<float> c_lanes(32 * 4);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const Place at = PlaceInA(lane, i);
        a_lanes[lane * 4 + i / 2] |= uint32_t{a[at.row][at.column]} << (16 * (i % 2));
      }
      for (int i = 0; i < 4; ++i) {
        const Place at = PlaceInB(lane, i);
        b_lanes[lane * 2 + i / 2] |= uint32_t{b[at.row][at.column]} << (16 * (i % 2));
        const Place place = PlaceInC(lane, i);
        c_lanes[lane * 4 + i] = c[place.row][place.column];
      }
    }
    OnDevice<uint32_t> a_device(a_lanes);
    OnDevice<uint32_t> b_device(b_lanes);
    OnDevice<float> c_device(c_lanes);
    ASSERT_EQ(RunMma(dtype, a_device.data(), b_device.data(), c_device.data(), nullptr),
              absl::OkStatus());
    const std::vector<float> result = c_device.Read();
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const Place at = PlaceInC(lane, i);
        double expected = c[at.row][at.column];
        for (int k = 0; k < 16; ++k) {
          expected += static_cast<double>(Value(dtype, a[at.row][k])) *
                      static_cast<double>(Value(dtype, b[k][at.column]));
        }
        // Hardware cuts terms to the size of the largest before adding them up.
        EXPECT_NEAR(result[lane * 4 + i], expected, 1e-5) << "lane " << lane << ", c" << i;
      }
    }
  }
}

TEST(MmaTest, LoadTilesGivesEveryLaneItsPairs) {
  ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
  std::vector<uint16_t> matrix(32 * 8);
  for (int i = 0; i < 32 * 8; ++i) matrix[i] = static_cast<uint16_t>(i);
  for (const bool transposed : {false, true}) {
    OnDevice<uint16_t> from(matrix);
    OnDevice<uint32_t> to(std::vector<uint32_t>(32 * 4));
    ASSERT_EQ(RunLoadTiles(transposed, from.data(), to.data(), nullptr), absl::OkStatus());
    const std::vector<uint32_t> tiles = to.Read();
    for (int lane = 0; lane < 32; ++lane) {
      for (int tile = 0; tile < 4; ++tile) {
        for (int half = 0; half < 2; ++half) {
          int row = lane / 4;
          int column = lane % 4 * 2 + half;
          if (transposed) std::swap(row, column);
          EXPECT_EQ(tiles[lane * 4 + tile] >> (16 * half) & 0xffff,
                    static_cast<uint32_t>((tile * 8 + row) * 8 + column))
              << "lane " << lane << ", tile " << tile;
        }
      }
    }
  }
}

TEST(AsyncCopyTest, GroupsArriveInTheirOrder) {
  ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
  std::vector<uint32_t> values(32 * 4);
  for (uint32_t i = 0; i < 32 * 4; ++i) values[i] = 1000 + i;
  OnDevice<uint32_t> from(values);
  OnDevice<uint32_t> to(std::vector<uint32_t>(3 * 32 * 4));
  constexpr int kValidWords = 21;
  ASSERT_EQ(RunAsyncCopies(from.data(), kValidWords, to.data(), nullptr), absl::OkStatus());
  const std::vector<uint32_t> out = to.Read();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(out[lane * 4 + i], lane % 2 == 0 ? 1000 + lane * 4 + i : 0) << lane;
#if defined(ZEROTH_CUDA_EMULATION)
      // The emulation's purpose: reading without waiting never works by chance.
      EXPECT_EQ(out[(64 + lane) * 4 + i], 0xffffffffu) << lane;
#endif
    }
    EXPECT_EQ(out[(32 + lane) * 4], lane < kValidWords ? 1000 + lane : 0) << lane;
  }
}

}  // namespace
}  // namespace zeroth::cuda
