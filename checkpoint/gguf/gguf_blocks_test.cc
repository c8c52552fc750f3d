// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Decodes blocks by the description of their layout, and not by the code under test.

#include "zeroth/checkpoint/gguf/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_mix.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr GgufBlock kAll[] = {GgufBlock::kQ5_0, GgufBlock::kQ5_1, GgufBlock::kQ8_0,
                              GgufBlock::kQ4_K, GgufBlock::kQ5_K, GgufBlock::kQ6_K};

std::string NameOf(GgufBlock type) {
  return std::string(QuantizedTypeName(static_cast<uint32_t>(type)));
}

float HalfAt(const uint8_t* bytes) {
  Float16 half;
  std::memcpy(&half, bytes, sizeof(half));
  return ToFloat(half);
}

// Element i of a block of 32 with five bits.
int FiveBits(const uint8_t* fifths, const uint8_t* nibbles, int i) {
  const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
  return low | (fifths[i / 8] >> (i % 8) & 1) << 4;
}

// The 6-bit scale and minimum of group g of a Q4_K or Q5_K block.
std::pair<int, int> GroupCodes(const uint8_t* packed, int g) {
  if (g < 4) return {packed[g] & 63, packed[g + 4] & 63};
  return {(packed[g + 4] & 15) | packed[g - 4] >> 6 << 4, packed[g + 4] >> 4 | packed[g] >> 6 << 4};
}

float Decoded(GgufBlock type, const uint8_t* block, int i) {
  const int nibble_byte = i / 64 * 32 + i % 32;
  const auto nibble = [&](const uint8_t* nibbles) {
    return i % 64 < 32 ? nibbles[nibble_byte] & 15 : nibbles[nibble_byte] >> 4;
  };
  switch (type) {
    case GgufBlock::kQ8_0:
      return HalfAt(block) * static_cast<float>(static_cast<int8_t>(block[2 + i]));
    case GgufBlock::kQ5_0:
      return HalfAt(block) * static_cast<float>(FiveBits(block + 2, block + 6, i) - 16);
    case GgufBlock::kQ5_1:
      return HalfAt(block) * static_cast<float>(FiveBits(block + 4, block + 8, i)) +
             HalfAt(block + 2);
    case GgufBlock::kQ4_K:
    case GgufBlock::kQ5_K: {
      const bool five = type == GgufBlock::kQ5_K;
      const auto [scale, minimum] = GroupCodes(block + 4, i / 32);
      int code = nibble(block + (five ? 48 : 16));
      if (five) code |= (block[16 + i % 32] >> (i / 32) & 1) << 4;
      return HalfAt(block) * static_cast<float>(scale) * static_cast<float>(code) -
             HalfAt(block + 2) * static_cast<float>(minimum);
    }
    case GgufBlock::kQ6_K: {
      const int half = i / 128;
      const int place = i % 128;
      const uint8_t low_byte = block[half * 64 + place % 64];
      const int low = place < 64 ? low_byte & 15 : low_byte >> 4;
      const int high = block[128 + half * 32 + place % 32] >> (place / 32 * 2) & 3;
      return HalfAt(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + i / 16])) *
             static_cast<float>((low | high << 4) - 32);
    }
  }
  return 0;
}

std::vector<float> ThroughBlocks(GgufBlock type, const std::vector<float>& values) {
  const GgufBlockSize size = SizeOf(type);
  const auto elements = static_cast<size_t>(size.elements);
  const auto bytes = static_cast<size_t>(size.bytes);
  std::vector<uint8_t> blocks(values.size() / elements * bytes);
  QuantizeBlocks(type, values, absl::MakeSpan(blocks));
  std::vector<float> decoded;
  for (size_t i = 0; i < values.size(); ++i) {
    decoded.push_back(
        Decoded(type, blocks.data() + i / elements * bytes, static_cast<int>(i % elements)));
  }
  return decoded;
}

