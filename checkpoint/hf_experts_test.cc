// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares with files that transformers wrote, and with its values of MXFP4
// (tests/testdata/gpt_oss_experts).

#include "zeroth/checkpoint/hf_experts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/expert_stacker.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kExperts = 3;
constexpr int64_t kHidden = 32;
constexpr int64_t kInner = 64;
constexpr char kLayer[] = "model.layers.0.mlp.experts.";
constexpr const char* kForms[] = {"dense", "mxfp4"};

std::string Fixture(const std::string& form) { return "tests/testdata/gpt_oss_experts/" + form; }

std::vector<float> Values(const WeightsSource& weights, const std::string& name) {
  const auto shape = weights.ShapeOf(name);
  EXPECT_TRUE(shape.ok()) << shape.status();
  const auto values = weights.ReadAll(name, *shape);
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

// Compares bits, since 0 and -0 are equal.
void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (actual.empty()) return;
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)), 0) << what;
}

// The blocks, read in pieces, have the values that transformers gives them.
TEST(HfExpertsTest, Mxfp4IsReadAsBlocksOfGguf) {
  const auto model = HfDirectory::Open(Fixture("mxfp4"));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto* const files = dynamic_cast<const PackedBlocks*>(&model->weights());
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->blocks().size(), 3u * kExperts);
  for (const auto& [name, format] : files->blocks()) {
    EXPECT_EQ(format, PackedFormat::kMxfp4);
    const Shape& shape = model->weights().Find(name)->shape;
    const PackedShape of = {format, shape.dim(0), shape.dim(1)};
    std::vector<uint8_t> bytes(static_cast<size_t>(of.rows * of.CodeBytes(of.cols)));
    // A part of a row, several rows, and the whole matrix.
    for (const size_t piece : {size_t{23}, size_t{100}, bytes.size()}) {
      std::fill(bytes.begin(), bytes.end(), uint8_t{0});
      for (size_t begin = 0; begin < bytes.size(); begin += piece) {
        const absl::Status read = files->ReadBlocks(name, static_cast<int64_t>(begin),
                                                    absl::MakeSpan(bytes).subspan(begin, piece));
        ASSERT_TRUE(read.ok()) << read;
      }
      const auto values = UnpackMatrix(of, bytes, {});
      ASSERT_TRUE(values.ok()) << values.status();
      // Blocks of GGUF have no negative zero, which == does not tell from zero.
      EXPECT_TRUE(*values == Values(model->weights(), name)) << name;
    }
  }
  std::vector<uint8_t> byte(1);
  // Experts follow each other in their stack; bytes past one must not be those of the next.
  const int64_t all = kInner * kHidden / 32 * 17;
  for (const int64_t begin : {int64_t{-1}, all}) {
    for (const int64_t expert : {int64_t{0}, kExperts - 1}) {
      const std::string name = absl::StrCat(kLayer, expert, ".up_proj.weight");
      EXPECT_EQ(files->ReadBlocks(name, begin, absl::MakeSpan(byte)).code(),
                absl::StatusCode::kOutOfRange)
          << name << " from " << begin;
    }
  }
  EXPECT_EQ(files->ReadBlocks("lm_head.weight", 0, absl::MakeSpan(byte)).code(),
            absl::StatusCode::kNotFound);
}

