// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// 8-bit floats on the CPU, which reproduce a GPU's numerics and are not fast: CPUs do not multiply
// them. bf16 can represent every number of both formats, so that matmuls run in bf16, with exact
// operands.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fp8/fp8_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Returns the codes of x, rounded to nearest even.
template <Fp8Format kFormat, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> Encode(D d, hn::Vec<D> x) {
  constexpr Fp8Numbers kNumbers = NumbersOf(kFormat);
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto magnitude = hn::Min(hn::Abs(x), hn::Set(d, kNumbers.largest));
  const auto bits = hn::BitCast(di, magnitude);
  // Normal numbers: the mantissa's upper bits, rounded. A carry increments the exponent.
  constexpr int kDropped = 23 - kNumbers.mantissa_bits;
  const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(di, 1));
  const auto half = hn::Set(di, (int32_t{1} << (kDropped - 1)) - 1);
  const auto normal = hn::Sub(hn::ShiftRight<kDropped>(hn::Add(bits, hn::Add(half, odd))),
                              hn::Set(di, (127 - kNumbers.bias) << kNumbers.mantissa_bits));
  // Subnormal numbers count steps of 2^(1 - bias - mantissa_bits). The sum with 2^23 steps has this
  // count in its lowest bits.
  constexpr int32_t kBig = (127 + 24 - kNumbers.bias - kNumbers.mantissa_bits) << 23;
  const auto big = hn::Set(di, kBig);
  const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(magnitude, hn::BitCast(d, big))), big);
  constexpr int32_t kSmallestNormal = (128 - kNumbers.bias) << 23;
  const auto code = hn::IfThenElse(hn::Lt(bits, hn::Set(di, kSmallestNormal)), subnormal, normal);
  const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80u));
  return hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(x)), hn::Set(di, Fp8Numbers::kNaNCode),
                        hn::Or(code, hn::BitCast(di, sign)));
}

template <typename T, Fp8Format kFormat>
HWY_INLINE void EncodeRow(size_t n, const void* from, float multiplier, uint8_t* to) {
  const T* values = static_cast<const T*>(from);
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, multiplier);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    const auto x = LoadUpTo(d, values + i, count);
    StorePlain(hn::DemoteTo(d8, Encode<kFormat>(d, hn::Mul(x, factor))), d8, to + i, count);
  }
}

uint32_t LargestOf(DType dtype, size_t n, const void* values) {
  return WithElementType(dtype, [&](auto element) HWY_ATTR {
    return LargestMagnitude(n, static_cast<const decltype(element)*>(values));
  });
}

void EncodeValues(DType dtype, Fp8Format format, size_t n, const void* values, float multiplier,
                  uint8_t* to) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    if (format == Fp8Format::kE4M3) {
      EncodeRow<T, Fp8Format::kE4M3>(n, values, multiplier, to);
    } else {
      EncodeRow<T, Fp8Format::kE5M2>(n, values, multiplier, to);
    }
  });
}

// Decodes codes to bf16, which can represent all of their numbers.
template <Fp8Format kFormat>
HWY_INLINE void DecodeCodes(size_t n, const uint8_t* codes, BFloat16* to) {
  constexpr Fp8Numbers kNumbers = NumbersOf(kFormat);
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const size_t lanes = hn::Lanes(d);
  const auto rebias = hn::Set(di, (127 - kNumbers.bias) << 23);
  const auto step =
      hn::BitCast(d, hn::Set(di, (128 - kNumbers.bias - kNumbers.mantissa_bits) << 23));
  const auto smallest_normal = hn::Set(di, 1 << kNumbers.mantissa_bits);
  const auto top = hn::Set(di, kNumbers.top_code);
  // Codes above the top one are NaN, except for the first one of e5m2, which is infinity.
  const auto infinity = hn::Set(di, kFormat == Fp8Format::kE5M2 ? kNumbers.top_code + 1 : -1);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    const auto code = hn::PromoteTo(di, LoadPlain(d8, codes + i, count));
    const auto magnitude = hn::And(code, hn::Set(di, 0x7f));
    const auto normal = hn::Add(hn::ShiftLeft<23 - kNumbers.mantissa_bits>(magnitude), rebias);
    const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), step));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, smallest_normal), subnormal, normal);
    const auto special = hn::IfThenElse(hn::Eq(magnitude, infinity), hn::Set(di, 0x7f800000),
                                        hn::Set(di, 0x7fc00000));
    bits = hn::IfThenElse(hn::Gt(magnitude, top), special, bits);
    const auto sign = hn::ShiftLeft<8>(hn::And(code, hn::Set(di, 0x80)));
    const auto halves = hn::DemoteTo(d16, hn::Or(hn::ShiftRight<16>(bits), sign));
    StorePlain(halves, d16, reinterpret_cast<uint16_t*>(to + i), count);
  }
}

