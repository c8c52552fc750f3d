// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cuda_fp8.h>

#include <algorithm>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/fp8/fp8.h"

namespace zeroth::cuda {
namespace {

// A block casts a tile of kTile x kTile elements; a thread casts kPack neighbours at a time.
constexpr int kTile = 64;
constexpr int kPack = 4;
constexpr int kThreads = 256;
constexpr int kThreadsAcross = kTile / kPack;
constexpr int kThreadsDown = kThreads / kThreadsAcross;

__global__ void ClearScale(float* scale) {
  scale[0] = 1.0f;
  scale[1] = 0.0f;
}

// Compares magnitudes as the bits of floats, which are ordered as integers are, with NaN above all.
// The order in which blocks finish has no effect.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    LargestKernel(int64_t rows, int64_t cols, int64_t stride, const T* values, unsigned* largest) {
  unsigned bits = 0;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const T* const from = values + row * stride;
    const int64_t step = int64_t{gridDim.x} * kMapThreads * kWidth;
    for (int64_t col = (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) * kWidth; col < cols;
         col += step) {
      float x[kWidth];
      LoadPack(from + col, x);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const unsigned magnitude = __float_as_uint(fabsf(x[i]));
        bits = magnitude > bits ? magnitude : bits;
      }
    }
  }
  bits = WarpMax(bits);
  if (threadIdx.x % 32 == 0 && bits != 0) atomicMax(largest, bits);
}

template <Fp8Format kFormat>
__device__ __forceinline__ uint8_t Encode(float value) {
  constexpr __nv_fp8_interpretation_t kKind = kFormat == Fp8Format::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  if (value != value) return Fp8Numbers::kNaNCode;
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, kKind);
}

// Returns kPack codes of a row from column `col` on, with zeros beyond the values.
template <typename T, Fp8Format kFormat, bool kAligned>
__device__ __forceinline__ Pack<uint8_t, kPack> EncodePack(const T* row, int64_t col, int64_t cols,
                                                           float multiplier) {
  Pack<uint8_t, kPack> codes = {};
  if (kAligned) {
    if (col >= cols) return codes;
    float x[kPack];
    LoadPack(row + col, x);
#pragma unroll
    for (int i = 0; i < kPack; ++i) codes.at[i] = Encode<kFormat>(__fmul_rn(x[i], multiplier));
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (col + i < cols) {
        codes.at[i] = Encode<kFormat>(__fmul_rn(ToFloat(row[col + i]), multiplier));
      }
    }
  }
  return codes;
}

template <typename T, Fp8Format kFormat, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    CastKernel(int64_t rows, int64_t cols, int64_t stride, const T* values, uint8_t* codes,
               uint8_t* transposed, int64_t depth, int64_t tiles_across, float* scale) {
  // Rows are padded, so that the codes of a column lie in several banks.
  ZEROTH_SHARED(uint8_t, tile, [kTile][kTile + kPack]);
  const float multiplier = Fp8Multiplier(kFormat, scale[1]);
  if (blockIdx.x == 0 && threadIdx.x == 0) scale[0] = __fdiv_rn(1.0f, multiplier);
  const int along = static_cast<int>(threadIdx.x) % kThreadsAcross * kPack;
  const int first = static_cast<int>(threadIdx.x) / kThreadsAcross;
  const int64_t tile_row = int64_t{blockIdx.x} / tiles_across * kTile;
  const int64_t tile_col = int64_t{blockIdx.x} % tiles_across * kTile;
  for (int r = first; r < kTile; r += kThreadsDown) {
    const int64_t row = tile_row + r;
    const int64_t col = tile_col + along;
    Pack<uint8_t, kPack> pack = {};
    if (row < rows) {
      pack = EncodePack<T, kFormat, kAligned>(values + row * stride, col, cols, multiplier);
    }
    *reinterpret_cast<Pack<uint8_t, kPack>*>(&tile[r][along]) = pack;
    if (codes == nullptr || row >= rows) continue;
    uint8_t* const to = codes + row * cols + col;
    if (kAligned) {
      if (col < cols) *reinterpret_cast<Pack<uint8_t, kPack>*>(to) = pack;
    } else {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (col + i < cols) to[i] = pack.at[i];
      }
    }
  }
  if (transposed == nullptr) return;
  __syncthreads();
  // Writes the transpose. The depth is a multiple of kPack, so that packs are aligned, and the
  // padding is zeros.
  for (int c = first; c < kTile; c += kThreadsDown) {
    const int64_t col = tile_col + c;
    const int64_t row = tile_row + along;
    if (col >= cols || row >= depth) continue;
    Pack<uint8_t, kPack> pack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack.at[i] = tile[along + i][c];
    *reinterpret_cast<Pack<uint8_t, kPack>*>(transposed + col * depth + row) = pack;
  }
}