// A matrix of more bytes than are read at a time, of rows of one block each.
TEST(HfExpertsTest, LargeMatricesAreReadInStrips) {
  constexpr int64_t kRows = 70000;
  const TemporaryDirectory dir;
  std::string header =
      absl::StrCat("{\"", kLayer, "gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[1,",
                   2 * kRows, ",1,16],\"data_offsets\":[0,", 32 * kRows, "]},\"", kLayer,
                   "gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[1,", 2 * kRows,
                   ",1],\"data_offsets\":[", 32 * kRows, ",", 34 * kRows, "]}}");
  std::string file(8, '\0');
  const auto length = static_cast<uint64_t>(header.size());
  std::memcpy(file.data(), &length, file.size());
  file += header;
  // All codes of a row are the same, and differ from those of rows nearby, as the scales do.
  const auto code_of = [](int64_t row) { return static_cast<uint8_t>(row % 13); };
  const auto scale_of = [](int64_t row) { return static_cast<uint8_t>(row % 251); };
  for (int64_t row = 0; row < 2 * kRows; ++row) {
    file.append(16, static_cast<char>(code_of(row) * 17));
  }
  for (int64_t row = 0; row < 2 * kRows; ++row) file += static_cast<char>(scale_of(row));
  dir.Write("model.safetensors", file);
  dir.Write("config.json", R"({"model_type": "gpt_oss"})");
  const auto model = HfDirectory::Open(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto* const files = dynamic_cast<const PackedBlocks*>(&model->weights());
  ASSERT_NE(files, nullptr);
  constexpr int64_t kBegin = 5;
  std::vector<uint8_t> bytes(17 * kRows - kBegin);
  const absl::Status read =
      files->ReadBlocks(absl::StrCat(kLayer, "0.up_proj.weight"), kBegin, absl::MakeSpan(bytes));
  ASSERT_TRUE(read.ok()) << read;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int64_t at = kBegin + static_cast<int64_t>(i);
    const int64_t row = 2 * (at / 17) + 1;
    const auto expected = at % 17 == 0 ? scale_of(row) : static_cast<uint8_t>(code_of(row) * 17);
    ASSERT_EQ(bytes[i], expected) << at;
  }
}

TEST(HfExpertsTest, ExpertsAreLinearLayers) {
  const auto stored = SafetensorsFile::Open(Fixture("dense") + "/model.safetensors");
  ASSERT_TRUE(stored.ok()) << stored.status();
  const std::vector<float> gate_up = Values(**stored, absl::StrCat(kLayer, "gate_up_proj"));
  const std::vector<float> gate_up_bias =
      Values(**stored, absl::StrCat(kLayer, "gate_up_proj_bias"));
  const std::vector<float> down = Values(**stored, absl::StrCat(kLayer, "down_proj"));
  const std::vector<float> down_bias = Values(**stored, absl::StrCat(kLayer, "down_proj_bias"));
  for (const std::string form : kForms) {
    SCOPED_TRACE(form);
    const auto model = HfDirectory::Open(Fixture(form));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE(model->config().Has("quantization_config"));
    const WeightsSource& weights = model->weights();
    EXPECT_EQ(weights.names().size(), 16u + 6u * kExperts);
    ExpectSameBits(Values(weights, "model.layers.0.self_attn.sinks"),
                   Values(**stored, "model.layers.0.self_attn.sinks"), "sinks");
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      for (const int64_t up : {0, 1}) {
        const std::string layer = absl::StrCat(kLayer, expert, up == 1 ? ".up_proj" : ".gate_proj");
        EXPECT_EQ(weights.Find(layer + ".weight")->shape, Shape({kInner, kHidden}));
        EXPECT_EQ(weights.Find(layer + ".weight")->dtype, SafetensorsDType::kBF16);
        std::vector<float> expected;
        std::vector<float> bias;
        for (int64_t row = 0; row < kInner; ++row) {
          for (int64_t column = 0; column < kHidden; ++column) {
            expected.push_back(gate_up[static_cast<size_t>(
                (expert * kHidden + column) * 2 * kInner + 2 * row + up)]);
          }
          bias.push_back(gate_up_bias[static_cast<size_t>(expert * 2 * kInner + 2 * row + up)]);
        }
        ExpectSameBits(Values(weights, layer + ".weight"), expected, layer);
        ExpectSameBits(Values(weights, layer + ".bias"), bias, layer);
      }
      const std::string layer = absl::StrCat(kLayer, expert, ".down_proj");
      EXPECT_EQ(weights.Find(layer + ".weight")->shape, Shape({kHidden, kInner}));
      std::vector<float> expected;
      for (int64_t row = 0; row < kHidden; ++row) {
        for (int64_t column = 0; column < kInner; ++column) {
          expected.push_back(down[static_cast<size_t>((expert * kInner + column) * kHidden + row)]);
        }
      }
      ExpectSameBits(Values(weights, layer + ".weight"), expected, layer);
      const auto first = down_bias.begin() + expert * kHidden;
      ExpectSameBits(Values(weights, layer + ".bias"), {first, first + kHidden}, layer);
    }
  }
}