// Values that a type can represent are stored exactly. Scales are powers of two, and the extreme
// codes are used, so that there is one way to write each block.
TEST(GgufBlocksTest, ValuesOnTheGridComeBackExactly) {
  std::mt19937 random(3);
  for (const GgufBlock type : kAll) {
    std::vector<float> values(512);
    for (size_t group = 0; group < values.size() / 16; ++group) {
      float* const x = values.data() + group * 16;
      const size_t pair = group / 2 % 8;  // a group of 32 in its block
      for (int i = 0; i < 16; ++i) {
        const auto drawn = static_cast<int>(random());
        const bool first = i == 0 && group % 2 == 0;
        const bool second = i == 1 && group % 2 == 0;
        if (type == GgufBlock::kQ8_0) {
          x[i] = static_cast<float>(first ? 127 : drawn % 128) / 8;
        } else if (type == GgufBlock::kQ5_0) {
          x[i] = static_cast<float>(first ? -16 : drawn % 16) / 8;
        } else if (type == GgufBlock::kQ5_1) {
          x[i] = static_cast<float>(first ? 0 : second ? 31 : (drawn & 31)) / 8 - 1;
        } else if (type == GgufBlock::kQ6_K) {
          const float scale = group % 16 == 5 ? -128.0f : static_cast<float>(group % 16 * 8 + 1);
          x[i] = scale * static_cast<float>(i == 0 ? -32 : drawn % 32) / 64;
        } else {
          const int top = type == GgufBlock::kQ4_K ? 15 : 31;
          const auto scale = static_cast<float>(pair == 2 ? 63 : 9 + pair * 5);
          const auto minimum = static_cast<float>(pair == 6 ? 63 : 50 - pair);
          const int code = first ? 0 : second ? top : (drawn & top);
          x[i] = scale * static_cast<float>(code) / 64 - minimum / 4;
        }
      }
    }
    EXPECT_EQ(ThroughBlocks(type, values), values) << NameOf(type);
  }
}

// Any finite numbers give finite numbers, and extreme ones need no undefined conversion.
TEST(GgufBlocksTest, ExtremeValuesStayNear) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = 65504;
  const std::vector<std::vector<float>> cases = {{0},
                                                 {1},
                                                 {-1},
                                                 {tiny},
                                                 {-tiny, tiny},
                                                 {huge},
                                                 {-huge},
                                                 {huge, tiny},
                                                 {1e-30f, 0},
                                                 {1e-7f, -1},
                                                 {huge, -huge},
                                                 {-huge, -huge + 32, 1},
                                                 {-5, -5, -5.000001f},
                                                 {1e-12f, -2e-12f, 3e-14f}};
  for (const GgufBlock type : kAll) {
    for (const std::vector<float>& some : cases) {
      std::vector<float> values(256);
      for (size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
      // One group that is unlike the others.
      for (size_t i = 32; i < 64; ++i) values[i] = some[0];
      const std::vector<float> decoded = ThroughBlocks(type, values);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const float range = std::max(*high, 0.0f) - std::min(*low, 0.0f);
      for (size_t i = 0; i < values.size(); ++i) {
        // Half-precision scales below 6e-8 are 0.
        ASSERT_NEAR(decoded[i], values[i], range * 0.08f + 1e-4f)
            << NameOf(type) << " of " << values[i] << " of " << some[0];
      }
    }
  }
}

// The relative errors of ggml's own functions for normal numbers.
TEST(GgufBlocksTest, ErrorsAreThoseOfTheTypes) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(1 << 16);
  for (float& value : values) value = normal(random);
  const std::map<GgufBlock, double> known = {
      {GgufBlock::kQ8_0, 0.00535}, {GgufBlock::kQ6_K, 0.01778}, {GgufBlock::kQ5_1, 0.03785},
      {GgufBlock::kQ5_K, 0.03613}, {GgufBlock::kQ5_0, 0.04270}, {GgufBlock::kQ4_K, 0.07137}};
  for (const auto& [type, error_of_ggml] : known) {
    const std::vector<float> decoded = ThroughBlocks(type, values);
    double error = 0;
    double square = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(decoded[i] - values[i], 2);
      square += std::pow(values[i], 2);
    }
    EXPECT_NEAR(std::sqrt(error / square) / error_of_ggml, 1, 0.005) << NameOf(type);
  }
}

