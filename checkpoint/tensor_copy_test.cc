// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/tensor_copy.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
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

using ::testing::HasSubstr;

// A source of one tensor "w" whose element i is i.
class TensorCopyTest : public ::testing::Test {
 protected:
  std::unique_ptr<SafetensorsFile> Source(const Shape& shape) {
    const std::string path = dir_.File(absl::StrCat("source", ++count_));
    auto writer = SafetensorsWriter::Create(path, {{"w", DType::kFloat32, shape}});
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    EXPECT_TRUE((*writer)->Write("w", 0, values).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    auto file = SafetensorsFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  // The copy's elements; every one must arrive once.
  static std::vector<float> Copied(const WeightsSource& source, const TensorCopy& copy) {
    const size_t numel = static_cast<size_t>(source.Find("w")->shape.numel());
    std::vector<float> result(numel, -1);
    const absl::Status status =
        CopyTensors(source, {&copy, 1},
                    [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
                      EXPECT_EQ(name, "copy");
                      for (size_t i = 0; i < values.size(); ++i) {
                        float& element = result.at(static_cast<size_t>(begin) + i);
                        EXPECT_EQ(element, -1) << "written twice";
                        element = values[i];
                      }
                      return absl::OkStatus();
                    });
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  static TensorCopy Copy(Relayout relayout, int64_t heads = 1) {
    return {"w", "copy", relayout, heads, DType::kFloat32};
  }

  TemporaryDirectory dir_;
  int count_ = 0;
};

TEST_F(TensorCopyTest, CopiesFlatTensorsLongerThanAPiece) {
  for (const Shape& shape : {Shape(), Shape({0, 3}), Shape({7}), Shape({(1 << 20) + 3})}) {
    const auto source = Source(shape);
    const std::vector<float> copied = Copied(*source, Copy(Relayout::kNone));
    for (size_t i = 0; i < copied.size(); ++i) ASSERT_EQ(copied[i], static_cast<float>(i));
  }
}

TEST_F(TensorCopyTest, TransposesOddShapes) {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 1},   {1, 5},   {5, 1}, {3, 64},
                                                           {65, 63}, {7, 200}, {0, 4}, {4, 0}};
  for (const auto& [rows, columns] : shapes) {
    const auto source = Source({rows, columns});
    const TensorCopy copy = Copy(Relayout::kTranspose);
    const auto declared = DeclareCopies(*source, {&copy, 1});
    ASSERT_TRUE(declared.ok()) << declared.status();
    EXPECT_EQ(declared->at(0).shape, (Shape{columns, rows}));
    const std::vector<float> copied = Copied(*source, copy);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < rows; ++row) {
        ASSERT_EQ(copied[static_cast<size_t>(column * rows + row)],
                  static_cast<float>(row * columns + column));
      }
    }
  }
}

