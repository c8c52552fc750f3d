// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "absl/strings/str_cat.h"

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/quantize/quantize.h"

namespace zeroth::cuda {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr unsigned kInfinityBits = 0x7f800000u;
constexpr unsigned kNaNBits = 0x7fc00000u;
// The depth of the tree over pieces, of which each rank has one.
constexpr int kMostLevels = 20;

// A warp quantises a block of values. Magnitudes are compared as the bits of floats, which are
// ordered as integers are, with NaN above all.
template <typename T>
__global__ void QuantizeKernel(int64_t count, int64_t block_size, int64_t blocks, const T* values,
                               int8_t* codes, float* scales) {
  const int64_t block = int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / 32;
  if (block >= blocks) return;
  const int64_t begin = block * block_size;
  const int64_t end = begin + block_size < count ? begin + block_size : count;
  const int lane = threadIdx.x % 32;
  unsigned bits = 0;
  for (int64_t i = begin + lane; i < end; i += 32) {
    const unsigned magnitude = __float_as_uint(fabsf(ToFloat(values[i])));
    bits = magnitude > bits ? magnitude : bits;
  }
  bits = WarpMax(bits);
  const float largest = __uint_as_float(bits);
  const bool finite = bits < kInfinityBits;
  const bool vanishes = !finite || largest < QuantizedBlocks::kSmallestMagnitude;
  const float inverse = vanishes ? 0.0f : __fdiv_rn(QuantizedBlocks::kMostCode, largest);
  for (int64_t i = begin + lane; i < end; i += 32) {
    codes[i] =
        vanishes ? int8_t{0} : static_cast<int8_t>(rintf(__fmul_rn(ToFloat(values[i]), inverse)));
  }
  if (lane != 0) return;
  scales[block] = !finite    ? __uint_as_float(kNaNBits)
                  : vanishes ? 0.0f
                             : __fdiv_rn(largest, QuantizedBlocks::kMostCode);
}

// Clears the gaps after codes and scales, which are sent, too.
__global__ void ClearGaps(QuantizedBlocks shape, uint8_t* quantized) {
  const int64_t scales_end =
      shape.scales_offset() + shape.blocks() * static_cast<int64_t>(sizeof(float));
  const int64_t at = threadIdx.x;
  if (shape.count + at < shape.scales_offset()) quantized[shape.count + at] = 0;
  if (scales_end + at < shape.bytes()) quantized[scales_end + at] = 0;
}

__device__ __forceinline__ float ValueOf(const QuantizedBlocks& shape, const uint8_t* piece,
                                         int64_t at) {
  const float* const scales = reinterpret_cast<const float*>(piece + shape.scales_offset());
  const float code = static_cast<float>(reinterpret_cast<const int8_t*>(piece)[at]);
  return __fmul_rn(code, scales[at / shape.block]);
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    DequantizeKernel(QuantizedBlocks shape, int64_t bytes, int64_t values_count,
                     const uint8_t* quantized, T* values) {
  for (const int64_t at : ItemsOfThread(values_count)) {
    const uint8_t* const piece = quantized + at / shape.count * bytes;
    values[at] = FromFloat<T>(ValueOf(shape, piece, at % shape.count));
  }
}

// Sums element `at` of all pieces along the fixed tree. Level l holds the sum of 2^l pieces that
// waits for its neighbour. Levels are indexed by compile-time constants, so that the array stays in
// registers.
__device__ __forceinline__ float SumOfPieces(const QuantizedBlocks& shape, int64_t bytes,
                                             int64_t pieces, const uint8_t* quantized, int64_t at) {
  float waiting[kMostLevels] = {};
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float sum = ValueOf(shape, quantized + piece * bytes, at);
    bool is_carried = true;
#pragma unroll
    for (int level = 0; level < kMostLevels; ++level) {
      if (is_carried && (piece >> level & 1) != 0) {
        sum = __fadd_rn(waiting[level], sum);
      } else if (is_carried) {
        waiting[level] = sum;
        is_carried = false;
      }
    }
  }
  float total = 0.0f;
  bool is_begun = false;
#pragma unroll
  for (int level = 0; level < kMostLevels; ++level) {
    if ((pieces >> level & 1) != 0) {
      total = is_begun ? __fadd_rn(waiting[level], total) : waiting[level];
      is_begun = true;
    }
  }
  return total;
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    SumKernel(QuantizedBlocks shape, int64_t bytes, int64_t pieces, const uint8_t* quantized,
              float factor, bool accumulate, T* sum) {
  for (const int64_t at : ItemsOfThread(shape.count)) {
    float total = __fmul_rn(SumOfPieces(shape, bytes, pieces, quantized, at), factor);
    if (accumulate) total = __fadd_rn(ToFloat(sum[at]), total);
    sum[at] = FromFloat<T>(total);
  }
}

absl::Status Quantize(const QuantizeCall& call, CudaKernels& kernels) {
  const QuantizedBlocks& shape = call.shape;
  if (shape.count == 0) return absl::OkStatus();
  const cudaStream_t stream = kernels.target().stream;
  const LaunchShape gaps = Blocks(1, QuantizedBlocks::kAlignment);
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(ClearGaps, gaps, stream, shape, call.quantized));
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH(QuantizeKernel<T>, WarpPerRowShape(shape.blocks(), kWarpsPerBlock), stream,
                         shape.count, shape.block, shape.blocks(),
                         static_cast<const T*>(call.values),
                         reinterpret_cast<int8_t*>(call.quantized),
                         reinterpret_cast<float*>(call.quantized + shape.scales_offset()));
  });
}
const OnCuda<Quantize> quantize;

absl::Status Dequantize(const DequantizeCall& call, CudaKernels& kernels) {
  const int64_t count = call.pieces * call.shape.count;
  const LaunchTarget& target = kernels.target();
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(DequantizeKernel<T>, count, target, call.shape, call.shape.bytes(), count,
                      call.quantized, static_cast<T*>(call.values));
  });
}
const OnCuda<Dequantize> dequantize;

absl::Status SumQuantized(const SumQuantizedCall& call, CudaKernels& kernels) {
  if (call.pieces >> kMostLevels != 0) {
    return absl::UnimplementedError(absl::StrCat("SumQuantized: ", call.pieces, " pieces; at most ",
                                                 (int64_t{1} << kMostLevels) - 1, " on CUDA"));
  }
  const LaunchTarget& target = kernels.target();
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(SumKernel<T>, call.shape.count, target, call.shape, call.shape.bytes(),
                      call.pieces, call.quantized, call.factor, call.accumulate,
                      static_cast<T*>(call.sum));
  });
}
const OnCuda<SumQuantized> sum_quantized;

}  // namespace
}  // namespace zeroth::cuda