struct MixedModel {
  std::string architecture = "llama";
  int64_t blocks = 32;
  int64_t width = 4096;
  int64_t inner = 14336;
  int64_t heads = 32;
  int64_t key_heads = 8;
  int64_t vocab = 32000;
  int64_t experts = 0;
  bool has_head = true;
};

GgufMetadata MetadataOf(const MixedModel& model) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", model.architecture);
  const auto set = [&](const char* key, int64_t value) {
    metadata.SetUint32(absl::StrCat(model.architecture, ".", key), static_cast<uint32_t>(value));
  };
  set("block_count", model.blocks);
  set("attention.head_count", model.heads);
  set("attention.head_count_kv", model.key_heads);
  if (model.experts > 0) set("expert_count", model.experts);
  return metadata;
}

std::vector<TensorDeclaration> TensorsOf(const MixedModel& model) {
  const DType half = DType::kFloat16;
  const int64_t keys = model.width / model.heads * model.key_heads;
  std::vector<TensorDeclaration> tensors = {{"token_embd.weight", half, {model.vocab, model.width}},
                                            {"output_norm.weight", DType::kFloat32, {model.width}}};
  if (model.has_head) tensors.push_back({"output.weight", half, {model.vocab, model.width}});
  for (int64_t block = 0; block < model.blocks; ++block) {
    const auto add = [&](const char* name, const std::vector<int64_t>& dims) {
      tensors.push_back({absl::StrCat("blk.", block, ".", name, ".weight"),
                         dims.size() < 2 ? DType::kFloat32 : half, Shape(dims)});
    };
    add("attn_norm", {model.width});
    add("ffn_norm", {model.width});
    if (model.architecture == "gpt2") {
      add("attn_qkv", {3 * model.width, model.width});
    } else {
      add("attn_q", {model.width, model.width});
      add("attn_k", {keys, model.width});
      add("attn_v", {keys, model.width});
    }
    add("attn_output", {model.width, model.width});
    if (model.experts > 0) {
      add("ffn_up_exps", {model.experts, model.inner, model.width});
      add("ffn_down_exps", {model.experts, model.width, model.inner});
      continue;
    }
    if (model.architecture != "gpt2") add("ffn_gate", {model.inner, model.width});
    add("ffn_up", {model.inner, model.width});
    add("ffn_down", {model.width, model.inner});
  }
  return tensors;
}

std::map<std::string, int> CountsOf(const GgufBlockTypes& types) {
  std::map<std::string, int> counts;
  for (const auto& [name, type] : types) ++counts[NameOf(type)];
  return counts;
}

using Counts = std::map<std::string, int>;

// The blocks of Q6_K are those that llama-quantize of llama.cpp 0.7.0 wrote; the others were Q4_K.
TEST(GgufMixTest, FusedQueriesKeysAndValuesHaveTheTypeOfValues) {
  const MixedModel model = {.architecture = "gpt2",
                            .blocks = 16,
                            .width = 256,
                            .inner = 1024,
                            .heads = 8,
                            .key_heads = 8};
  const auto mixed = ChooseGgufBlocks(GgufMix::kQ4_K_M, MetadataOf(model), TensorsOf(model));
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  const std::set<int> more = {0, 1, 4, 7, 10, 13, 14, 15};
  for (int block = 0; block < 16; ++block) {
    EXPECT_EQ(mixed->blocks.at(absl::StrCat("blk.", block, ".attn_qkv.weight")),
              more.count(block) > 0 ? GgufBlock::kQ6_K : GgufBlock::kQ4_K)
        << block;
  }
}

