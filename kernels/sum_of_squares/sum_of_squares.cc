// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

constexpr int kBinBits = ExactSum::kBinBits;
constexpr int64_t kBinMask = (int64_t{1} << kBinBits) - 1;
// The number of digits of all words, including the 64 bits of the top one.
constexpr int kDigits = ExactSum::kBins + 3;

struct Digits {
  std::array<int64_t, kDigits> value;  // each in [0, 2^kBinBits), most significant last
  bool negative = false;
};

// Returns the unique non-negative digits of |sum|.
Digits ToDigits(absl::Span<const int64_t> words) {
  Digits digits;
  int64_t carry = 0;
  for (int i = 0; i < kDigits; ++i) {
    // Split before adding, so that a word near the limits cannot overflow.
    const int64_t word = i < ExactSum::kBins ? words[i] : 0;
    const int64_t low = (word & kBinMask) + (carry & kBinMask);
    digits.value[i] = low & kBinMask;
    carry = (word >> kBinBits) + (carry >> kBinBits) + (low >> kBinBits);
  }
  digits.negative = carry < 0;
  if (digits.negative) {
    int64_t borrow = 0;
    for (int64_t& digit : digits.value) {
      const int64_t negated = borrow - digit;
      digit = negated & kBinMask;
      borrow = negated >> kBinBits;
    }
  }
  return digits;
}

// Returns the nearest double, ties to even. It takes the 64 leading bits, and sets the last of them
// if any lower bit is set.
double Round(const std::array<int64_t, kDigits>& digits) {
  int place = kDigits - 1;
  while (place >= 0 && digits[place] == 0) --place;
  if (place < 0) return 0.0;

  uint64_t leading = static_cast<uint64_t>(digits[place]);
  int room = std::countl_zero(leading);
  int exponent = kBinBits * place + ExactSum::kMinExponent;
  bool sticky = false;
  while (--place >= 0) {
    const uint64_t digit = static_cast<uint64_t>(digits[place]);
    if (room == 0) {
      sticky = sticky || digit != 0;
      continue;
    }
    const int taken = room < kBinBits ? room : kBinBits;
    const int dropped = kBinBits - taken;
    leading = (leading << taken) | (digit >> dropped);
    sticky = sticky || (digit & ((uint64_t{1} << dropped) - 1)) != 0;
    exponent -= taken;
    room -= taken;
  }
  return std::ldexp(static_cast<double>(leading | (sticky ? 1 : 0)), exponent);
}

}  // namespace

double ExactSum::Decode(absl::Span<const int64_t> words) {
  ZEROTH_CHECK(words.size() == kWords);
  if (words[kNanWord] != 0) return std::numeric_limits<double>::quiet_NaN();
  if (words[kInfWord] != 0) return std::numeric_limits<double>::infinity();
  const Digits digits = ToDigits(words);
  const double magnitude = Round(digits.value);
  return digits.negative ? -magnitude : magnitude;
}

void ExactSum::AddSquare(float value, absl::Span<int64_t> words) {
  ZEROTH_CHECK(words.size() == kWords);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint64_t mantissa = bits & 0x007fffffu;
  const int field = static_cast<int>((bits >> 23) & 0xffu);
  if (field == 0xff) {
    ++words[mantissa != 0 ? kNanWord : kInfWord];
    return;
  }
  // value = significand * 2^(exponent - 149). Subnormals have the exponent of the smallest normal
  // number.
  const uint64_t significand = field == 0 ? mantissa : mantissa | 0x00800000u;
  const int exponent = field == 0 ? 0 : field - 1;
  const uint64_t square = significand * significand;  // units of 2^(2 exponent + kMinExponent)
  int word = 2 * exponent / kBinBits;
  const int shift = 2 * exponent % kBinBits;
  words[word] += static_cast<int64_t>((square << shift) & static_cast<uint64_t>(kBinMask));
  for (uint64_t rest = square >> (kBinBits - shift); rest != 0; rest >>= kBinBits) {
    words[++word] += static_cast<int64_t>(rest & static_cast<uint64_t>(kBinMask));
  }
  Normalize(words);
}

void ExactSum::Normalize(absl::Span<int64_t> words) {
  ZEROTH_CHECK(words.size() == kWords);
  for (int i = 0; i + 1 < kBins; ++i) {
    words[i + 1] += words[i] >> kBinBits;
    words[i] &= kBinMask;
  }
}

namespace kernels {

absl::Status AddSquares(Kernels& kernels, absl::Span<const Tensor> xs, const Tensor& sum) {
  Operation op("AddSquares", kernels);
  AddSquaresCall call;
  call.arrays.reserve(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string field = xs.size() == 1 ? "x" : absl::StrCat("xs[", i, "]");
    op.NextFields();  // types may differ
    SharedType type;
    if (!op.Kind(field.c_str(), xs[i], type)) return op.status();
    call.arrays.push_back({xs[i].numel(), type.dtype, xs[i].raw_data()});
  }
  if (!op.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64)) return op.status();
  call.words = sum.data<int64_t>();
  return op.Run(call);
}

absl::Status ClipFactor(Kernels& kernels, const Tensor& sum, double scale, double max_norm,
                        const Tensor& norm_and_factor) {
  Operation op("ClipFactor", kernels);
  op.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64);
  op.Require(scale >= 0, "scale", absl::StrCat("is ", scale, ", expected 0 or more"));
  op.Require(!std::isnan(max_norm), "max_norm", "is NaN");
  if (!op.Exactly("norm_and_factor", norm_and_factor, {2}, DType::kFloat32)) return op.status();
  return op.Run(
      ClipFactorCall{sum.data<int64_t>(), scale, max_norm, norm_and_factor.data<float>()});
}

}  // namespace kernels
}  // namespace zeroth
