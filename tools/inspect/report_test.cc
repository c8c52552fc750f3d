// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_blocks.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_mix.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/testing/state.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tools/inspect/inspected_file.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Spread;
using testing::TestState;

std::unique_ptr<InspectedFile> Open(const std::string& path) {
  auto file = InspectedFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? std::make_unique<InspectedFile>(*std::move(file)) : nullptr;
}

std::string WriteFile(const TemporaryDirectory& dir, const std::string& name,
                      const std::vector<float>& values, DType dtype = DType::kFloat32) {
  const auto numel = static_cast<int64_t>(values.size());
  auto writer = SafetensorsWriter::Create(
      dir.File(name), {{"w", dtype, Shape({numel})}, {"same", DType::kBFloat16, Shape({1, 1})}});
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Write("w", 0, values).ok());
  const std::vector<float> one = {1};
  EXPECT_TRUE((*writer)->Write("same", 0, one).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return dir.File(name);
}

absl::Status SaveCheckpoint(const std::string& directory, const Spread& spread, int version) {
  return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, spread, AwkwardUnits()));
    state.Fill(version);
    CheckpointSaverOptions options;
    options.directory = directory;
    ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
    return saver
        ->Save(version, nlohmann::json::object(),
               OwnedPieces(*state.sharding, state.optimizer->states()))
        .status();
  });
}

TEST(ReportTest, TableHasNorms) {
  const TemporaryDirectory dir;
  const auto file =
      Open(WriteFile(dir, "a.safetensors", {3, -4, 0, std::numeric_limits<float>::infinity()}));
  const auto table = TableOf(*file, /*norms=*/true);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(*table, AllOf(HasSubstr("2 tensors"), HasSubstr("BF16  [1, 1]"),
                            HasSubstr("a.safetensors  5            4            1 "
                                      "not finite")))
      << *table;
  EXPECT_THAT(*TableOf(*file, /*norms=*/false), ::testing::Not(HasSubstr("norm")));
}

TEST(ReportTest, DiffNamesWhatDiffers) {
  const TemporaryDirectory dir;
  const auto a = Open(WriteFile(dir, "a.safetensors", {1, 2, 3, 4}));
  const auto b = Open(WriteFile(dir, "b.safetensors", {1, 2.5, 3, 3.75}));
  const auto c = Open(WriteFile(dir, "c.safetensors", {1, 2, 3}, DType::kFloat16));
  bool differ = true;
  EXPECT_EQ(*DiffReport(*a, *a, differ), "2 tensors are equal, bit for bit\n");
  EXPECT_FALSE(differ);
  EXPECT_EQ(*DiffReport(*a, *b, differ),
            "w: 2 of 4 elements differ, by at most 0.5\n1 tensors are equal, bit for bit\n");
  EXPECT_TRUE(differ);
  EXPECT_THAT(*DiffReport(*a, *c, differ), HasSubstr("w: F32 [4] and F16 [3]\n"));
}

