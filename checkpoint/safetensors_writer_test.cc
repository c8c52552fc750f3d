// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> RandomValues(std::mt19937& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(SafetensorsWriterTest, LayoutIsDeterministicAndAligned) {
  const TemporaryDirectory dir;
  const auto write = [&dir](const std::string& name, std::vector<TensorDeclaration> tensors) {
    auto writer = SafetensorsWriter::Create(dir.File(name), std::move(tensors));
    EXPECT_TRUE((*writer)->Write("b", 0, {1.0f, 2.0f}).ok());
    EXPECT_TRUE((*writer)->Write("a", 0, {3.0f}).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    return ReadTestFile(dir.File(name));
  };
  const TensorDeclaration a = {"a", DType::kBFloat16, Shape{}};
  const TensorDeclaration b = {"b", DType::kFloat32, Shape{1, 2}};
  const std::string file = write("x", {a, b});
  EXPECT_EQ(file, write("y", {b, a}));

  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ((length + 8) % 64, 0u);
  std::string header = file.substr(8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(
      header,
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
      R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]}})");
  EXPECT_EQ(file.substr(8 + length), std::string("\x40\x40\x00\x00\x80\x3F\x00\x00\x00\x40", 10));
}

// Random shapes, types and pieces in random order come back as they went in.
TEST(SafetensorsWriterTest, RoundTrip) {
  const TemporaryDirectory dir;
  std::mt19937 random(3);
  const std::vector<DType> types = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<TensorDeclaration> tensors;
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 6; ++i) {
      std::vector<int64_t> dims;
      for (uint32_t d = random() % 4; d > 0; --d) dims.push_back(random() % 23);
      tensors.push_back(
          {absl::StrCat("layer.", i, " \"\u00e9\\"), types[random() % 3], Shape(dims)});
      values.push_back(RandomValues(random, tensors.back().shape.numel()));
    }
    struct Piece {
      size_t tensor;
      size_t begin;
      size_t end;
    };
    std::vector<Piece> pieces;
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (size_t begin = 0, end = 0; begin < values[t].size(); begin = end) {
        end = std::min(values[t].size(), begin + 1 + random() % 6000);
        pieces.push_back({t, begin, end});
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    const std::string path = dir.File("f");
    auto writer = SafetensorsWriter::Create(path, tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const Piece& piece : pieces) {
      ASSERT_TRUE((*writer)
                      ->Write(tensors[piece.tensor].name, static_cast<int64_t>(piece.begin),
                              absl::MakeConstSpan(values[piece.tensor])
                                  .subspan(piece.begin, piece.end - piece.begin))
                      .ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());

    const auto file = SafetensorsFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->tensors().size(), tensors.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      EXPECT_EQ((*file)->Find(tensors[t].name)->dtype, ToSafetensorsDType(tensors[t].dtype));
      const auto read = (*file)->ReadAll(tensors[t].name, tensors[t].shape);
      ASSERT_TRUE(read.ok()) << read.status();
      for (size_t i = 0; i < values[t].size(); ++i) {
        const float written = values[t][i];
        const float expected = tensors[t].dtype == DType::kFloat32    ? written
                               : tensors[t].dtype == DType::kBFloat16 ? ToFloat(ToBFloat16(written))
                                                                      : ToFloat(ToFloat16(written));
        ASSERT_EQ((*read)[i], expected);
      }
    }
  }
}