TEST(HfExpertsTest, RangesAreThoseOfTheWhole) {
  for (const std::string form : kForms) {
    const auto model = HfDirectory::Open(Fixture(form));
    ASSERT_TRUE(model.ok()) << model.status();
    for (const char* const part : {"1.up_proj.weight", "2.down_proj.weight", "0.gate_proj.bias"}) {
      const std::string name = absl::StrCat(kLayer, part);
      const std::vector<float> whole = Values(model->weights(), name);
      const auto numel = static_cast<int64_t>(whole.size());
      for (const auto& [begin, count] : {std::pair<int64_t, int64_t>(0, 0),
                                         {0, 1},
                                         {5, 2},
                                         {31, 34},
                                         {7, 40},
                                         {32, 32},
                                         {3, numel - 3},
                                         {numel - 1, 1},
                                         {numel / 2 - 5, numel / 2},
                                         {numel, 0}}) {
        if (begin + count > numel) continue;
        std::vector<float> values(static_cast<size_t>(count));
        const absl::Status read =
            model->weights().ReadElements(name, begin, absl::MakeSpan(values));
        ASSERT_TRUE(read.ok()) << read;
        const auto first = whole.begin() + begin;
        ExpectSameBits(values, {first, first + count}, absl::StrCat(name, " from ", begin));
      }
      std::vector<float> values(2);
      EXPECT_EQ(model->weights().ReadElements(name, numel - 1, absl::MakeSpan(values)).code(),
                absl::StatusCode::kOutOfRange);
    }
    std::vector<float> values(1);
    EXPECT_EQ(model->weights()
                  .ReadElements(absl::StrCat(kLayer, "gate_up_proj"), 0, absl::MakeSpan(values))
                  .code(),
              absl::StatusCode::kNotFound);
  }
}

// The bytes of the file that transformers saves, in one file or in several.
TEST(HfExpertsTest, AModelIsWrittenAsTransformersDoes) {
  const auto expected = SafetensorsFile::Open(Fixture("dense") + "/model.safetensors");
  ASSERT_TRUE(expected.ok()) << expected.status();
  const TemporaryDirectory dir;
  for (const std::string form : kForms) {
    for (const int64_t limit : {0, 20000}) {
      SCOPED_TRACE(absl::StrCat(form, ", ", limit));
      const auto model = HfDirectory::Open(Fixture(form));
      ASSERT_TRUE(model.ok()) << model.status();
      HfConvertOptions options;
      options.directory.max_shard_bytes = limit;
      const std::string path = dir.File(absl::StrCat(form, limit));
      const absl::Status written = ConvertHfToHf(*model, path, options);
      ASSERT_TRUE(written.ok()) << written;
      const auto config = HfConfig::Load(path + "/config.json");
      ASSERT_TRUE(config.ok()) << config.status();
      EXPECT_FALSE(config->Has("quantization_config"));
      const auto copy = HfWeights::Open(path);
      ASSERT_TRUE(copy.ok()) << copy.status();
      EXPECT_EQ((*copy)->names(), (*expected)->names());
      for (const auto& [name, entry] : (*expected)->tensors()) {
        EXPECT_EQ((*copy)->Find(name)->shape, entry.shape) << name;
        EXPECT_EQ((*copy)->Find(name)->dtype, entry.dtype) << name;
        const auto bytes = (*copy)->RawBytes(name, 0, entry.end - entry.begin);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        EXPECT_EQ(*bytes, *(*expected)->RawBytes(name)) << name;
      }
    }
  }
}

