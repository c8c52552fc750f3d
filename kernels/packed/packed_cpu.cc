// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Blocks are decoded 16 codes at a time, so that one byte shuffle looks up 16 codes of four bits.
// HWY_SCALAR, which has no vectors of 16 bytes, decodes one at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/packed/gguf_values.h"
#include "zeroth/kernels/packed/packed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed/packed_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// values[i] = scale * codes[i] - minimum.
template <typename T>
HWY_INLINE void ScaleCodes(size_t n, const int8_t* codes, const GgufGroup& group, T* values) {
  const hn::CappedTag<float, kGgufRun> d;  // runs are whole vectors
  const hn::Rebind<int8_t, decltype(d)> d8;
  const hn::RebindToSigned<decltype(d)> di;
  const auto scale = hn::Set(d, group.scale);
  const auto minimum = hn::Set(d, group.minimum);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const size_t count = std::min(hn::Lanes(d), n - i);
    const auto code = hn::ConvertTo(d, hn::PromoteTo(di, LoadPlain(d8, codes + i, count)));
    StoreUpTo(hn::Sub(hn::Mul(code, scale), minimum), d, values + i, count);
  }
}

#if HWY_TARGET == HWY_SCALAR  // without vectors of 16 bytes

template <typename T>
void LookUpNf4Block(const T* table, const uint8_t* codes, T* values) {
  for (int64_t i = 0; i < PackedShape::kNf4Block / 2; ++i) {
    values[2 * i] = table[codes[i] >> 4];
    values[2 * i + 1] = table[codes[i] & 15];
  }
}

template <PackedFormat Format, int kRun>
void DecodeRun(const uint8_t* block, int8_t* codes) {
  for (int i = 0; i < kGgufRun; ++i) {
    codes[kRun * kGgufRun + i] =
        static_cast<int8_t>(GgufCodeOf<Format>(block, GgufRunOf<Format>(kRun), i));
  }
}

#else

using Bytes = hn::FixedTag<uint8_t, kGgufRun>;

// Stores table[code] for the 64 codes of a block of NF4.
template <typename T>
HWY_INLINE void LookUpNf4Block(const T* table, const uint8_t* codes, T* values) {
  const Bytes d;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(table);
  auto* const to = reinterpret_cast<uint8_t*>(values);
  const auto for_codes = [&](const auto& store) ZEROTH_INLINE_LAMBDA {
    for (size_t i = 0; i < PackedShape::kNf4Block / 2; i += kGgufRun) {
      const auto both = hn::LoadU(d, codes + i);
      const auto first = hn::ShiftRight<4>(both);
      const auto second = hn::And(both, hn::Set(d, uint8_t{15}));
      store(hn::InterleaveLower(d, first, second), 2 * i);
      store(hn::InterleaveUpper(d, first, second), 2 * i + kGgufRun);
    }
  };
  hn::Vec<Bytes> byte0, byte1, byte2, byte3;
  if constexpr (sizeof(T) == 2) {
    hn::LoadInterleaved2(d, bytes, byte0, byte1);
    for_codes([&](auto code, size_t at) ZEROTH_INLINE_LAMBDA {
      hn::StoreInterleaved2(hn::TableLookupBytes(byte0, code), hn::TableLookupBytes(byte1, code), d,
                            to + at * sizeof(T));
    });
  } else {
    hn::LoadInterleaved4(d, bytes, byte0, byte1, byte2, byte3);
    for_codes([&](auto code, size_t at) ZEROTH_INLINE_LAMBDA {
      hn::StoreInterleaved4(hn::TableLookupBytes(byte0, code), hn::TableLookupBytes(byte1, code),
                            hn::TableLookupBytes(byte2, code), hn::TableLookupBytes(byte3, code), d,
                            to + at * sizeof(T));
    });
  }
}

// Decodes run number kRun of a block into codes[kRun * kGgufRun ...].
template <PackedFormat Format, int kRun>
HWY_INLINE void DecodeRun(const uint8_t* block, int8_t* codes) {
  constexpr GgufRun kFrom = GgufRunOf<Format>(kRun);
  constexpr int kPlace = kGgufUpperPlace<Format>;
  const Bytes d;
  const hn::RepartitionToWide<Bytes> d16;
  auto code = hn::And(hn::ShiftRight<kFrom.shift>(hn::LoadU(d, block + kFrom.lower)),
                      hn::Set(d, uint8_t{kFrom.mask}));
  if constexpr (Format == PackedFormat::kMxfp4) {
    const auto table = hn::LoadU(hn::RebindToSigned<Bytes>(), kMxfp4TwiceValues);
    code = hn::TableLookupBytes(hn::BitCast(d, table), code);
  } else if constexpr (kHasFifths<Format>) {
    // Each of the two bytes of fifth bits, repeated for its eight elements.
    uint16_t bits;
    std::memcpy(&bits, block + kFrom.upper, sizeof(bits));
    const auto both = hn::BitCast(d, hn::Set(d16, bits));
    const auto bytes = hn::TableLookupBytes(both, hn::ShiftRight<3>(hn::Iota(d, 0)));
    const auto bit =
        hn::BitCast(d, hn::Set(hn::Repartition<uint64_t, Bytes>(), 0x8040201008040201u));
    const auto fifth = hn::Set(d, uint8_t{1 << kPlace});
    code = hn::Or(code, hn::IfThenElseZero(hn::TestBit(bytes, bit), fifth));
  } else if constexpr (kGgufUpperMask<Format> != 0) {
    const auto upper = hn::And(hn::ShiftRight<kFrom.upper_shift>(hn::LoadU(d, block + kFrom.upper)),
                               hn::Set(d, uint8_t{kGgufUpperMask<Format>}));
    code = hn::Or(code, hn::ShiftLeft<kPlace>(upper));
  }
  code = hn::Sub(code, hn::Set(d, uint8_t{kGgufBias<Format>}));
  hn::StoreU(code, d, reinterpret_cast<uint8_t*>(codes) + kRun * kGgufRun);
}

