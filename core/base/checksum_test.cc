// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/processor.h"
#include "zeroth/core/base/xxh3_variant.h"

namespace zeroth {
namespace {

TEST(ChecksumTest, IsTheOneThatTheFormatNames) {
  // Files outlive the library, so its result is fixed: this is the value for no bytes in XXH3's
  // specification.
  EXPECT_EQ(ChecksumText(ChecksumOf(absl::string_view())), "2d06800538d394c2");
}

// The variants that this processor can run.
std::vector<const Xxh3Variant*> Variants() {
  std::vector<const Xxh3Variant*> variants = {&kXxh3Portable};
  if (HasAvx2()) variants.push_back(&kXxh3Avx2);
  if (HasAvx512F()) variants.push_back(&kXxh3Avx512);
  return variants;
}

TEST(ChecksumTest, EveryProcessorComputesTheSame) {
  std::vector<uint8_t> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i % 251);
  for (size_t size = 0; size < bytes.size() - 8; size += size < 600 ? 1 : 97) {
    for (const size_t begin : {0u, 1u, 7u}) {
      // The library's own variant.
      const uint64_t expected = XXH3_64bits(bytes.data() + begin, size);
      EXPECT_EQ(ChecksumOf(absl::MakeConstSpan(bytes).subspan(begin, size)), expected) << size;
      for (const Xxh3Variant* variant : Variants()) {
        EXPECT_EQ(variant->hash(bytes.data() + begin, size), expected) << size;
      }
    }
  }
}

TEST(ChecksumTest, PartsMakeTheWhole) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> bytes(random() % 3000);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    ChecksumStream stream;
    absl::Span<const uint8_t> rest = bytes;
    while (!rest.empty()) {
      const size_t count = std::min<size_t>(rest.size(), random() % 900);
      stream.Add(rest.subspan(0, count));
      rest.remove_prefix(count);
    }
    EXPECT_EQ(stream.Value(), ChecksumOf(absl::MakeConstSpan(bytes)));
    for (const Xxh3Variant* variant : Variants()) {
      alignas(kXxh3StateAlignment) static uint8_t state[kXxh3StateBytes];
      variant->reset(state);
      variant->update(state, bytes.data(), bytes.size() / 3);
      variant->update(state, bytes.data() + bytes.size() / 3, bytes.size() - bytes.size() / 3);
      EXPECT_EQ(variant->digest(state), stream.Value());
    }
  }
}

TEST(ChecksumTest, SeesEveryBit) {
  for (const size_t size : {1u, 17u, 129u, 300u}) {
    std::string text(size, 'x');
    const uint64_t whole = ChecksumOf(text);
    for (size_t i = 0; i < size * 8; ++i) {
      text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << (i % 8)));
      EXPECT_NE(ChecksumOf(text), whole) << i;
      text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << (i % 8)));
    }
    EXPECT_EQ(ChecksumOf(text), whole);
  }
}

TEST(ChecksumTest, TextsReadBack) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{0xfedcba9876543210}, ~uint64_t{0}}) {
    const auto parsed = ParseChecksum(ChecksumText(value));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, value);
  }
  for (const char* text : {"", "0", "000000000000000g", "000000000000000A", "00000000000000001"}) {
    EXPECT_EQ(ParseChecksum(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace zeroth