struct Stored {
  std::string name;
  std::string dtype;
  std::vector<int64_t> dims;
};

// The error of opening files with these tensors, all of zeros.
std::string OpenError(const std::vector<Stored>& tensors,
                      const std::string& config = R"({"model_type": "gpt_oss"})") {
  const TemporaryDirectory dir;
  std::string header = "{";
  int64_t end = 0;
  for (const Stored& tensor : tensors) {
    const int64_t begin = end;
    int64_t bytes = tensor.dtype == "F32" ? 4 : 1;
    std::string dims;
    for (const int64_t dim : tensor.dims) {
      bytes *= dim;
      absl::StrAppend(&dims, dims.empty() ? "" : ",", dim);
    }
    end += bytes;
    absl::StrAppend(&header, begin == 0 && header.size() == 1 ? "" : ",", "\"", kLayer, tensor.name,
                    "\":{\"dtype\":\"", tensor.dtype, "\",\"shape\":[", dims,
                    "],\"data_offsets\":[", begin, ",", end, "]}");
  }
  header += "}";
  std::string size(8, '\0');
  const auto length = static_cast<uint64_t>(header.size());
  std::memcpy(size.data(), &length, size.size());
  dir.Write("model.safetensors", size + header + std::string(static_cast<size_t>(end), '\0'));
  dir.Write("config.json", config);
  const auto model = HfDirectory::Open(dir.path());
  return model.ok() ? "OK" : std::string(model.status().message());
}

TEST(HfExpertsTest, RefusesWhatIsNoStackOfExperts) {
  EXPECT_EQ(OpenError({{"gate_up_proj", "F32", {2, 3, 4}}}), "OK");
  EXPECT_THAT(OpenError({{"gate_up_proj", "F32", {2, 4, 3}}}),
              HasSubstr("gate_up_proj\" has shape [2, 4, 3], expected [experts, features, twice"));
  EXPECT_THAT(OpenError({{"down_proj", "F32", {2, 3}}}),
              HasSubstr("down_proj\" has shape [2, 3], expected [experts, features, features]"));
  EXPECT_THAT(OpenError({{"down_proj_bias", "F32", {2, 3, 1}}}),
              HasSubstr("expected [experts, features]"));
  EXPECT_THAT(OpenError({{"gate_up_proj_bias", "F32", {2, 3}}}),
              HasSubstr("expected [experts, twice the inner features]"));
  EXPECT_THAT(OpenError({{"down_proj", "F32", {0, 3, 4}}}), HasSubstr("has shape [0, 3, 4]"));

  EXPECT_EQ(
      OpenError({{"down_proj_blocks", "U8", {2, 3, 1, 16}}, {"down_proj_scales", "U8", {2, 3, 1}}}),
      "OK");
  EXPECT_THAT(OpenError({{"down_proj_blocks", "U8", {2, 3, 1, 16}}}),
              HasSubstr("down_proj_blocks\" is there without"));
  EXPECT_THAT(OpenError({{"down_proj_scales", "U8", {2, 3, 1}}}),
              HasSubstr("down_proj_scales\" is there without"));
  EXPECT_THAT(
      OpenError({{"down_proj_blocks", "U8", {2, 3, 1, 8}}, {"down_proj_scales", "U8", {2, 3, 1}}}),
      HasSubstr("has shape [2, 3, 1, 8], expected [experts, features, blocks of 32, 16]"));
  EXPECT_THAT(
      OpenError({{"down_proj_blocks", "U8", {2, 3, 2, 16}}, {"down_proj_scales", "U8", {2, 3, 1}}}),
      HasSubstr("down_proj_scales\" has shape [2, 3, 1], expected [2, 3, 2]"));
  EXPECT_THAT(OpenError({{"down_proj_blocks", "U8", {2, 3, 1, 16}},
                         {"down_proj_scales", "F32", {2, 3, 1}}}),
              HasSubstr("down_proj_scales\" is F32, expected U8"));
  EXPECT_THAT(OpenError({{"down_proj", "F32", {2, 32, 3}},
                         {"down_proj_blocks", "U8", {2, 3, 1, 16}},
                         {"down_proj_scales", "U8", {2, 3, 1}}}),
              HasSubstr("and in another tensor; expected one of them"));
  EXPECT_THAT(OpenError({{"down_proj", "F32", {2, 32, 3}}},
                        R"({"model_type": "gpt_oss", "quantization_config":
                            {"quant_method": "bitsandbytes"}})"),
              HasSubstr("expected \"quant_method\" \"mxfp4\""));
}