#endif  // HWY_TARGET

template <typename T>
HWY_INLINE void UnpackNf4Row(const UnpackCall& call, const float* scales, int64_t row,
                             const uint8_t* codes, T* values) {
  HWY_ALIGN T table[16];
  const int64_t blocks = call.cols / PackedShape::kNf4Block;
  for (int64_t block = 0; block < blocks; ++block) {
    const float magnitude = call.shape.MagnitudeOf(call.FirstBlock(row) + block,
                                                   codes[PackedShape::kNf4BlockBytes - 1], scales);
    Transform(
        16, table, [&](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, magnitude)); },
        kNf4Values.data());
    LookUpNf4Block(table, codes, values);
    codes += PackedShape::kNf4BlockBytes;
    values += PackedShape::kNf4Block;
  }
}

// Not inlined, so that it is compiled once for all element types.
template <PackedFormat Format>
HWY_NOINLINE void DecodeBlock(const uint8_t* block, int8_t* codes) {
  [&]<int... kRun>(std::integer_sequence<int, kRun...>) ZEROTH_INLINE_LAMBDA {
    (DecodeRun<Format, kRun>(block, codes), ...);
  }
  (std::make_integer_sequence<int, PackedShape{Format}.block() / kGgufRun>());
}

template <typename T, PackedFormat Format>
HWY_INLINE void UnpackGgufRow(const UnpackCall& call, const uint8_t* codes, T* values) {
  constexpr PackedShape kOne = {Format};
  constexpr int kGroup = kGgufGroup<Format>;
  HWY_ALIGN int8_t decoded[kOne.block()];
  for (int64_t block = 0; block < call.cols / kOne.block(); ++block) {
    DecodeBlock<Format>(codes, decoded);
    for (int begin = 0; begin < kOne.block(); begin += kGroup) {
      ScaleCodes(kGroup, decoded + begin, GgufGroupOf<Format>(codes, begin / kGroup),
                 values + begin);
    }
    codes += kOne.block_bytes();
    values += kOne.block();
  }
}

// Unpacks rows [begin, end) of all blocks, one after the other.
void UnpackRows(const UnpackCall& call, int64_t begin, int64_t end) {
  const int64_t row_bytes = call.shape.CodeBytes(call.cols);
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const auto for_rows = [&](const auto& unpack_row) HWY_ATTR {
      for (int64_t at = begin; at < end; ++at) {
        const UnpackArrays& block = call.blocks[static_cast<size_t>(at / call.rows)];
        const int64_t row = at % call.rows;
        unpack_row(block.scales, row, block.codes + row * row_bytes,
                   static_cast<T*>(block.values) + row * call.cols);
      }
    };
    if (call.shape.format == PackedFormat::kNf4) {
      return for_rows([&](const float* scales, int64_t row, const uint8_t* codes, T* values)
                          HWY_ATTR { UnpackNf4Row(call, scales, row, codes, values); });
    }
    if (call.shape.format == PackedFormat::kInt8) {
      return for_rows(
          [&](const float* scales, int64_t row, const uint8_t* codes, T* values) HWY_ATTR {
            ScaleCodes(static_cast<size_t>(call.cols), reinterpret_cast<const int8_t*>(codes),
                       {scales[call.row + row]}, values);
          });
    }
    WithGgufFormat(call.shape.format, [&]<PackedFormat Format>() HWY_ATTR {
      for_rows([&](const float*, int64_t, const uint8_t* codes, T* values)
                   HWY_ATTR { UnpackGgufRow<T, Format>(call, codes, values); });
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(UnpackRows);

absl::Status Unpack(const UnpackCall& call, CpuKernels&) {
  // Threads divide only the rows of used matrices, so that their work is balanced.
  UnpackCall used = call;
  used.blocks.clear();
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    if (!call.IsUnused(i)) used.blocks.push_back(call.blocks[i]);
  }
  return ForRows(static_cast<int64_t>(used.blocks.size()) * call.rows, call.cols, used,
                 HWY_DYNAMIC_DISPATCH(UnpackRows));
}
const OnCpu<Unpack> unpack;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
