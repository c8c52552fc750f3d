// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <array>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/packed/gguf_values.h"
#include "zeroth/kernels/packed/packed.h"

namespace zeroth::cuda {
namespace {

__constant__ std::array<float, 16> kNf4Table = kNf4Values;
__constant__ std::array<float, 256> kDynamicTable = kDynamicValues;

// A thread unpacks N values at a time: 8, which lie in one row and share a scale, or 1.
inline constexpr int kValuesAtOnce = 8;

// A warp reads few dynamic values, which constant memory serves at once. It reads the values of 16
// codes in any order, which shared memory serves without conflicts.
template <typename T, int N>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackNf4(UnpackCall call, int64_t packs, T* values) {
  if (call.IsUnused()) return;
  ZEROTH_SHARED(float, of_code, [16]);
  if (threadIdx.x < 16) of_code[threadIdx.x] = kNf4Table[threadIdx.x];
  __syncthreads();
  for (const int64_t pack : ItemsOfThread(packs)) {
    const int64_t row = pack * N / call.cols;
    const int64_t col = pack * N % call.cols;
    const int64_t block_of_row = col / PackedShape::kNf4Block;
    const auto inside = static_cast<int>(col % PackedShape::kNf4Block);
    const uint8_t* const block = call.codes + row * call.shape.CodeBytes(call.cols) +
                                 block_of_row * PackedShape::kNf4BlockBytes;
    const int64_t nf4_block = call.FirstBlock(row) + block_of_row;
    const float magnitude =
        __fadd_rn(__fmul_rn(kDynamicTable[block[PackedShape::kNf4BlockBytes - 1]],
                            call.scales[nf4_block / PackedShape::kNf4ScaleBlocks]),
                  call.scales[call.shape.scales() - 1]);
    const int first = N == 1 ? inside % 2 : 0;
    float x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int both = block[inside / 2 + i / 2];
      x[i] = __fmul_rn(of_code[(first + i) % 2 == 0 ? both >> 4 : both & 15], magnitude);
    }
    StorePack<N>(x, values + pack * N);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackInt8(UnpackCall call, int64_t packs, T* values) {
  if (call.IsUnused()) return;
  for (const int64_t pack : ItemsOfThread(packs)) {
    const auto codes = reinterpret_cast<const Pack<int8_t, N>*>(call.codes)[pack];
    const float scale = call.scales[call.row + pack * N / call.cols];
    float x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __fmul_rn(static_cast<float>(codes.at[i]), scale);
    StorePack<N>(x, values + pack * N);
  }
}

template <typename T, PackedFormat Format, int N>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackGguf(UnpackCall call, int64_t packs, T* values) {
  if (call.IsUnused()) return;
  constexpr PackedShape kOne = {Format};
  for (const int64_t pack : ItemsOfThread(packs)) {
    const int64_t at = pack * N;
    const uint8_t* const block = call.codes + at / kOne.block() * kOne.block_bytes();
    const auto inside = static_cast<int>(at % kOne.block());
    const GgufGroup group = GgufGroupOf<Format>(block, inside / kGgufGroup<Format>);
    const GgufRun run = GgufRunOf<Format>(inside / kGgufRun);
    float x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = GgufElement(group, GgufCodeOf<Format>(block, run, inside % kGgufRun + i));
    }
    StorePack<N>(x, values + at);
  }
}

absl::Status Unpack(const UnpackCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    auto* const values = static_cast<T*>(call.values);
    const bool packed = call.cols % kValuesAtOnce == 0 && ArePacked(values, call.codes);
    return DispatchWidth<kValuesAtOnce>(packed, [&](auto width) -> absl::Status {
      constexpr int kWidth = width();
      const int64_t packs = call.rows * call.cols / kWidth;
      if (call.shape.format == PackedFormat::kNf4) {
        return ZEROTH_MAP((UnpackNf4<T, kWidth>), packs, target, call, packs, values);
      }
      if (call.shape.format == PackedFormat::kInt8) {
        return ZEROTH_MAP((UnpackInt8<T, kWidth>), packs, target, call, packs, values);
      }
      return WithGgufFormat(call.shape.format, [&]<PackedFormat Format>() -> absl::Status {
        return ZEROTH_MAP((UnpackGguf<T, Format, kWidth>), packs, target, call, packs, values);
      });
    });
  });
}
const OnCuda<Unpack> unpack;

}  // namespace
}  // namespace zeroth::cuda
