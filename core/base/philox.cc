// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace zeroth {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85u;  // sqrt(3) - 1
constexpr int kRounds = 10;

// Separates the blocks of FillNormal from those of the integer and uniform draws of the same
// stream.
constexpr uint64_t kNormalDomain = 0x6e6f726d616c0001u;

constexpr int kLanes = 4;  // words, hence normals, of one block
constexpr int kBlocks =
    16;  // blocks made together, so that the compiler turns the loops below into SIMD code
constexpr int kBatch = kLanes * kBlocks;

inline void Round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0,
                  uint32_t k1) {
  const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c0;
  const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c2;
  c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
  c1 = static_cast<uint32_t>(p1);
  c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
  c3 = static_cast<uint32_t>(p0);
}

// The functions below replace libm's so that a model starts from the same bits on every machine:
// they use only correctly rounded operations in a fixed order (the project is compiled without
// contraction to fused multiply-adds).

// log(u) for normal u in (0, 1], within a few units of the last place: u = 2^e m with m in
// [sqrt(1/2), sqrt(2)), and log(m) = 2 atanh((m - 1) / (m + 1)) by its series.
inline float Log(float u) {
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const int32_t bits = std::bit_cast<int32_t>(u);
  const int32_t exponent = (bits - kSqrtHalf) >> 23;
  const float m = std::bit_cast<float>(bits - (exponent << 23));
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  float series = 0x1.c71c72p-4f;          // 1/9
  series = series * s2 + 0x1.24924ap-3f;  // 1/7
  series = series * s2 + 0x1.99999ap-3f;  // 1/5
  series = series * s2 + 0x1.555556p-2f;  // 1/3
  const float log_m = 2.0f * s + 2.0f * s * (s2 * series);
  return static_cast<float>(exponent) * 0x1.62e430p-1f + log_m;
}

// Computes the point at angle 2 pi turn / 2^32 on the unit circle.
inline void CosSin(uint32_t turn, float& cosine, float& sine) {
  constexpr float kRadiansPerUnit = 0x1.921fb6p-30f;  // 2 pi / 2^32
  const uint32_t quadrant = (turn + (1u << 29)) >> 30;
  // The distance to the quadrant's axis, at most pi / 4 either way, where a few Taylor terms are
  // exact to the last bit.
  const float x =
      static_cast<float>(static_cast<int32_t>(turn - (quadrant << 30))) * kRadiansPerUnit;
  const float x2 = x * x;
  float s = 0x1.71de3ap-19f;     // 1/9!
  s = s * x2 - 0x1.a01a02p-13f;  // 1/7!
  s = s * x2 + 0x1.111112p-7f;   // 1/5!
  s = s * x2 - 0x1.555556p-3f;   // 1/3!
  s = x + x * (x2 * s);
  float c = -0x1.27e4fcp-22f;    // 1/10!
  c = c * x2 + 0x1.a01a02p-16f;  // 1/8!
  c = c * x2 - 0x1.6c16c2p-10f;  // 1/6!
  c = c * x2 + 0x1.555556p-5f;   // 1/4!
  c = 1.0f + x2 * (x2 * c - 0.5f);
  const uint32_t swap = 0u - (quadrant & 1u);
  const uint32_t c_bits = std::bit_cast<uint32_t>(c);
  const uint32_t s_bits = std::bit_cast<uint32_t>(s);
  const uint32_t along = (c_bits & ~swap) | (s_bits & swap);
  const uint32_t across = (s_bits & ~swap) | (c_bits & swap);
  cosine = std::bit_cast<float>(along ^ (((quadrant + 1) & 2u) << 30));
  sine = std::bit_cast<float>(across ^ ((quadrant & 2u) << 30));
}

// Makes two independent standard normals from two words.
inline void BoxMuller(uint32_t a, uint32_t b, float& first, float& second) {
  // The middle of one of 2^31 equal parts of (0, 1): never 0, so that the logarithm is finite.
  const float u = static_cast<float>(static_cast<int32_t>(a >> 1)) * 0x1p-31f + 0x1p-32f;
  const float radius = std::sqrt(-2.0f * Log(u));
  float cosine;
  float sine;
  CosSin(b, cosine, sine);
  first = radius * cosine;
  second = radius * sine;
}

// Computes the standard normals of elements [4 * first_block, 4 * first_block + kBatch).
void NormalBatch(uint64_t first_block, uint64_t stream, std::array<uint32_t, 2> key, float* out) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = static_cast<uint32_t>(stream);
    c3[i] = static_cast<uint32_t>(stream >> 32);
  }
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t k0 = key[0] + static_cast<uint32_t>(round) * kWeyl0;
    const uint32_t k1 = key[1] + static_cast<uint32_t>(round) * kWeyl1;
    for (int i = 0; i < kBlocks; ++i) Round(c0[i], c1[i], c2[i], c3[i], k0, k1);
  }
  float z[kLanes][kBlocks];
  for (int i = 0; i < kBlocks; ++i) BoxMuller(c0[i], c1[i], z[0][i], z[1][i]);
  for (int i = 0; i < kBlocks; ++i) BoxMuller(c2[i], c3[i], z[2][i], z[3][i]);
  for (int i = 0; i < kBlocks; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) out[i * kLanes + lane] = z[lane][i];
  }
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    Round(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// FNV-1a over the bytes, then a finalizer, since FNV alone leaves the high bits of short names
// nearly constant.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

CounterRng::CounterRng(uint64_t seed, absl::string_view name)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      stream_(HashName(name)) {}

std::array<uint32_t, 4> CounterRng::Block(uint64_t index) const {
  return Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                     static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                    key_);
}

uint32_t CounterRng::Bits(uint64_t index) const { return Block(index)[0]; }

uint64_t CounterRng::Bits64(uint64_t index) const {
  const std::array<uint32_t, 4> block = Block(index);
  return (static_cast<uint64_t>(block[1]) << 32) | block[0];
}

float CounterRng::Uniform(uint64_t index) const {
  return static_cast<float>(Bits(index) >> 8) * 0x1p-24f;
}

void CounterRng::FillNormal(uint64_t begin, float stddev, absl::Span<float> out) const {
  float batch[kBatch];
  uint64_t element = begin;
  size_t filled = 0;
  while (filled < out.size()) {
    const uint64_t block = element / kLanes;
    NormalBatch(block, stream_ ^ kNormalDomain, key_, batch);
    const size_t skip = static_cast<size_t>(element - block * kLanes);
    const size_t count = std::min(kBatch - skip, out.size() - filled);
    for (size_t i = 0; i < count; ++i) out[filled + i] = stddev * batch[skip + i];
    filled += count;
    element += count;
  }
}

}  // namespace zeroth
