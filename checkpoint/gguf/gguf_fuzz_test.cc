// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Damaged files by the ten thousand: every one is refused or kept to the reader's promises, and
// none costs more memory than a small multiple of its size.

#include "zeroth/checkpoint/gguf/gguf_fuzz.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_tokenizer.h"

namespace {

// The largest single request for memory since it was last set to zero.
std::atomic<size_t> largest_request{0};

void* Allocate(size_t size) {
  size_t largest = largest_request.load();
  while (size > largest && !largest_request.compare_exchange_weak(largest, size)) {
  }
  void* const memory = std::malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace zeroth {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// A file with everything in it: every type of value, a vocabulary, tensors of three types.
std::string Seed(bool small) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  for (const char* key : {"context_length", "embedding_length", "feed_forward_length",
                          "block_count", "attention.head_count", "vocab_size"}) {
    metadata.SetUint32(absl::StrCat("llama.", key), 4);
  }
  metadata.SetFloat("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.Set("a", uint8_t{1});
  metadata.Set("b", GgufArray{std::vector<GgufArray>{{std::vector<double>{1, 2}},
                                                     {std::vector<bool>{true}}}});
  metadata.Set("c", GgufArray{std::vector<uint64_t>{1, 2, 3}});
  if (!small) {
    EXPECT_TRUE(SetVocabulary(ByteVocabulary(), 257, &metadata).ok());
  }
  std::vector<std::pair<std::string, SafetensorsEntry>> tensors(3);
  int64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].first = absl::StrCat("t", i);
    SafetensorsEntry& entry = tensors[i].second;
    entry.dtype = i == 0 ? SafetensorsDType::kF32 : SafetensorsDType::kBF16;
    entry.shape = Shape({2, 3});
    entry.begin = offset;
    entry.end = offset + 6 * BitsOf(entry.dtype) / 8;
    offset += 32;
  }
  const auto header = SerializeGgufHeader(metadata, tensors);
  EXPECT_TRUE(header.ok()) << header.status();
  return *header + std::string(static_cast<size_t>(offset), 'x');
}

// Numbers that break careless arithmetic.
uint64_t Nasty(std::mt19937_64& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   9,
                                   31,
                                   0x7fffffff,
                                   0xffffffff,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 62,
                                   static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
                                   std::numeric_limits<uint64_t>::max() - 31,
                                   std::numeric_limits<uint64_t>::max()};
  return kNumbers[random() % std::size(kNumbers)];
}

void Mutate(std::mt19937_64& random, std::string* text) {
  for (uint64_t edits = 1 + random() % 3; edits > 0 && !text->empty(); --edits) {
    const size_t place = random() % text->size();
    const size_t length = std::min<size_t>(random() % 64, text->size() - place);
    switch (random() % 6) {
      case 0:
        (*text)[place] = static_cast<char>(random());
        break;
      case 1: {
        const uint64_t number = Nasty(random);
        const size_t width = random() % 2 == 0 ? 8 : 4;
        std::memcpy(text->data() + place, &number, std::min(width, text->size() - place));
        break;
      }
      case 2:
        text->erase(place, length);
        break;
      case 3:
        text->insert(place, text->substr(random() % text->size(), length));
        break;
      case 4:
        text->resize(place);
        break;
      default:
        (*text)[place] = static_cast<char>((*text)[place] ^ (1 << random() % 8));
    }
  }
}

TEST(GgufFuzzTest, DamagedFilesAreRefusedAndCostLittle) {
  const std::string seeds[] = {Seed(/*small=*/true), Seed(/*small=*/false)};
  ASSERT_TRUE(FuzzGguf(BytesOf(seeds[0])));
  ASSERT_TRUE(FuzzGguf(BytesOf(seeds[1])));
  std::mt19937_64 random(20261121);
  int accepted = 0;
  constexpr int kRounds = 40'000;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = seeds[round % 4 == 0 ? 1 : 0];
    Mutate(random, &text);
    largest_request = 0;
    accepted += FuzzGguf(BytesOf(text)) ? 1 : 0;
    // A parsed array of empty arrays or strings is the worst: 8 to 12 bytes each in the file.
    ASSERT_LE(largest_request.load(), 8 * text.size() + 65536) << "round " << round;
  }
  // Both ways out are taken: neither the mutations nor the checks are idle.
  EXPECT_GT(accepted, kRounds / 100);
  EXPECT_LT(accepted, kRounds * 9 / 10);
}

}  // namespace
}  // namespace zeroth
