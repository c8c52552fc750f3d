// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_of_squares/sum_of_squares_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// The square of a float is exact in a double, has at most 48 bits, and covers a few words of an
// ExactSum. Adding it to a double whose last bit is one unit of a word, and subtracting that double
// again, rounds the square to a multiple of the unit. The remainder goes to the next lower word in
// the same way. Every step is exact (the error-free extraction of Rump, Ogita and Oishi, "Accurate
// floating-point summation", 2008). The accumulators sum the extracted parts, exactly as well.

constexpr double PowerOfTwo(int exponent) {
  double power = 1.0;
  for (; exponent > 0; --exponent) power *= 2.0;
  for (; exponent < 0; ++exponent) power *= 0.5;
  return power;
}

constexpr int WordExponent(int word) { return ExactSum::kBinBits * word + ExactSum::kMinExponent; }

struct WordConstants {
  double start;  // 1.5 * 2^52 units: the last bit of sums within 2^51 units of it is one unit
  double units;  // 1 / unit
};

constexpr std::array<WordConstants, ExactSum::kBins> MakeConstants() {
  std::array<WordConstants, ExactSum::kBins> constants{};
  for (int word = 0; word < ExactSum::kBins; ++word) {
    constants[word] = {1.5 * PowerOfTwo(52 + WordExponent(word)), PowerOfTwo(-WordExponent(word))};
  }
  return constants;
}
constexpr std::array<WordConstants, ExactSum::kBins> kConstants = MakeConstants();

// A block fits into the L1 cache, since it is read twice. Its size also bounds the accumulators: a
// square adds at most 2^26 units to its top word.
constexpr size_t kBlock = 8192;
static_assert(kBlock <= size_t{1} << 25);

// The bits of the largest magnitude, and the bits of the smallest nonzero one, minus 1. The minus 1
// makes zeros wrap to all ones, so that the minimum ignores them.
struct MagnitudeRange {
  uint32_t largest;
  uint32_t smallest_minus_one;
};

// Returns the range of the values, converted to fp32.
template <typename T>
HWY_INLINE MagnitudeRange FindRange(size_t n, const T* x) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToFloat<decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude_mask = hn::Set(d, 0x7fffffffu);
  const auto one = hn::Set(d, 1u);
  auto largest = hn::Zero(d);
  auto smallest = hn::Set(d, ~uint32_t{0});
  const auto include = [&](auto v) HWY_ATTR {
    const auto magnitude = hn::And(hn::BitCast(d, v), magnitude_mask);
    largest = hn::Max(largest, magnitude);
    smallest = hn::Min(smallest, hn::Sub(magnitude, one));
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) include(LoadElements(df, x + i));
  if (i < n) include(LoadFirstElements(df, x + i, n - i));
  return {hn::GetLane(hn::MaxOfLanes(d, largest)), hn::GetLane(hn::MinOfLanes(d, smallest))};
}

// Adds the squares of one block. All of their bits lie in words (top - kCount, top].
template <size_t kCount, typename T>
HWY_INLINE void AddBlock(size_t n, const T* x, int top, int64_t* words) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const auto add = [d](const auto& v, auto&... sums) ZEROTH_INLINE_LAMBDA {
    const V wide = hn::PromoteTo(d, v);
    V rest = hn::Mul(wide, wide);
    const auto add_word = [&](auto k, V& word) ZEROTH_INLINE_LAMBDA {
      const V sum = hn::Add(word, rest);
      if constexpr (k + 1 < kCount) rest = hn::Sub(rest, hn::Sub(sum, word));
      word = sum;
    };
    ForEachVector(add_word, sums...);
  };
  const auto start = [&](size_t k) ZEROTH_INLINE_LAMBDA {
    return hn::Set(d, kConstants[top - static_cast<int>(k)].start);
  };
  // Two sets of accumulators hide the latency of additions.
  WithVectors<kCount>(start, [&](auto&... even) ZEROTH_INLINE_LAMBDA {
    WithVectors<kCount>(start, [&](auto&... odd) ZEROTH_INLINE_LAMBDA {
      size_t i = 0;
      for (; i + 2 * lanes <= n; i += 2 * lanes) {
        add(LoadElements(df, x + i), even...);
        add(LoadElements(df, x + i + lanes), odd...);
      }
      for (; i < n; i += lanes) add(LoadFirstElements(df, x + i, std::min(lanes, n - i)), even...);
      const auto collect = [&](auto k, const V& even_sum) ZEROTH_INLINE_LAMBDA {
        const V sum = hn::Add(hn::Sub(even_sum, start(k)), hn::Sub(VectorAt<k>(odd...), start(k)));
        HWY_ALIGN double units[HWY_MAX_BYTES / sizeof(double)];
        const int word = top - static_cast<int>(k);
        hn::Store(hn::Mul(sum, hn::Set(d, kConstants[word].units)), d, units);
        for (size_t lane = 0; lane < lanes; ++lane)
          words[word] += static_cast<int64_t>(units[lane]);
      };
      ForEachVector(collect, even...);
    });
  });
}

