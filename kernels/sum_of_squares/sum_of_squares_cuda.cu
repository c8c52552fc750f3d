// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/sum_of_squares/exact_sum.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth::cuda {
namespace {

using u64 = unsigned long long;

constexpr int kThreads = 256;
constexpr int kItems = 16;  // elements that a thread has of a tile
constexpr int64_t kTile = int64_t{kThreads} * kItems;

// A square is mantissa^2 * 2^(2 * (exponent - 150)), its mantissa below 2^24. In the block's common
// scale, squares of the largest exponent e are shifted left by kHeadBits, and those of exponent e -
// k by 2 k bits less. For k up to kWindow no bit is lost. The sum of kTile (2^12) squares stays
// below 2^48 * 2^62 * 2^12 < 2^123.
constexpr int kHeadBits = 62;
constexpr int kWindow = kHeadBits / 2;

struct Wide {
  u64 low = 0;
  u64 high = 0;
};

__device__ __forceinline__ void AddWide(Wide& sum, Wide x) {
  sum.low += x.low;
  sum.high += x.high + (sum.low < x.low ? 1 : 0);
}

__device__ __forceinline__ Wide ShiftedLeft(u64 x, int shift) {
  if (shift == 0) return {x, 0};
  if (shift >= 64) return {0, x << (shift - 64)};
  return {x << shift, x >> (64 - shift)};
}

__device__ __forceinline__ void AddWord(int64_t* words, int index, u64 value) {
  // Two's complement: adding as unsigned is adding as signed.
  atomicAdd(reinterpret_cast<u64*>(words) + index, value);
}

// Adds value * 2^(unit + ExactSum::kMinExponent) to the words.
__device__ void AddToWords(int64_t* words, Wide value, int unit) {
  int word = unit / ExactSum::kBinBits;
  const int offset = unit % ExactSum::kBinBits;
  constexpr u64 kMask = (u64{1} << ExactSum::kBinBits) - 1;
  // The first word takes fewer bits than later ones.
  int room = ExactSum::kBinBits - offset;
  int shift = offset;
  while (value.low != 0 || value.high != 0) {
    const u64 piece = value.low & ((u64{1} << room) - 1);
    if (piece != 0) AddWord(words, word, (piece << shift) & kMask);
    value.low = (value.low >> room) | (value.high << (64 - room));
    value.high >>= room;
    ++word;
    room = ExactSum::kBinBits;
    shift = 0;
  }
}

// Returns the stored exponent, 1 for subnormals, and the mantissa with its leading one.
__device__ __forceinline__ void Take(float x, int& exponent, unsigned& mantissa) {
  const unsigned bits = __float_as_uint(x);
  exponent = static_cast<int>((bits >> 23) & 0xff);
  mantissa = bits & 0x7fffffu;
  if (exponent == 0) {
    exponent = 1;
  } else {
    mantissa |= 0x800000u;
  }
}

// In units of 2^kMinExponent a square of stored exponent e has its last bit at 2 * (e - 1): the
// smallest subnormal's square, 2^-298, is one unit.
__device__ __forceinline__ int UnitOf(int exponent) { return 2 * (exponent - 1); }
static_assert(ExactSum::kMinExponent == -298);

__host__ __device__ __forceinline__ int64_t TilesOf(int64_t count) {
  return (count + kTile - 1) / kTile;
}

// The parameter of a launch: as many arrays of one type as fit into a kernel's parameters on every
// device, for the reasons given in adamw/adamw_plan.h.
constexpr int kArrays = static_cast<int>((kKernelParameterBytes - 16) / 16);
struct SquaresTable {
  struct Array {
    const void* x;
    int64_t count;
  };
  int64_t* words;
  int32_t count;
  Array arrays[kArrays];
};
static_assert(sizeof(SquaresTable) <= kKernelParameterBytes);

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    SquareSums(const __grid_constant__ SquaresTable table) {
  ZEROTH_SHARED(float, largest_scratch, [kThreads / 32]);
  ZEROTH_SHARED(u64, low_scratch, [kThreads / 32]);
  ZEROTH_SHARED(u64, high_scratch, [kThreads / 32]);
  int64_t* const words = table.words;
  // The tiles of all arrays are laid end to end. `tile` counts from the current array's first tile.
  int array = 0;
  for (int64_t tile = blockIdx.x;; tile += gridDim.x) {
    while (array < table.count && tile >= TilesOf(table.arrays[array].count)) {
      tile -= TilesOf(table.arrays[array++].count);
    }
    if (array == table.count) return;
    const T* const x = static_cast<const T*>(table.arrays[array].x);
    const int64_t count = table.arrays[array].count;
    float values[kItems];
    float largest_here = 0.0f;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t at = tile * kTile + int64_t{i} * kThreads + threadIdx.x;
      float value = at < count ? ToFloat(x[at]) : 0.0f;
      const unsigned bits = __float_as_uint(value);
      if ((bits & 0x7f800000u) == 0x7f800000u) {
        AddWord(words, (bits & 0x7fffffu) != 0 ? ExactSum::kNanWord : ExactSum::kInfWord, 1);
        value = 0.0f;
      }
      values[i] = value;
      largest_here = fmaxf(largest_here, fabsf(value));
    }
    const float largest = BlockMax<kThreads>(largest_here, largest_scratch);
    if (largest == 0.0f) continue;  // the same in every thread
    int top = 0;
    unsigned unused = 0;
    Take(largest, top, unused);
    Wide sum;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      int exponent = 0;
      unsigned mantissa = 0;
      Take(values[i], exponent, mantissa);
      const u64 square = u64{mantissa} * mantissa;
      const int below = top - exponent;
      if (square == 0) continue;
      if (below <= kWindow) {
        AddWide(sum, ShiftedLeft(square, kHeadBits - 2 * below));
      } else {
        AddToWords(words, {square, 0}, UnitOf(exponent));
      }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      Wide other;
      other.low = __shfl_xor_sync(kWholeWarp, sum.low, mask);
      other.high = __shfl_xor_sync(kWholeWarp, sum.high, mask);
      AddWide(sum, other);
    }
    if (threadIdx.x % 32 == 0) {
      low_scratch[threadIdx.x / 32] = sum.low;
      high_scratch[threadIdx.x / 32] = sum.high;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < kThreads / 32; ++i) AddWide(sum, {low_scratch[i], high_scratch[i]});
      int unit = UnitOf(top) - kHeadBits;
      if (unit < 0) {
        // There are no bits below one unit: the low bits of a block of tiny values are zeros.
        const int drop = -unit;
        sum.low = (sum.low >> drop) | (sum.high << (64 - drop));
        sum.high >>= drop;
        unit = 0;
      }
      AddToWords(words, sum, unit);
    }
    __syncthreads();
  }
}

