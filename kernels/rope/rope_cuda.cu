// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/rope/rope_tables.h"

namespace zeroth::cuda {
namespace {

// Each item is a pack of frequencies of one head of one token.
template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Rotate(RopeRows call, const float* table, float sign) {
  const int64_t half = call.rotary_dim / 2;
  const int64_t packs = half / N;
  for (const int64_t item : ItemsOfThread(call.batch * call.seq * call.heads * packs)) {
    const int64_t frequency = item % packs * N;
    const int64_t head = item / packs % call.heads;
    const int64_t place = item / (packs * call.heads);
    T* const lower =
        static_cast<T*>(call.qkv) + place * call.packed_dim + head * call.head_dim + frequency;
    int64_t position = place % call.seq;
    if (call.starts != nullptr) {
      // Clamped, so that the position lies in the table whatever `starts` holds.
      const int64_t start = call.starts[place];
      position -= start < 0 ? 0 : start > position ? position : start;
    }
    position += call.first_position;
    const float* const cosines = table + position * call.rotary_dim + frequency;
    float low[N];
    float high[N];
    float cosine[N];
    float sine[N];
    LoadPack<N>(lower, low);
    LoadPack<N>(lower + half, high);
    LoadPack<N>(cosines, cosine);
    LoadPack<N>(cosines + half, sine);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float c = cosine[i];
      const float s = sign * sine[i];
      const float rotated = low[i] * c - high[i] * s;
      high[i] = high[i] * c + low[i] * s;
      low[i] = rotated;
    }
    StorePack<N>(low, lower);
    StorePack<N>(high, lower + half);
  }
}

// Frequencies passed by value to one launch.
struct FrequencyPack {
  static constexpr int kMost = 128;
  double values[kMost];
};

// Fills the columns of `count` pairs from `first` on. Angles are computed in double, because in
// float the angles of distant neighbouring positions would be equal.
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    FillTable(int64_t seq, int64_t rotary_dim, FrequencyPack frequencies, int64_t first,
              int64_t count, double length, float* table) {
  const int64_t half = rotary_dim / 2;
  for (const int64_t item : ItemsOfThread(seq * count)) {
    const int64_t position = item / count;
    const int64_t i = item % count;
    const double angle = static_cast<double>(position) * frequencies.values[i];
    float* const at = table + position * rotary_dim + first + i;
    at[0] = static_cast<float>(length * cos(angle));
    at[half] = static_cast<float>(length * sin(angle));
  }
}

absl::Status Fill(const RopeCall& call, const LaunchTarget& target, float* table) {
  const std::vector<double> frequencies = RopeFrequencies(call.spec, call.rotary_dim);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  for (int64_t first = 0; first < pairs; first += FrequencyPack::kMost) {
    const int64_t count = std::min<int64_t>(FrequencyPack::kMost, pairs - first);
    FrequencyPack pack = {};
    std::copy_n(frequencies.begin() + first, count, pack.values);
    ZEROTH_RETURN_IF_ERROR(ZEROTH_MAP(FillTable, call.positions() * count, target, call.positions(),
                                      call.rotary_dim, pack, first, count,
                                      call.spec.attention_factor, table));
  }
  return absl::OkStatus();
}

absl::StatusOr<const float*> PrepareTable(const RopeCall& call, CudaKernels& kernels) {
  const auto make = [&](size_t bytes) -> absl::StatusOr<std::shared_ptr<Buffer>> {
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> memory, kernels.Scratch(bytes));
    ZEROTH_RETURN_IF_ERROR(Fill(call, kernels.target(), static_cast<float*>(memory->data())));
    return memory;
  };
  return kernels.Kept<RopeTables>().Get(call, make);
}

absl::Status Rope(const RopeCall& call, CudaKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(const float* const table, PrepareTable(call, kernels));
  const LaunchTarget& target = kernels.target();
  const float sign = call.inverse ? -1.0f : 1.0f;
  const int64_t items = call.batch * call.seq * call.heads * call.rotary_dim / 2;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = call.rotary_dim / 2 % kWidth == 0 && call.head_dim % kWidth == 0 &&
                        call.packed_dim % kWidth == 0 && ArePacked(call.qkv, table);
    return DispatchWidth<kWidth>(packed, [&](auto width) {
      const RopeRows& rows = call;
      return ZEROTH_MAP((Rotate<width(), T>), items / width(), target, rows, table, sign);
    });
  });
}
const OnCuda<Rope> rope;

}  // namespace
}  // namespace zeroth::cuda
