// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/llmc_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr int kPositions = 5, kVocab = 11, kLayers = 3, kHeads = 2, kWidth = 6, kPadded = 16;

std::string Header(int version) {
  std::array<int32_t, 256> header{};
  const int fields[] = {20240326, version, kPositions, kVocab, kLayers, kHeads, kWidth, kPadded};
  std::copy(std::begin(fields), std::end(fields), header.begin());
  return {reinterpret_cast<const char*>(header.data()), sizeof(header)};
}

// Parameter `number` of the file: exact in bf16, different for neighbours.
float Value(int64_t number) { return static_cast<float>(number % 251) - 125; }

std::string Model(int version) {
  const int64_t per_layer = 12 * kWidth * kWidth + 13 * kWidth;
  const int64_t count = (kPadded + kPositions + 2) * kWidth + kLayers * per_layer;
  std::string text = Header(version);
  for (int64_t i = 0; i < count; ++i) {
    const float value = Value(i);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (version == 5) bits >>= 16;
    text.append(reinterpret_cast<const char*>(&bits), version == 5 ? 2 : 4);
  }
  return text;
}

TEST(LlmcModelTest, BecomesAHuggingFaceDirectory) {
  for (const int version : {3, 5}) {
    const TemporaryDirectory dir;
    const auto model = LlmcModelFile::Open(dir.Write("model.bin", Model(version)));
    ASSERT_TRUE(model.ok()) << model.status();
    const absl::Status converted = ConvertLlmcToHf(**model, dir.File("hf"));
    ASSERT_TRUE(converted.ok()) << converted;
    const auto hf = HfDirectory::Open(dir.File("hf"));
    ASSERT_TRUE(hf.ok()) << hf.status();
    EXPECT_EQ(*hf->config().GetInt("n_head"), kHeads);
    EXPECT_EQ(*hf->config().GetInt("n_positions"), kPositions);
    EXPECT_EQ(*hf->config().GetInt("vocab_size"), kVocab);
    EXPECT_EQ(*hf->config().GetInt("eos_token_id"), kVocab - 1);
    EXPECT_EQ(*hf->config().GetString("torch_dtype"), version == 3 ? "float32" : "bfloat16");
    // Where each tensor begins, counted by hand from the order of llm.c's ParameterTensors.
    const int64_t blocks = (kPadded + kPositions) * kWidth;
    const int64_t qkv = blocks + 2 * kLayers * kWidth;
    const int64_t projection_bias =
        qkv + kLayers * (3 * kWidth * kWidth + 3 * kWidth + kWidth * kWidth);
    const int64_t fc = projection_bias + kLayers * 3 * kWidth;
    const int64_t down = fc + kLayers * (4 * kWidth * kWidth + 4 * kWidth);
    const int64_t last = down + kLayers * (4 * kWidth * kWidth + kWidth);
    const auto flat = [&](const std::string& name, const Shape& shape, int64_t begin) {
      const auto read = hf->weights().ReadAll("transformer." + name, shape);
      ASSERT_TRUE(read.ok()) << read.status();
      for (size_t i = 0; i < read->size(); ++i) {
        ASSERT_EQ((*read)[i], Value(begin + static_cast<int64_t>(i))) << name << " " << i;
      }
    };
    // Stored [out, in], wanted [in, out].
    const auto turned = [&](const std::string& name, int64_t in, int64_t out, int64_t begin) {
      const auto read = hf->weights().ReadAll("transformer." + name, {in, out});
      ASSERT_TRUE(read.ok()) << read.status();
      for (int64_t i = 0; i < in * out; ++i) {
        const int64_t stored = i % out * in + i / out;
        ASSERT_EQ((*read)[static_cast<size_t>(i)], Value(begin + stored)) << name << " " << i;
      }
    };
    flat("wte.weight", {kVocab, kWidth}, 0);
    flat("wpe.weight", {kPositions, kWidth}, kPadded * kWidth);
    flat("h.2.ln_1.weight", {kWidth}, blocks + 2 * kWidth);
    turned("h.1.attn.c_attn.weight", kWidth, 3 * kWidth, qkv + 3 * kWidth * kWidth);
    flat("h.1.attn.c_proj.bias", {kWidth}, projection_bias + kWidth);
    turned("h.0.mlp.c_fc.weight", kWidth, 4 * kWidth, fc);
    turned("h.2.mlp.c_proj.weight", 4 * kWidth, kWidth, down + 2 * 4 * kWidth * kWidth);
    flat("ln_f.weight", {kWidth}, last);
    flat("ln_f.bias", {kWidth}, last + kWidth);
    EXPECT_EQ(hf->weights().names().size(), size_t{4 + 12 * kLayers});
  }
}

TEST(LlmcModelTest, TheTypeCanBeChosen) {
  const TemporaryDirectory dir;
  const auto model = LlmcModelFile::Open(dir.Write("model.bin", Model(5)));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(ConvertLlmcToHf(**model, dir.File("hf"), {DType::kFloat32, {}}).ok());
  const auto hf = HfDirectory::Open(dir.File("hf"));
  ASSERT_TRUE(hf.ok()) << hf.status();
  EXPECT_EQ(hf->weights().Find("transformer.wte.weight")->dtype, SafetensorsDType::kF32);
  EXPECT_EQ(*hf->config().GetString("torch_dtype"), "float32");
}

TEST(LlmcModelTest, RefusesDamagedFiles) {
  const TemporaryDirectory dir;
  const auto message = [&](const std::string& text) {
    const auto model = LlmcModelFile::Open(dir.Write("model.bin", text));
    EXPECT_THAT(std::string(model.status().message()), HasSubstr("model.bin: "));
    return model.ok() ? "accepted" : std::string(model.status().message());
  };
  const auto with = [](size_t field, int32_t value) {
    std::string text = Model(3);
    std::memcpy(text.data() + field * 4, &value, 4);
    return text;
  };
  EXPECT_THAT(message(""), HasSubstr("not a model of llm.c"));
  EXPECT_THAT(message(with(0, 20240520)), HasSubstr("not a model of llm.c"));
  EXPECT_THAT(message(with(0, 20240803)), HasSubstr("a Llama 3 model of llm.c"));
  EXPECT_THAT(message(Header(3).substr(0, 100)), HasSubstr("holds 100 bytes, expected 1024"));
  EXPECT_THAT(message(with(1, 1)), HasSubstr("version 1"));
  EXPECT_THAT(message(with(2, 0)), HasSubstr("the context length (header field 2) is 0"));
  EXPECT_THAT(message(with(3, 17)), HasSubstr("the vocabulary (header field 3) is 17"));
  EXPECT_THAT(message(with(4, 0x7fffffff)), HasSubstr("the number of layers (header field 4)"));
  EXPECT_THAT(message(with(5, 4)), HasSubstr("expected a multiple of the 4 heads"));
  EXPECT_THAT(message(with(6, -6)), HasSubstr("the width (header field 6) is -6"));
  EXPECT_THAT(message(with(7, 0x7fffffff)), HasSubstr("the padded vocabulary"));
  EXPECT_THAT(message(with(4, 65536)), HasSubstr("is it truncated?"));
  EXPECT_THAT(message(Model(3) + " "), HasSubstr("bytes, expected"));
  EXPECT_THAT(message(Model(5).substr(0, 3000)), HasSubstr("is it truncated?"));
}

}  // namespace
}  // namespace zeroth