TEST(SafetensorsWriterTest, CopyOfATransformersFileHoldsTheSameValues) {
  const TemporaryDirectory dir;
  const auto source = SafetensorsFile::Open("tests/testdata/gpt2_tiny/model.safetensors");
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<TensorDeclaration> tensors;
  for (const auto& [name, entry] : (*source)->tensors())
    tensors.push_back({name, DType::kFloat32, entry.shape});
  auto writer = SafetensorsWriter::Create(dir.File("f"), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const TensorDeclaration& tensor : tensors) {
    ASSERT_TRUE(
        (*writer)->Write(tensor.name, 0, *(*source)->ReadAll(tensor.name, tensor.shape)).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto copy = SafetensorsFile::Open(dir.File("f"));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ((*copy)->names(), (*source)->names());
  for (const std::string& name : (*source)->names())
    EXPECT_EQ(*(*copy)->RawBytes(name), *(*source)->RawBytes(name));
}

TEST(SafetensorsWriterTest, RanksWriteTheirShardsAtOnce) {
  const TemporaryDirectory dir;
  constexpr int64_t kRanks = 5;
  constexpr int64_t kElements = 10'007;
  std::mt19937 random(5);
  const std::vector<float> values = RandomValues(random, kElements);
  auto writer = SafetensorsWriter::Create(
      dir.File("f"),
      {{"p", DType::kFloat32, Shape{kElements}}, {"q", DType::kBFloat16, Shape{kElements}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<absl::Status> statuses(kRanks);
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const int64_t begin = kElements * rank / kRanks;
      const int64_t end = kElements * (rank + 1) / kRanks;
      const auto shard = absl::MakeConstSpan(values).subspan(static_cast<size_t>(begin),
                                                             static_cast<size_t>(end - begin));
      statuses[static_cast<size_t>(rank)] = (*writer)->Write("p", begin, shard);
      statuses[static_cast<size_t>(rank)].Update((*writer)->Write("q", begin, shard));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(*(*SafetensorsFile::Open(dir.File("f")))->ReadAll("p", Shape{kElements}), values);
}

TEST(SafetensorsWriterTest, IntegersAsBytes) {
  const TemporaryDirectory dir;
  auto writer = SafetensorsWriter::Create(dir.File("f"), {{"step", DType::kInt64, Shape{}}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ((*writer)->Write("step", 0, {1.0f}).code(), absl::StatusCode::kInvalidArgument);
  const int64_t step = 12345678901;
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&step), 8);
  EXPECT_EQ((*writer)->WriteBytes("step", 1, bytes).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE((*writer)->WriteBytes("step", 0, bytes).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto file = SafetensorsFile::Open(dir.File("f"));
  EXPECT_EQ(absl::MakeConstSpan(*(*file)->RawBytes("step")), bytes);
  EXPECT_TRUE((*file)->metadata().empty());
}

TEST(SafetensorsWriterTest, AppearsWholeOrNotAtAll) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", "earlier");
  {
    auto writer = SafetensorsWriter::Create(path, {{"p", DType::kFloat32, Shape{4}}});
    ASSERT_TRUE((*writer)->Write("p", 0, {1.0f}).ok());
    ASSERT_TRUE((*writer)->Write("p", 2, {1.0f}).ok());
    const absl::Status status = (*writer)->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the bytes [4, 8) of tensor \"p\" (16 bytes) were never written"));
    EXPECT_EQ(ReadTestFile(path), "earlier");
    EXPECT_EQ(dir.List().size(), 2u);
  }
  EXPECT_THAT(dir.List(), ElementsAre("f"));
  EXPECT_EQ(ReadTestFile(path), "earlier");

  auto writer = SafetensorsWriter::Create(path, {{"p", DType::kFloat32, Shape{1}}});
  ASSERT_TRUE((*writer)->Write("p", 0, {1.0f}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_THAT(dir.List(), ElementsAre("f"));
  EXPECT_TRUE(SafetensorsFile::Open(path).ok());
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*writer)->Write("p", 0, {1.0f}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SafetensorsWriterTest, RefusesWrongWrites) {
  const TemporaryDirectory dir;
  auto writer = SafetensorsWriter::Create(dir.File("f"), {{"p", DType::kFloat16, Shape{2, 2}}});
  EXPECT_EQ((*writer)->Write("q", 0, {1.0f}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*writer)->Write("p", 3, {1.0f, 2.0f}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*writer)->Write("p", -1, {1.0f}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*writer)->Write("p", std::numeric_limits<int64_t>::max(), {1.0f}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE((*writer)->Write("p", 1, {1.0f, 2.0f}).ok());
  EXPECT_EQ((*writer)->Write("p", 2, {1.0f, 2.0f}).code(), absl::StatusCode::kAlreadyExists);
}

TEST(SafetensorsWriterTest, RefusesWrongDeclarations) {
  const TemporaryDirectory dir;
  const auto create = [&dir](std::vector<TensorDeclaration> tensors) {
    return SafetensorsWriter::Create(dir.File("f"), std::move(tensors)).status();
  };
  const TensorDeclaration p = {"p", DType::kFloat32, Shape{1}};
  EXPECT_THAT(std::string(create({p, p}).message()), HasSubstr("tensor \"p\" is declared twice"));
  EXPECT_EQ(create({{"", DType::kFloat32, Shape{}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({{"__metadata__", DType::kFloat32, Shape{}}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(create({{"a\xff", DType::kFloat32, Shape{}}}).message()),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(std::string(create({{"huge", DType::kFloat32, Shape{int64_t{1} << 62}}}).message()),
              HasSubstr("overflows"));
  EXPECT_EQ(SafetensorsWriter::Create(dir.File("no/f"), {p}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(dir.List().empty());
}

}  // namespace
}  // namespace zeroth
