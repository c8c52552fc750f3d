// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/tensor_copy.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/safetensors.h"
#include "zeroth/checkpoint/safetensors_writer.h"
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