// Published Q4_K_M files, as llama.cpp describes them: the number of tensors of each type, and the
// size.
TEST(GgufMixTest, PublishedModelsHaveTheseTypes) {
  struct Published {
    MixedModel model;
    Counts counts;
    double gibibytes;
    double bits;
  };
  const std::vector<Published> all = {
      // Mistral 7B.
      {{}, {{"Q4_K", 193}, {"Q6_K", 33}}, 4.07, 4.83},
      // Llama 3.1 8B.
      {{.vocab = 128256}, {{"Q4_K", 193}, {"Q6_K", 33}}, 4.58, 4.89},
      // Llama 2 70B.
      {{.blocks = 80, .width = 8192, .inner = 28672, .heads = 64},
       {{"Q4_K", 441}, {"Q5_K", 40}, {"Q6_K", 81}},
       38.58,
       4.80}};
  for (const Published& published : all) {
    const std::vector<TensorDeclaration> tensors = TensorsOf(published.model);
    const auto mixed = ChooseGgufBlocks(GgufMix::kQ4_K_M, MetadataOf(published.model), tensors);
    ASSERT_TRUE(mixed.ok()) << mixed.status();
    EXPECT_EQ(CountsOf(mixed->blocks), published.counts);
    double bytes = 0;
    double elements = 0;
    for (const TensorDeclaration& tensor : tensors) {
      const auto count = static_cast<double>(tensor.shape.numel());
      const auto block = mixed->blocks.find(tensor.name);
      elements += count;
      bytes += block == mixed->blocks.end()
                   ? 4 * count
                   : count / static_cast<double>(SizeOf(block->second).elements) *
                         static_cast<double>(SizeOf(block->second).bytes);
    }
    EXPECT_NEAR(bytes / (1 << 30), published.gibibytes, 0.006);
    EXPECT_NEAR(bytes * 8 / elements, published.bits, 0.006);
    EXPECT_EQ(mixed->notes.size(), 1u);
  }
}

TEST(GgufMixTest, SomeModelsHaveOtherTypes) {
  const auto counts = [](const MixedModel& model, GgufMix mix = GgufMix::kQ4_K_M) {
    const auto mixed = ChooseGgufBlocks(mix, MetadataOf(model), TensorsOf(model));
    EXPECT_TRUE(mixed.ok()) << mixed.status();
    return CountsOf(mixed->blocks);
  };
  // The embedding is the head. Of 8 blocks, 0, 3, 6 and 7 get more bits.
  EXPECT_EQ(counts({.blocks = 8, .has_head = false}), (Counts{{"Q4_K", 48}, {"Q6_K", 9}}));
  EXPECT_EQ(counts({.architecture = "gpt2",
                    .blocks = 8,
                    .width = 768,
                    .inner = 3072,
                    .heads = 12,
                    .key_heads = 12,
                    .has_head = false}),
            (Counts{{"Q4_K", 24}, {"Q6_K", 9}}));
  EXPECT_EQ(counts({.blocks = 8, .experts = 8}),
            (Counts{{"Q4_K", 21}, {"Q5_K", 8}, {"Q6_K", 5}, {"Q8_0", 16}}));
  EXPECT_EQ(counts({.blocks = 8, .experts = 4}), (Counts{{"Q4_K", 41}, {"Q6_K", 9}}));
  EXPECT_EQ(counts({.blocks = 8}, GgufMix::kQ8_0), (Counts{{"Q8_0", 58}}));
}

