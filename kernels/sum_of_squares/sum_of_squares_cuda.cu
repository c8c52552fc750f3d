// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth::cuda {
namespace {

using u64 = unsigned long long;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kItems = 16;  // elements of a tile per lane
constexpr int64_t kTile = int64_t{32} * kItems;
constexpr int kSquaresBlocks = 4;  // resident on an SM

// A square is mantissa^2 * 2^(2 * (exponent - 150)), its mantissa below 2^24. The warp's sum has a
// top exponent. A mantissa whose exponent is k below that is shifted right by k into 24 + kWindow
// bits, so that for k up to kWindow no bit is lost.
constexpr int kWindow = 28;
// A lane's sum of squares of 28-bit numbers has room for 2^8 of them.
constexpr int kMostTiles = 256 / kItems;
// If a tile's largest exponent is further below the top, its elements would leave the window too
// often.
constexpr int kMostBelowTop = 6;

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

// Loads the magnitudes' bits of this lane's elements of a tile; zeros beyond the array's end.
template <typename T>
__device__ __forceinline__ void LoadTile(const T* x, int64_t count, int64_t tile,
                                         unsigned (&bits)[kItems]) {
  constexpr int kWidth = kPackWidth<T>;
  const int64_t first = tile * kTile + int64_t{threadIdx.x % 32} * kWidth;
  const bool packed = (reinterpret_cast<uintptr_t>(x) % 16 == 0) && (tile + 1) * kTile <= count;
#pragma unroll
  for (int pack = 0; pack < kItems / kWidth; ++pack) {
    const int64_t at = first + int64_t{pack} * 32 * kWidth;
    float values[kWidth];
    if (packed) {
      LoadPack<kWidth>(x + at, values);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = at + i < count ? ToFloat(x[at + i]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      bits[pack * kWidth + i] = __float_as_uint(values[i]) & 0x7fffffffu;
    }
  }
}

template <int kCount>
__device__ __forceinline__ unsigned LargestOfWarp(const unsigned (&bits)[kCount]) {
  unsigned largest = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) largest = bits[i] > largest ? bits[i] : largest;
  return WarpMax(largest);
}

// Counts infinities and NaNs, and replaces them with zeros.
__device__ __forceinline__ void CountSpecial(int64_t* words, unsigned (&bits)[kItems]) {
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (bits[i] < 0x7f800000u) continue;
    AddWord(words, bits[i] > 0x7f800000u ? ExactSum::kNanWord : ExactSum::kInfWord, 1);
    bits[i] = 0;
  }
}

// The stored exponent, 1 for subnormals, and the mantissa with its leading one.
struct Element {
  __device__ __forceinline__ explicit Element(unsigned bits)
      : exponent(bits >= 0x800000u ? static_cast<int>(bits >> 23) : 1),
        mantissa(bits >= 0x800000u ? (bits & 0x7fffffu) | 0x800000u : bits) {}
  int exponent;
  unsigned mantissa;
};

// A lane's part of a warp's sum of squares. Shifted mantissas are high * 2^kWindow + low, and their
// squares are summed in three parts: high^2, high * low and low^2.
class SquareSum {
 public:
  __device__ __forceinline__ explicit SquareSum(int64_t* words) : words_(words) {}

  // Adds a tile whose largest exponent over the whole warp is `top`.
  __device__ __forceinline__ void AddTile(const unsigned (&bits)[kItems], int top) {
    if (top > top_ || top < top_ - kMostBelowTop || tiles_ == kMostTiles) {
      Flush();
      top_ = top;
    }
    ++tiles_;
    unsigned left = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) left |= Add(bits[i]) ? 0u : 1u << i;
    for (; left != 0; left &= left - 1) {
      // A loop over constants, because a variable index would move the elements to local memory.
      unsigned first = 0;
#pragma unroll
      for (int i = kItems; i-- > 0;) first = (left >> i & 1u) != 0 ? bits[i] : first;
      const Element element(first);
      const u64 square = u64{element.mantissa} * element.mantissa;
      AddToWords(words_, {square, 0}, UnitOf(element.exponent));
    }
  }

  // Adds the warp's sum to the words.
  __device__ void Flush() {
    Wide sum = {low_, 0};
    AddWide(sum, ShiftedLeft(cross_, kWindow + 1));
    AddWide(sum, ShiftedLeft(high_, 2 * kWindow));
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      Wide other;
      other.low = __shfl_xor_sync(kWholeWarp, sum.low, mask);
      other.high = __shfl_xor_sync(kWholeWarp, sum.high, mask);
      AddWide(sum, other);
    }
    int unit = UnitOf(top_) - 2 * kWindow;
    if (unit < 0) {
      // There are no bits below one unit: the low bits of a sum of tiny values are zeros.
      const int drop = -unit;
      sum.low = (sum.low >> drop) | (sum.high << (64 - drop));
      sum.high >>= drop;
      unit = 0;
    }
    if (threadIdx.x % 32 == 0) AddToWords(words_, sum, unit);
    high_ = cross_ = low_ = 0;
    tiles_ = 0;
  }

 private:
  // Returns false, and adds nothing, for an element outside of the window.
  __device__ __forceinline__ bool Add(unsigned bits) {
    const Element element(bits);
    const int below = top_ - element.exponent;
    const bool is_inside = below <= kWindow;
    const unsigned mantissa = is_inside ? element.mantissa : 0;
    const auto shift = static_cast<unsigned>(is_inside ? below : 0);
    const unsigned high = mantissa >> shift;
    const unsigned low = __funnelshift_r(0u, mantissa, shift) >> (32 - kWindow);
    high_ += u64{high} * high;
    cross_ += u64{high} * low;
    low_ += u64{low} * low;
    return is_inside || element.mantissa == 0;
  }

  int64_t* const words_;
  int top_ = 1;
  int tiles_ = 0;
  u64 high_ = 0;
  u64 cross_ = 0;
  u64 low_ = 0;
};

// Each warp strides over the tiles.
template <typename T>
__global__ void __launch_bounds__(kThreads, kSquaresBlocks)
    SquareSums(const __grid_constant__ SquaresTable table) {
  SquareSum sum(table.words);
  // The tiles of all arrays are laid end to end. `tile` counts from the current array's first tile.
  int array = 0;
  for (int64_t tile = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;;
       tile += int64_t{gridDim.x} * kWarps) {
    while (array < table.count && tile >= TilesOf(table.arrays[array].count)) {
      tile -= TilesOf(table.arrays[array++].count);
    }
    if (array == table.count) break;
    unsigned bits[kItems];
    LoadTile(static_cast<const T*>(table.arrays[array].x), table.arrays[array].count, tile, bits);
    unsigned largest = LargestOfWarp(bits);
    if (largest >= 0x7f800000u) {
      CountSpecial(table.words, bits);
      largest = LargestOfWarp(bits);
    }
    if (largest == 0) continue;  // the same in every lane
    sum.AddTile(bits, Element(largest).exponent);
  }
  sum.Flush();
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
  const LaunchShape shape = MapShape(tiles * 32, target.multiprocessors, kSquaresBlocks);
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH(SquareSums<T>, shape, target.stream, table);
  });
}

// A warp sums its elements in 128-bit integers that share one exponent, and then adds to a few
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