float Widen(float x) { return x; }
float Widen(BFloat16 x) { return ToFloat(x); }
float Widen(Float16 x) { return ToFloat(x); }

constexpr int MantissaBits(float) { return 23; }
constexpr int MantissaBits(BFloat16) { return 7; }
constexpr int MantissaBits(Float16) { return 10; }

template <typename T>
HWY_INLINE void AddBlockOfAnyRange(size_t n, const T* x, int64_t* words) {
  const MagnitudeRange range = FindRange(n, x);
  if (range.largest == 0) return;
  if (range.largest >= 0x7f800000u) {
    for (size_t i = 0; i < n; ++i) {
      ExactSum::AddSquare(Widen(x[i]), absl::MakeSpan(words, ExactSum::kWords));
    }
    return;
  }
  // A value with exponent field e is below 2^(e - 126) and a multiple of the last bit of its
  // mantissa, in fp32 2^(e - 150); subnormals have the multiples of e = 1.
  const int highest_bit = 2 * static_cast<int>(range.largest >> 23) - 253;
  const int smallest_field = static_cast<int>((range.smallest_minus_one + 1) >> 23);
  const int lowest_bit = 2 * (std::max(1, smallest_field) - 127 - MantissaBits(T{}));
  const int top = (highest_bit - ExactSum::kMinExponent) / ExactSum::kBinBits;
  const int bottom = (lowest_bit - ExactSum::kMinExponent) / ExactSum::kBinBits;
  switch (const int count = top - bottom + 1; count) {
    case 1:
    case 2:
    case 3:
      return AddBlock<3>(n, x, std::max(top, 2), words);
    case 4:
      return AddBlock<4>(n, x, top, words);
    case 5:
      return AddBlock<5>(n, x, top, words);
    case 6:
      return AddBlock<6>(n, x, top, words);
    default:
      return AddBlock<ExactSum::kBins>(n, x, ExactSum::kBins - 1, words);
  }
}

void AddPiece(const AddSquaresCall::Array& array, int64_t begin, int64_t end, int64_t* words) {
  WithElementType(array.dtype, [&](auto element) HWY_ATTR {
    const size_t n = static_cast<size_t>(end - begin);
    const auto* piece = static_cast<const decltype(element)*>(array.x) + begin;
    for (size_t i = 0; i < n; i += kBlock)
      AddBlockOfAnyRange(std::min(kBlock, n - i), piece + i, words);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(AddPiece);

absl::Status AddSquares(const AddSquaresCall& call, CpuKernels&) {
  // A square adds less than 2^27 units to a word, so that the words of a piece cannot overflow
  // before they are normalised.
  constexpr int64_t kPiece = int64_t{1} << 18;
  std::vector<int64_t> lengths;
  lengths.reserve(call.arrays.size());
  for (const AddSquaresCall::Array& array : call.arrays) lengths.push_back(array.count);
  const auto add = HWY_DYNAMIC_DISPATCH(AddPiece);
  std::mutex mutex;
  ParallelForRanges(lengths, kPiece, [&](size_t i, int64_t begin, int64_t end) {
    std::array<int64_t, ExactSum::kWords> piece{};
    add(call.arrays[i], begin, end, piece.data());
    ExactSum::Normalize(absl::MakeSpan(piece));
    std::lock_guard<std::mutex> lock(mutex);
    for (int word = 0; word < ExactSum::kWords; ++word) call.words[word] += piece[word];
  });
  ExactSum::Normalize(absl::MakeSpan(call.words, ExactSum::kWords));
  return absl::OkStatus();
}
const OnCpu<AddSquares> add_squares;

absl::Status ClipFactor(const ClipFactorCall& call, CpuKernels&) {
  constexpr double kEpsilon = 1e-6;  // torch's
  const double norm =
      std::sqrt(ExactSum::Decode(absl::MakeSpan(call.words, ExactSum::kWords))) * call.scale;
  double factor = 1.0;
  if (call.max_norm > 0) {
    const double ratio = call.max_norm / (norm + kEpsilon);
    if (ratio < 1.0) factor = ratio;
  }
  call.norm_and_factor[0] = static_cast<float>(norm);
  call.norm_and_factor[1] = std::isfinite(call.norm_and_factor[0])
                                ? static_cast<float>(factor)
                                : std::numeric_limits<float>::quiet_NaN();
  return absl::OkStatus();
}
const OnCpu<ClipFactor> clip_factor;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
