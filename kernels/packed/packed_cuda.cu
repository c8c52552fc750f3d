// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
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

constexpr size_t kMostMatrices = 128;  // of a launch, limited by the addresses in its parameters

// Passed by value, so a recorded launch keeps it. Each matrix has a row of the grid, as large as if
// it were alone: the host does not know which are used. Thread blocks of unused ones exit early.
struct UnpackParams : UnpackShape {
  int64_t packs;  // of N values, in each matrix
  UnpackArrays matrices[kMostMatrices];
};
static_assert(sizeof(UnpackParams) <= kKernelParameterBytes);

// A warp reads the same few dynamic values, which constant memory broadcasts. It reads the values
// of 16 codes in any order, for which shared memory has no bank conflicts.
template <typename T, int N>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor) UnpackNf4(UnpackParams p) {
  if (p.IsUnused(blockIdx.y)) return;
  const UnpackArrays matrix = p.matrices[blockIdx.y];
  T* const values = static_cast<T*>(matrix.values);
  ZEROTH_SHARED(float, of_code, [16]);
  if (threadIdx.x < 16) of_code[threadIdx.x] = kNf4Table[threadIdx.x];
  __syncthreads();
  for (const int64_t pack : ItemsOfThread(p.packs)) {
    const int64_t row = pack * N / p.cols;
    const int64_t col = pack * N % p.cols;
    const int64_t block_of_row = col / PackedShape::kNf4Block;
    const auto inside = static_cast<int>(col % PackedShape::kNf4Block);
    const uint8_t* const block =
        matrix.codes + row * p.shape.CodeBytes(p.cols) + block_of_row * PackedShape::kNf4BlockBytes;
    const int64_t nf4_block = p.FirstBlock(row) + block_of_row;
    const float magnitude =
        __fadd_rn(__fmul_rn(kDynamicTable[block[PackedShape::kNf4BlockBytes - 1]],
                            matrix.scales[nf4_block / PackedShape::kNf4ScaleBlocks]),
                  matrix.scales[p.shape.scales() - 1]);
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
    UnpackInt8(UnpackParams p) {
  if (p.IsUnused(blockIdx.y)) return;
  const UnpackArrays matrix = p.matrices[blockIdx.y];
  T* const values = static_cast<T*>(matrix.values);
  for (const int64_t pack : ItemsOfThread(p.packs)) {
    const auto codes = reinterpret_cast<const Pack<int8_t, N>*>(matrix.codes)[pack];
    const float scale = matrix.scales[p.row + pack * N / p.cols];
    float x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __fmul_rn(static_cast<float>(codes.at[i]), scale);
    StorePack<N>(x, values + pack * N);
  }
}

template <typename T, PackedFormat Format, int N>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackGguf(UnpackParams p) {
  if (p.IsUnused(blockIdx.y)) return;
  // A reference, since copies of the addresses take registers that Q5_0 and its like need.
  const UnpackArrays& matrix = p.matrices[blockIdx.y];
  constexpr PackedShape kOne = {Format};
  for (const int64_t pack : ItemsOfThread(p.packs)) {
    const int64_t at = pack * N;
    const uint8_t* const block = matrix.codes + at / kOne.block() * kOne.block_bytes();
    const auto inside = static_cast<int>(at % kOne.block());
    const GgufGroup group = GgufGroupOf<Format>(block, inside / kGgufGroup<Format>);
    const GgufRun run = GgufRunOf<Format>(inside / kGgufRun);
    float x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = GgufElement(group, GgufCodeOf<Format>(block, run, inside % kGgufRun + i));
    }
    StorePack<N>(x, static_cast<T*>(matrix.values) + at);
  }
}

template <typename T, int N>
absl::Status LaunchFormat(PackedFormat format, const UnpackParams& p, const LaunchShape& shape,
                          cudaStream_t stream) {
  if (format == PackedFormat::kNf4) return ZEROTH_LAUNCH((UnpackNf4<T, N>), shape, stream, p);
  if (format == PackedFormat::kInt8) return ZEROTH_LAUNCH((UnpackInt8<T, N>), shape, stream, p);
  return WithGgufFormat(format, [&]<PackedFormat Format>() -> absl::Status {
    return ZEROTH_LAUNCH((UnpackGguf<T, Format, N>), shape, stream, p);
  });
}

absl::Status Unpack(const UnpackCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const bool packed = call.cols % kValuesAtOnce == 0 &&
                      std::all_of(call.blocks.begin(), call.blocks.end(), [](const auto& block) {
                        return ArePacked(static_cast<const char*>(block.values), block.codes);
                      });
  for (size_t first = 0; first < call.blocks.size(); first += kMostMatrices) {
    const size_t count = std::min(kMostMatrices, call.blocks.size() - first);
    UnpackParams p = {};
    static_cast<UnpackShape&>(p) = call;
    if (p.offsets != nullptr) p.offsets += first;
    p.packs = call.rows * call.cols / (packed ? kValuesAtOnce : 1);
    std::copy_n(&call.blocks[first], count, p.matrices);
    LaunchShape shape = MapShape(p.packs, target.multiprocessors);
    shape.grid.y = static_cast<unsigned>(count);
    ZEROTH_RETURN_IF_ERROR(DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
      return DispatchWidth<kValuesAtOnce>(packed, [&](auto width) -> absl::Status {
        return LaunchFormat<T, width()>(call.shape.format, p, shape, target.stream);
      });
    }));
  }
  return absl::OkStatus();
}
const OnCuda<Unpack> unpack;

}  // namespace
}  // namespace zeroth::cuda