// Carries upwards until every word but the top one is in [0, 2^kBinBits), as ExactSum::Normalize
// does.
__global__ void NormalizeWords(int64_t* words) {
  for (int i = 0; i + 1 < ExactSum::kBins; ++i) {
    words[i + 1] += words[i] >> ExactSum::kBinBits;
    words[i] &= (int64_t{1} << ExactSum::kBinBits) - 1;
  }
}

// Returns the value of the words as a double, with an error of a few units in the last place. Adds
// from the most significant word down.
__device__ double Decode(const int64_t* words) {
  int64_t digits[ExactSum::kBins];
  int64_t carry = 0;
  for (int i = 0; i < ExactSum::kBins; ++i) {
    // Adds in two halves, so that a word near the limits does not overflow with the carry.
    const int64_t mask = (int64_t{1} << ExactSum::kBinBits) - 1;
    const int64_t low = (words[i] & mask) + (carry & mask);
    digits[i] = low & mask;
    carry = (words[i] >> ExactSum::kBinBits) + (carry >> ExactSum::kBinBits) +
            (low >> ExactSum::kBinBits);
  }
  double value = ldexp(static_cast<double>(carry),
                       ExactSum::kBinBits * ExactSum::kBins + ExactSum::kMinExponent);
  for (int i = ExactSum::kBins - 1; i >= 0; --i) {
    value += ldexp(static_cast<double>(digits[i]), ExactSum::kBinBits * i + ExactSum::kMinExponent);
  }
  return value;
}

__global__ void ClipFactorKernel(const int64_t* words, double scale, double max_norm, float* out) {
  constexpr double kEpsilon = 1e-6;  // torch's
  double norm = sqrt(Decode(words)) * scale;
  constexpr long long kInfinityBits = 0x7ff0000000000000ll;
  constexpr long long kNanBits = 0x7ff8000000000000ll;
  if (words[ExactSum::kInfWord] != 0) norm = __longlong_as_double(kInfinityBits);
  if (words[ExactSum::kNanWord] != 0) norm = __longlong_as_double(kNanBits);
  double factor = 1.0;
  if (max_norm > 0) {
    factor = max_norm / (norm + kEpsilon);
    if (factor > 1.0) factor = 1.0;
  }
  out[0] = static_cast<float>(norm);
  const bool is_finite = fabsf(out[0]) <= 3.402823466e38f;  // false for NaN
  out[1] = is_finite ? static_cast<float>(factor) : out[0] - out[0];
}

absl::Status LaunchSums(DType dtype, const SquaresTable& table, int64_t tiles,
                        const LaunchTarget& target) {
  const LaunchShape shape = MapShape(tiles * kThreads, target.multiprocessors);
  return DispatchType(dtype, [&](auto tag) {
    return ZEROTH_LAUNCH(SquareSums<typename decltype(tag)::type>, shape, target.stream, table);
  });
}

// A block sums its elements in 128-bit integers that share one exponent, and then adds to a few
// words. Arrays of one type share launches.
absl::Status AddSquares(const AddSquaresCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SquaresTable table = {call.words, 0, {}};
    int64_t tiles = 0;
    for (const AddSquaresCall::Array& array : call.arrays) {
      if (array.dtype != dtype || array.count == 0) continue;
      if (table.count == kArrays) {
        ZEROTH_RETURN_IF_ERROR(LaunchSums(dtype, table, tiles, target));
        table.count = 0;
        tiles = 0;
      }
      table.arrays[table.count++] = {array.x, array.count};
      tiles += TilesOf(array.count);
    }
    ZEROTH_RETURN_IF_ERROR(LaunchSums(dtype, table, tiles, target));
  }
  return ZEROTH_LAUNCH(NormalizeWords, LaunchShape{}, target.stream, call.words);
}
const OnCuda<AddSquares> add_squares;

absl::Status ClipFactor(const ClipFactorCall& call, CudaKernels& kernels) {
  return ZEROTH_LAUNCH(ClipFactorKernel, LaunchShape{}, kernels.target().stream, call.words,
                       call.scale, call.max_norm, call.norm_and_factor);
}
const OnCuda<ClipFactor> clip_factor;

}  // namespace
}  // namespace zeroth::cuda