TEST_F(TensorCopyTest, InterleavesTheHalvesOfEachHead) {
  // Two heads of four rows, by hand.
  const auto source = Source({8, 1});
  EXPECT_EQ(Copied(*source, Copy(Relayout::kInterleaveHalves, 2)),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(Copied(*source, Copy(Relayout::kInterleaveHalves, 1)),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(Copied(*source, Copy(Relayout::kSeparateHalves, 1)),
            (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
  // A bias has rows, too.
  EXPECT_EQ(Copied(*Source({4}), Copy(Relayout::kInterleaveHalves, 1)),
            (std::vector<float>{0, 2, 1, 3}));
}

TEST_F(TensorCopyTest, SeparatingUndoesInterleaving) {
  for (const int64_t heads : {1, 3, 5}) {
    for (const int64_t width : {2, 4, 10}) {
      const int64_t columns = 7;
      const auto source = Source({heads * width, columns});
      const std::vector<float> there = Copied(*source, Copy(Relayout::kInterleaveHalves, heads));
      const std::vector<float> back = Copied(*source, Copy(Relayout::kSeparateHalves, heads));
      // Composed as permutations of elements, since element i holds i.
      for (size_t i = 0; i < there.size(); ++i) {
        ASSERT_EQ(there[static_cast<size_t>(back[i])], static_cast<float>(i));
      }
    }
  }
}

TEST_F(TensorCopyTest, RefusesShapesThatTheRelayoutDoesNotFit) {
  const auto message = [](const WeightsSource& source, const TensorCopy& copy) {
    const absl::Status status = DeclareCopies(source, {&copy, 1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(*Source({4}), Copy(Relayout::kTranspose)),
              HasSubstr("tensor \"w\" has shape [4], expected two dimensions"));
  EXPECT_THAT(message(*Source({9, 2}), Copy(Relayout::kSeparateHalves, 3)),
              HasSubstr("3 attention heads divide into even parts"));
  EXPECT_THAT(message(*Source({4, 2}), Copy(Relayout::kSeparateHalves, 0)), HasSubstr("0 att"));
  EXPECT_THAT(message(*Source({2, 3, 4}), Copy(Relayout::kRegroupColumns, 4)),
              HasSubstr("has shape [2, 3, 4], expected two dimensions"));
  EXPECT_THAT(message(*Source({4}), Copy(Relayout::kRegroupColumns, 4)),
              HasSubstr("expected two dimensions"));
  EXPECT_THAT(message(*Source({2, 6}), Copy(Relayout::kRegroupColumns, 4)),
              HasSubstr("a last dimension of 0 and 4 heads of one size"));
  // The largest count that a GGUF file can hold; twice as many overflow.
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(message(*Source({4, 2}), Copy(Relayout::kSeparateHalves, most)),
              HasSubstr("attention heads divide into even parts"));
}

// Three transposed matrices out of one tensor, and the same three into one: where they land, too.
TEST_F(TensorCopyTest, StacksAndTakesApart) {
  const auto source = Source({3, 2, 4});
  std::vector<TensorCopy> copies(3, Copy(Relayout::kTranspose));
  for (int64_t place = 0; place < 3; ++place) {
    TensorCopy& copy = copies[static_cast<size_t>(place)];
    copy.to = absl::StrCat("part", place);
    copy.stacking = Stacking::kOutOf;
    copy.place = place;
    copy.places = 3;
  }
  const auto parts = DeclareCopies(*source, copies);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3u);
  const std::string path = dir_.File("parts");
  auto writer = SafetensorsWriter::Create(path, *parts);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const auto write = [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
    return (*writer)->Write(name, begin, values);
  };
  ASSERT_TRUE(CopyTensors(*source, copies, write).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->ReadAll("part1", {4, 2}), (std::vector<float>{8, 12, 9, 13, 10, 14, 11, 15}));
  for (TensorCopy& copy : copies) {
    std::swap(copy.from, copy.to);
    copy.to = "whole";
    copy.stacking = Stacking::kInto;
  }
  const auto whole = DeclareCopies(**file, copies);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->size(), 1u);
  EXPECT_EQ(whole->at(0).shape, (Shape{3, 2, 4}));
  std::vector<float> stacked(24, -1);
  const auto keep = [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
    EXPECT_EQ(name, "whole");
    std::copy(values.begin(), values.end(), stacked.begin() + begin);
    return absl::OkStatus();
  };
  ASSERT_TRUE(CopyTensors(**file, copies, keep).ok());
  EXPECT_EQ(stacked, *source->ReadAll("w", {3, 2, 4}));
}

TEST_F(TensorCopyTest, RefusesIncompleteStacks) {
  const auto source = Source({4, 2});
  const auto message = [&](const std::vector<int64_t>& places) {
    std::vector<TensorCopy> copies;
    for (const int64_t place : places) {
      copies.push_back(Copy(Relayout::kNone));
      copies.back().stacking = Stacking::kInto;
      copies.back().place = place;
      copies.back().places = 3;
    }
    const auto declared = DeclareCopies(*source, copies);
    return declared.ok() ? "accepted" : std::string(declared.status().message());
  };
  EXPECT_EQ(message({0, 1, 2}), "accepted");
  EXPECT_THAT(message({0, 1}), HasSubstr("found no number 2"));
  EXPECT_THAT(message({0, 2}), HasSubstr("found no number 1"));
  EXPECT_THAT(message({1, 2}), HasSubstr("found no number 0"));
  EXPECT_THAT(message({0, 1, 1}), HasSubstr("found no number 2"));
  std::vector<TensorCopy> types(2, Copy(Relayout::kNone));
  for (TensorCopy& copy : types) {
    copy.stacking = Stacking::kInto;
    copy.places = 2;
  }
  types[1].place = 1;
  types[1].dtype = DType::kBFloat16;
  EXPECT_THAT(std::string(DeclareCopies(*source, types).status().message()),
              HasSubstr("another shape or type"));
  const auto deepest = Source({1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(std::string(DeclareCopies(*deepest, types).status().message()),
              HasSubstr("expected one of which 2 can be stacked"));
  types[0].places = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(std::string(DeclareCopies(*source, types).status().message()),
              HasSubstr("can be stacked"));
  TensorCopy part = Copy(Relayout::kNone);
  part.stacking = Stacking::kOutOf;
  part.places = 3;
  EXPECT_THAT(std::string(DeclareCopies(*source, {&part, 1}).status().message()),
              HasSubstr("shape [4, 2], expected a first dimension of 3"));
}

TEST_F(TensorCopyTest, RefusesWhatFloat16CannotHold) {
  const auto source = Source({65521});
  TensorCopy copy = Copy(Relayout::kNone);
  copy.dtype = DType::kFloat16;
  const auto ignore = [](absl::string_view, int64_t, absl::Span<const float>) {
    return absl::OkStatus();
  };
  // 65519 still rounds to 65504; 65520 would be infinite.
  EXPECT_TRUE(CopyTensors(*Source({65520}), {&copy, 1}, ignore).ok());
  const absl::Status status = CopyTensors(*source, {&copy, 1}, ignore);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"w\" holds 65520"));
  copy.dtype = DType::kBFloat16;
  EXPECT_TRUE(CopyTensors(*source, {&copy, 1}, ignore).ok());
}

}  // namespace
}  // namespace zeroth