TEST(ReportTest, CheckpointsOfOneStateAreEqualHoweverTheyWereCut) {
  const TemporaryDirectory one;
  const TemporaryDirectory two;
  const Spread sharded{"full_shard", 3};
  const Spread whole{"no_shard", 1};
  ASSERT_EQ(SaveCheckpoint(one.path(), sharded, 1), absl::OkStatus());
  ASSERT_EQ(SaveCheckpoint(two.path(), whole, 1), absl::OkStatus());
  const auto a = Open(CheckpointPath(one.path(), 1));
  const auto b = Open(CheckpointPath(two.path(), 1));
  bool wrong = true;
  EXPECT_THAT(*DiffReport(*a, *b, wrong), HasSubstr("tensors are equal, bit for bit"));
  EXPECT_FALSE(wrong);
  EXPECT_THAT(*TableOf(*a, true), AllOf(HasSubstr("checkpoint of step 1"), HasSubstr("h.2.0 (v)"),
                                        HasSubstr("3 pieces")));
  EXPECT_EQ(VerifyReport(*a, wrong), "every checksum is right\n");
  EXPECT_FALSE(wrong);

  // A model has no moments.
  InspectedFile model = *a;
  model.tensors.erase(std::remove_if(model.tensors.begin(), model.tensors.end(),
                                     [](const InspectedTensor& each) { return each.is_state; }),
                      model.tensors.end());
  EXPECT_THAT(*DiffReport(model, *b, wrong), HasSubstr("one of the two has, are not compared"));
  EXPECT_FALSE(wrong);
  model.tensors.pop_back();
  EXPECT_THAT(*DiffReport(*b, model, wrong), HasSubstr(": only in the first\n"));
  EXPECT_TRUE(wrong);

  const std::string path = CheckpointPath(one.path(), 1) + "/" + ShardFileName(1, 3);
  std::string bytes = ReadTestFile(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::FILE* const out = std::fopen(path.c_str(), "wb");
  std::fwrite(bytes.data(), 1, bytes.size(), out);
  std::fclose(out);
  const auto damaged = Open(CheckpointPath(one.path(), 1));
  EXPECT_THAT(VerifyReport(*damaged, wrong), HasSubstr(ShardFileName(1, 3)));
  EXPECT_TRUE(wrong);
}

std::string DiffOf(const std::string& a, const std::string& b, bool& differ) {
  const auto pair = InspectedFile::OpenPair(a, b);
  EXPECT_TRUE(pair.ok()) << pair.status();
  const auto report = DiffReport(pair->first, pair->second, differ);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

// A family whose rows GGUF reorders and whose matrices it transposes.
class GgufReportTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Export(DType dtype) {
    const auto model = HfDirectory::Open(directory_);
    ASSERT_TRUE(model.ok()) << model.status();
    GgufExportOptions options;
    options.dtype = dtype;
    options.vocabulary = GgufVocabularySource::kByte;
    const absl::Status exported = ConvertHfToGguf(*model, gguf_, options);
    ASSERT_TRUE(exported.ok()) << exported;
  }

  const TemporaryDirectory dir_;
  const std::string gguf_ = dir_.File("model.gguf");
  const std::string directory_ = std::string("tests/testdata/") + GetParam();
};

TEST_P(GgufReportTest, TableShowsTensorsAndMetadata) {
  Export(DType::kBFloat16);
  const auto file = Open(gguf_);
  const auto table = TableOf(*file, /*norms=*/true);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(*table,
              AllOf(HasSubstr("blk.0.attn_output.weight  BF16"), HasSubstr("token_embd.weight"),
                    HasSubstr("model.gguf"), HasSubstr("metadata general.architecture = \""),
                    HasSubstr("tokenizer.ggml.tokens = array of string, 257 items")));
  bool damaged = true;
  EXPECT_THAT(VerifyReport(*file, damaged), HasSubstr("GGUF files have no checksums"));
  EXPECT_FALSE(damaged);
}

TEST_P(GgufReportTest, EqualsTheModelThatItWasMadeOf) {
  Export(DType::kFloat32);
  // The directory also holds recorded logits, so a copy of its model alone.
  ASSERT_TRUE(ConvertHfToHf(*HfDirectory::Open(directory_), dir_.File("hf")).ok());
  for (const bool swapped : {false, true}) {
    bool differ = true;
    const std::string report =
        DiffOf(swapped ? gguf_ : dir_.File("hf"), swapped ? dir_.File("hf") : gguf_, differ);
    EXPECT_FALSE(differ) << report;
    EXPECT_THAT(report, HasSubstr("tensors are equal, bit for bit"));
  }
  // Compared with itself, with its own names.
  bool differ = true;
  DiffOf(gguf_, gguf_, differ);
  EXPECT_FALSE(differ);
}

TEST_P(GgufReportTest, OtherTypesAreComparedByValue) {
  Export(DType::kBFloat16);
  ASSERT_TRUE(ConvertHfToHf(*HfDirectory::Open(directory_), dir_.File("hf")).ok());
  bool differ = false;
  const std::string report = DiffOf(dir_.File("hf"), gguf_, differ);
  EXPECT_TRUE(differ);
  EXPECT_THAT(report, AllOf(HasSubstr("] and BF16 ["), HasSubstr("elements differ, by at most"),
                            ::testing::Not(HasSubstr("only in"))));
}

// Quantised tensors have the types of their blocks, and the norms of their values.
TEST(ReportTest, QuantisedTensorsAreListedAndCompared) {
  const TemporaryDirectory dir;
  const auto model = HfDirectory::Open("tests/testdata/olmo2_tiny");  // rows of 64 and 160
  ASSERT_TRUE(model.ok()) << model.status();
  GgufExportOptions options;
  options.dtype = DType::kFloat16;
  options.vocabulary = GgufVocabularySource::kNone;
  const std::string plain = dir.File("plain.gguf");
  ASSERT_EQ(ConvertHfToGguf(*model, plain, options), absl::OkStatus());
  options.mix = GgufMix::kQ8_0;
  const std::string packed = dir.File("packed.gguf");
  ASSERT_EQ(ConvertHfToGguf(*model, packed, options), absl::OkStatus());
  const auto table = TableOf(*Open(packed), /*norms=*/true);
  ASSERT_TRUE(table.ok()) << table.status();
  // A code is within 1/254 of the largest magnitude of its block, so the norm hardly changes.
  const auto norm_of = [](const std::string& text, const std::string& type) {
    const size_t row = text.find("\nblk.0.ffn_up.weight");
    const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
    EXPECT_THAT(line, HasSubstr(" " + type + " ")) << text;
    const size_t file = line.find(".gguf");
    return std::stod(line.substr(file + 5));
  };
  const double quantised = norm_of(*table, "Q8_0");
  const double exact = norm_of(*TableOf(*Open(plain), /*norms=*/true), "F16");
  EXPECT_GT(exact, 0);
  EXPECT_NEAR(quantised, exact, 0.01 * exact);

  bool differ = true;
  EXPECT_THAT(DiffOf(packed, packed, differ), HasSubstr("tensors are equal, bit for bit"));
  EXPECT_FALSE(differ);
  EXPECT_THAT(DiffOf(packed, plain, differ), HasSubstr("blk.0.ffn_up.weight: Q8_0 ["));
  EXPECT_TRUE(differ);
  ASSERT_TRUE(ConvertHfToHf(*model, dir.File("hf")).ok());
  EXPECT_THAT(DiffOf(dir.File("hf"), packed, differ),
              AllOf(HasSubstr("] and Q8_0 ["), HasSubstr("elements differ, by at most"),
                    ::testing::Not(HasSubstr("only in"))));
  EXPECT_TRUE(differ);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufReportTest, ::testing::Values("gpt2_tiny", "llama_tiny"),
                         [](const auto& model) { return std::string(model.param); });

// The sizes of all of ggml's types are known, so a file can be listed whose values cannot be read.
TEST(ReportTest, BlocksThatCannotBeUnpackedAreListed) {
  const TemporaryDirectory dir;
  const std::string path = dir.File("m.gguf");
  const auto writer =
      GgufWriter::Create(path, {}, {{"w", DType::kFloat16, {2, 32}}}, {{"w", GgufBlock::kQ8_0}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<uint8_t> blocks(2 * 34);
  blocks[35] = 'z';  // the last byte of two rows in IQ4_NL
  ASSERT_TRUE((*writer)->WriteBytes("w", 0, blocks).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  std::string bytes = ReadTestFile(path);
  // Behind the name are the number of dimensions, two of them and the type. IQ4_NL is number 20.
  const size_t name = bytes.find(std::string("\x01\0\0\0\0\0\0\0w", 9));
  ASSERT_NE(name, std::string::npos);
  char& type = bytes.at(name + 9 + 4 + 2 * 8);
  ASSERT_EQ(type, 8);
  type = 20;
  const auto file = Open(dir.Write("iq.gguf", bytes));
  ASSERT_NE(file, nullptr);
  const auto table = TableOf(*file, /*norms=*/true);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(*table, HasSubstr("w       IQ4_NL  [2, 32]  iq.gguf\n"));
  bool differ = true;
  EXPECT_EQ(*DiffReport(*file, *file, differ), "1 tensors are equal, bit for bit\n");
  EXPECT_FALSE(differ);
  bytes.at(bytes.rfind('z')) = 'y';
  const auto other = Open(dir.Write("other.gguf", bytes));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(*DiffReport(*file, *other, differ),
            "w: IQ4_NL [2, 32], blocks differ, values cannot be unpacked\n"
            "0 tensors are equal, bit for bit\n");
  EXPECT_TRUE(differ);
}

// With a scale of 0, all codes have the same values.
TEST(ReportTest, OtherBlocksOfEqualValuesAreNotEqual) {
  const TemporaryDirectory dir;
  const auto write = [&](const std::string& name, uint8_t code) {
    const auto writer = GgufWriter::Create(dir.File(name), {}, {{"w", DType::kFloat16, {2, 32}}},
                                           {{"w", GgufBlock::kQ8_0}});
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::vector<uint8_t> blocks(2 * 34);
    blocks.back() = code;
    EXPECT_TRUE((*writer)->WriteBytes("w", 0, blocks).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    return dir.File(name);
  };
  bool differ = false;
  EXPECT_EQ(DiffOf(write("a.gguf", 0), write("b.gguf", 1), differ),
            "w: Q8_0 [2, 32], blocks differ, all values equal\n"
            "0 tensors are equal, bit for bit\n");
  EXPECT_TRUE(differ);
}

TEST(ReportTest, OtherDirectoriesAreRefused) {
  const TemporaryDirectory dir;
  EXPECT_EQ(InspectedFile::Open(dir.File("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(InspectedFile::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(SaveCheckpoint(dir.path(), {"no_shard", 1}, 7), absl::OkStatus());
  EXPECT_THAT(std::string(InspectedFile::Open(dir.path()).status().message()),
              HasSubstr("step-00000007"));
  EXPECT_FALSE(InspectedFile::Open(dir.Write("x.safetensors", "no")).ok());
}

}  // namespace
}  // namespace zeroth
