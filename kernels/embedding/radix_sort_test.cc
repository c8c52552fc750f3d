// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/embedding/radix_sort.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::cuda {
namespace {

TEST(RadixSortTest, PassesCoverTheKeys) {
  EXPECT_EQ(SortPasses(1), 1);
  EXPECT_EQ(SortPasses(16), 1);
  EXPECT_EQ(SortPasses(17), 2);
  EXPECT_EQ(SortPasses(257), 3);
  EXPECT_EQ(SortPasses(50304), 4);
  EXPECT_EQ(SortPasses(int64_t{1} << 31), 8);
}

TEST(RadixSortTest, IsAStableSort) {
  ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cuda", DeviceOptions());
  device->BindThread();
  CudaDevice& cuda_device = CudaDevice::From(*device);
  const LaunchTarget target = {cuda_device.compute_stream().handle(),
                               cuda_device.properties().multiprocessors};
  std::mt19937 random(7);
  for (const int64_t count : {1, 2, 255, 1024, 1025, 4999}) {
    for (const int64_t limit : {1, 13, 300, 50304}) {
      std::vector<int32_t> keys(static_cast<size_t>(count));
      for (int32_t& key : keys) key = static_cast<int32_t>(random() % limit);
      const MemoryCategory category = MemoryCategory::kWorkspace;
      const Tensor input = *Tensor::FromHost<int32_t>(*device, Shape({count}), keys, category);
      const Tensor places = *Tensor::Empty(*device, Shape({count}), DType::kInt32, category);
      const Tensor scratch =
          *Tensor::Empty(*device, Shape({SortScratch(count)}), DType::kInt32, category);
      const int32_t* sorted = nullptr;
      ASSERT_EQ(SortPlaces(count, limit, input.data<int32_t>(), places.data<int32_t>(), &sorted,
                           scratch.data<int32_t>(), target),
                absl::OkStatus());
      std::vector<int32_t> expected(keys.size());
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
        return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
      });
      EXPECT_EQ(*places.ToHost<int32_t>(), expected) << count << " keys below " << limit;
      const int64_t offset = sorted - scratch.data<int32_t>();
      const std::vector<int32_t> sorted_keys =
          *scratch.View(offset, Shape({count})).ToHost<int32_t>();
      EXPECT_TRUE(std::is_sorted(sorted_keys.begin(), sorted_keys.end()));
    }
  }
}

}  // namespace
}  // namespace zeroth::cuda