std::string StackError(std::vector<TensorDeclaration> tensors) {
  for (TensorDeclaration& tensor : tensors) tensor.name = absl::StrCat(kLayer, tensor.name);
  return std::string(ExpertStacker::Create(&tensors).status().message());
}

TEST(HfExpertsTest, RefusesExpertsThatDoNotMakeAStack) {
  const DType fp32 = DType::kFloat32;
  EXPECT_EQ(StackError({{"0.gate_proj.weight", fp32, {2, 3}}, {"0.up_proj.weight", fp32, {2, 3}}}),
            "");
  EXPECT_THAT(StackError({{"0.gate_proj.weight", fp32, {2, 3}}}),
              HasSubstr("is made of 1 tensors, such as"));
  EXPECT_THAT(
      StackError({{"0.down_proj.weight", fp32, {2, 3}}, {"2.down_proj.weight", fp32, {2, 3}}}),
      HasSubstr("2.down_proj.weight\" follows a gap"));
  EXPECT_THAT(
      StackError({{"0.down_proj.weight", fp32, {2, 3}}, {"1.down_proj.weight", fp32, {2, 4}}}),
      HasSubstr("1.down_proj.weight\" [2, 4] in fp32 cannot be stacked in"));
  EXPECT_THAT(StackError({{"0.down_proj.bias", fp32, {2, 3}}}), HasSubstr("expected one dim"));
  EXPECT_THAT(StackError({{"0.down_proj.bias", fp32, {2}}, {"0.down_proj.bias", fp32, {2}}}),
              HasSubstr("is declared twice"));
}

TEST(HfExpertsTest, StacksPiecesInAnyOrder) {
  const std::string gate = absl::StrCat(kLayer, "0.gate_proj.weight");
  const std::string up = absl::StrCat(kLayer, "0.up_proj.weight");
  std::vector<TensorDeclaration> tensors = {
      {"a", DType::kFloat32, {1}}, {up, DType::kFloat32, {2, 3}}, {gate, DType::kFloat32, {2, 3}}};
  const auto stacker = ExpertStacker::Create(&tensors);
  ASSERT_TRUE(stacker.ok()) << stacker.status();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[1].name, absl::StrCat(kLayer, "gate_up_proj"));
  EXPECT_EQ(tensors[1].shape, Shape({1, 3, 4}));
  EXPECT_FALSE((*stacker)->Takes("a"));
  std::vector<float> written;
  const auto write = [&](const std::string& name, int64_t begin, std::vector<float> values) {
    return (*stacker)->Write(name, begin, values,
                             [&](absl::string_view, int64_t, absl::Span<const float> stacked) {
                               written.insert(written.end(), stacked.begin(), stacked.end());
                               return absl::OkStatus();
                             });
  };
  EXPECT_TRUE(write(up, 4, {14, 15}).ok());
  EXPECT_TRUE(write(gate, 0, {0, 1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(write(up, 5, {15}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(write(up, 5, {15, 16}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(written.empty());
  EXPECT_TRUE(write(up, 0, {10, 11, 12, 13}).ok());
  EXPECT_EQ(written, (std::vector<float>{0, 10, 3, 13, 1, 11, 4, 14, 2, 12, 5, 15}));
}

}  // namespace
}  // namespace zeroth