TEST(GgufMixTest, RowsThatAreNotWholeBlocksGetOtherTypes) {
  const MixedModel model = {.architecture = "gpt2",
                            .blocks = 1,
                            .width = 96,
                            .inner = 80,
                            .heads = 2,
                            .key_heads = 2,
                            .has_head = false};
  const auto mixed = ChooseGgufBlocks(GgufMix::kQ4_K_M, MetadataOf(model), TensorsOf(model));
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(CountsOf(mixed->blocks), (Counts{{"Q5_0", 2}, {"Q8_0", 2}}))
      << "ffn_down, with rows of 80, stays F16";
  ASSERT_EQ(mixed->notes.size(), 4u);
  EXPECT_EQ(mixed->notes[0], "Matrices: 1 in F16, 2 in Q5_0, 2 in Q8_0; vectors are in F32.");
  EXPECT_EQ(mixed->notes[1],
            "2 of them would be Q4_K, but Q4_K's blocks do not divide their rows, as of "
            "\"blk.0.attn_output.weight\" [96, 96]; as in llama.cpp, they are Q5_0.");
  EXPECT_THAT(mixed->notes[2], HasSubstr("\"blk.0.ffn_down.weight\" [96, 80]"));
}

TEST(GgufMixTest, WhatBlocksCannotHoldIsRefused) {
  const TemporaryDirectory dir;
  const auto writer = GgufWriter::Create(dir.File("m.gguf"), {}, {{"w", DType::kFloat16, {2, 32}}},
                                         {{"w", GgufBlock::kQ8_0}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<float> values(64, 1.0f);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(), 70000.0f}) {
    values[40] = bad;
    const absl::Status refused = WriteQuantized(GgufBlock::kQ8_0, "w", 0, values, writer->get());
    EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("tensor \"w\" holds"));
  }
  values[40] = 1.0f;
  EXPECT_TRUE(WriteQuantized(GgufBlock::kQ8_0, "w", 0, values, writer->get()).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  EXPECT_THAT(std::string(GgufFile::Open(dir.File("m.gguf")).status().message()),
              HasSubstr("quantised as Q8_0"));
  const auto odd = GgufWriter::Create(dir.File("n.gguf"), {}, {{"w", DType::kFloat16, {2, 48}}},
                                      {{"w", GgufBlock::kQ8_0}});
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("rows of whole blocks of 32"));
}

// Any elements of a tensor in blocks have the values that its blocks are decoded to above.
TEST(GgufBlocksTest, AFileReadsElementsOfBlocks) {
  const TemporaryDirectory dir;
  for (const GgufBlock type : kAll) {
    SCOPED_TRACE(NameOf(type));
    const std::string path = dir.File(NameOf(type) + ".gguf");
    std::vector<float> values(3 * 512);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const auto writer =
        GgufWriter::Create(path, {}, {{"w", DType::kFloat16, {3, 512}}}, {{"w", type}});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(WriteQuantized(type, "w", 0, values, writer->get()).ok());
    ASSERT_TRUE((*writer)->Finish().ok());

    EXPECT_EQ(GgufFile::Open(path).status().code(), absl::StatusCode::kUnimplemented);
    const auto file = GgufFile::Open(path, GgufTypes::kUnpackable);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto blocks = (*file)->RawBytes("w");
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    const GgufBlockSize size = SizeOf(type);
    EXPECT_EQ(static_cast<int64_t>(blocks->size()), 3 * 512 / size.elements * size.bytes);
    for (const auto& [begin, count] : {std::pair(0, 1536), std::pair(5, 1000), std::pair(1535, 1),
                                       std::pair(256, 256), std::pair(31, 2), std::pair(9, 0)}) {
      std::vector<float> out(static_cast<size_t>(count));
      const absl::Status read = (*file)->ReadElements("w", begin, absl::MakeSpan(out));
      ASSERT_TRUE(read.ok()) << read;
      for (int i = 0; i < count; ++i) {
        const int64_t at = begin + i;
        EXPECT_EQ(out[static_cast<size_t>(i)],
                  Decoded(type, blocks->data() + at / size.elements * size.bytes,
                          static_cast<int>(at % size.elements)))
            << at;
      }
    }
    std::vector<float> out(2);
    EXPECT_EQ((*file)->ReadElements("w", 1535, absl::MakeSpan(out)).code(),
              absl::StatusCode::kOutOfRange);
  }
}

}  // namespace
}  // namespace zeroth