// Returns true if packs of `width` elements are aligned in every row and divide it.
template <typename T>
bool IsAligned(const CastFp8Call& call, int width) {
  return call.cols % width == 0 && call.stride % width == 0 &&
         reinterpret_cast<uintptr_t>(call.values) % (static_cast<size_t>(width) * sizeof(T)) == 0;
}

template <typename T, int kWidth>
absl::Status FindLargest(const CastFp8Call& call, const LaunchTarget& target) {
  const LaunchShape columns = MapShape((call.cols + kWidth - 1) / kWidth, target.multiprocessors);
  // The grid has just enough rows to fill the device.
  const int64_t down = std::max<int64_t>(
      1, int64_t{target.multiprocessors} * kBlocksPerMultiprocessor / columns.grid.x);
  const LaunchShape shape = {dim3(columns.grid.x, static_cast<unsigned>(std::min(down, call.rows))),
                             columns.block};
  return ZEROTH_LAUNCH((LargestKernel<T, kWidth>), shape, target.stream, call.rows, call.cols,
                       call.stride, static_cast<const T*>(call.values),
                       reinterpret_cast<unsigned*>(call.scale + 1));
}

template <typename T, Fp8Format kFormat, bool kAligned>
absl::Status CastTiles(const CastFp8Call& call, const LaunchTarget& target) {
  // This includes tiles that hold only padding.
  const int64_t depth = PaddedFp8Depth(call.rows);
  const int64_t across = (call.cols + kTile - 1) / kTile;
  const int64_t tiles = across * ((depth + kTile - 1) / kTile);
  return ZEROTH_LAUNCH((CastKernel<T, kFormat, kAligned>), Blocks(tiles, kThreads), target.stream,
                       call.rows, call.cols, call.stride, static_cast<const T*>(call.values),
                       call.codes, call.codes_transposed, depth, across, call.scale);
}

template <typename T, Fp8Format kFormat>
absl::Status CastAs(const CastFp8Call& call, const LaunchTarget& target) {
  return IsAligned<T>(call, kPack) ? CastTiles<T, kFormat, true>(call, target)
                                   : CastTiles<T, kFormat, false>(call, target);
}

// Makes two passes over the values: one for the largest magnitude, and one for the codes and their
// transpose. The host waits for neither.
absl::Status CastFp8(const CastFp8Call& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const absl::Status cleared = ZEROTH_LAUNCH(ClearScale, LaunchShape{}, target.stream, call.scale);
  if (!cleared.ok() || call.rows == 0 || call.cols == 0) return cleared;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    const absl::Status found = IsAligned<T>(call, kPackWidth<T>)
                                   ? FindLargest<T, kPackWidth<T>>(call, target)
                                   : FindLargest<T, 1>(call, target);
    if (!found.ok()) return found;
    return call.format == Fp8Format::kE4M3 ? CastAs<T, Fp8Format::kE4M3>(call, target)
                                           : CastAs<T, Fp8Format::kE5M2>(call, target);
  });
}
const OnCuda<CastFp8> cast_fp8;

}  // namespace
}  // namespace zeroth::cuda