void DecodeAny(Fp8Format format, size_t n, const uint8_t* codes, BFloat16* to) {
  if (format == Fp8Format::kE4M3) return DecodeCodes<Fp8Format::kE4M3>(n, codes, to);
  DecodeCodes<Fp8Format::kE5M2>(n, codes, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(LargestOf);
HWY_EXPORT(EncodeValues);
HWY_EXPORT(DecodeAny);

// The codes of a tile stay in the L1 cache until they are written to both outputs.
constexpr int64_t kTile = 64;
constexpr int64_t kTilesPerPiece = kElementGrain / (kTile * kTile);
// Number of rows of c that are computed at a time.
constexpr int64_t kGemmRows = 1024;

const void* ValuesAt(const CastFp8Call& call, int64_t row, int64_t col) {
  return Advance(call.values, row * call.stride + col, call.dtype);
}

absl::StatusOr<float> LargestValue(const CastFp8Call& call, Workspace& workspace) {
  const auto largest = HWY_DYNAMIC_DISPATCH(LargestOf);
  const int64_t grain = RowGrain(call.cols);
  const int64_t pieces = (call.rows + grain - 1) / grain;
  ZEROTH_ASSIGN_OR_RETURN(void* const scratch,
                          workspace.Reserve(static_cast<size_t>(pieces) * sizeof(uint32_t)));
  uint32_t* const of_pieces = static_cast<uint32_t*>(scratch);
  ParallelFor(call.rows, grain, [&](int64_t piece, int64_t begin, int64_t end) {
    uint32_t bits = 0;
    for (int64_t row = begin; row < end; ++row) {
      bits = std::max(bits,
                      largest(call.dtype, static_cast<size_t>(call.cols), ValuesAt(call, row, 0)));
    }
    of_pieces[piece] = bits;
  });
  uint32_t bits = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) bits = std::max(bits, of_pieces[piece]);
  return std::bit_cast<float>(bits);
}

// Writes the codes of the tile that begins at [row, col] to the outputs.
void CastTile(const CastFp8Call& call, float multiplier, int64_t row, int64_t col) {
  const auto encode = HWY_DYNAMIC_DISPATCH(EncodeValues);
  const int64_t rows = std::min(kTile, call.rows - row);
  const int64_t cols = std::min(kTile, call.cols - col);
  uint8_t tile[kTile][kTile];
  for (int64_t r = 0; r < rows; ++r) {
    encode(call.dtype, call.format, static_cast<size_t>(cols), ValuesAt(call, row + r, col),
           multiplier, tile[r]);
    if (call.codes != nullptr) {
      std::memcpy(call.codes + (row + r) * call.cols + col, tile[r], static_cast<size_t>(cols));
    }
  }
  if (call.codes_transposed == nullptr) return;
  const int64_t depth = PaddedFp8Depth(call.rows);
  // The tile with the last rows also writes the padding.
  const int64_t end = row + rows == call.rows ? depth - row : rows;
  for (int64_t c = 0; c < cols; ++c) {
    uint8_t* const to = call.codes_transposed + (col + c) * depth + row;
    for (int64_t r = 0; r < rows; ++r) to[r] = tile[r][c];
    std::fill(to + rows, to + end, uint8_t{0});
  }
}

void Decode(int64_t count, const uint8_t* codes, Fp8Format format, BFloat16* to) {
  const auto decode = HWY_DYNAMIC_DISPATCH(DecodeAny);
  ParallelFor(count, kElementGrain, [&](int64_t, int64_t begin, int64_t end) {
    decode(format, static_cast<size_t>(end - begin), codes + begin, to + begin);
  });
}

absl::Status CastFp8(const CastFp8Call& call, CpuKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(const float largest, LargestValue(call, kernels.workspace()));
  const float multiplier = Fp8Multiplier(call.format, largest);
  call.scale[0] = 1.0f / multiplier;
  call.scale[1] = largest;
  const int64_t across = (call.cols + kTile - 1) / kTile;
  const int64_t tiles = (call.rows + kTile - 1) / kTile * across;
  ParallelFor(tiles, kTilesPerPiece, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      CastTile(call, multiplier, tile / across * kTile, tile % across * kTile);
    }
  });
  return absl::OkStatus();
}
const OnCpu<CastFp8> cast_fp8;

const KernelTable<SupportsFp8Call>::Registration supports_fp8(
    "cpu", [](Kernels&, const SupportsFp8Call&, CallTensors) { return absl::OkStatus(); });

// Decodes b and some rows of a to bf16 at a time, and multiplies them to fp32.
absl::Status Fp8Gemm(const Fp8GemmCall& call, CpuKernels& kernels) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  const float scale = call.a_scale[0] * call.b_scale[0];
  const int64_t step = std::min(call.m, kGemmRows);
  const int64_t halves = (call.n + step) * call.k;
  ZEROTH_ASSIGN_OR_RETURN(float* const product,
                          kernels.workspace().ReserveFloats(step * call.n + (halves + 1) / 2));
  BFloat16* const b = reinterpret_cast<BFloat16*>(product + step * call.n);
  BFloat16* const a = b + call.n * call.k;
  Decode(call.n * call.k, call.b, call.b_format, b);
  GemmCall result;
  result.m = call.m;
  result.n = call.n;
  result.dtype = call.c_dtype;
  result.c_dtype = call.c_dtype;
  result.bias = call.bias;
  result.accumulate = call.accumulate;
  result.c = call.c;
  result.ldc = call.ldc;
  GemmCall gemm;
  gemm.n = call.n;
  gemm.k = call.k;
  gemm.dtype = DType::kBFloat16;
  gemm.a = a;
  gemm.lda = call.k;
  gemm.b = b;
  gemm.ldb = call.k;
  gemm.transpose_b = true;
  gemm.c = product;
  gemm.ldc = call.n;
  for (int64_t row = 0; row < call.m; row += step) {
    gemm.m = std::min(step, call.m - row);
    Decode(gemm.m * call.k, call.a + row * call.k, call.a_format, a);
    ZEROTH_RETURN_IF_ERROR(Gemm(gemm, kernels));
    ParallelFor(gemm.m * gemm.n, kElementGrain, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) product[i] *= scale;
    });
    ApplyEpilogue(BlockOf(result, {row, 0, gemm.m, gemm.n}), product, gemm.n);
  }
  return absl::OkStatus();
}
const OnCpu<Fp8Gemm> fp8_gemm;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
