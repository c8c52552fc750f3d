// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/tensor_copy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Elements that are held at a time: 4 MiB of float32.
constexpr int64_t kPiece = int64_t{1} << 20;

bool MovesHalves(Relayout relayout) {
  return relayout == Relayout::kInterleaveHalves || relayout == Relayout::kSeparateHalves;
}

absl::Status WrongShape(const WeightsSource& source, const TensorCopy& copy, const Shape& shape,
                        absl::string_view expected) {
  return InvalidArgument(source.description(), ": tensor \"", copy.from, "\" has shape ",
                         shape.ToString(), ", expected ", expected);
}

bool IsRegrouping(Relayout relayout) {
  return relayout == Relayout::kRegroupRows || relayout == Relayout::kRegroupColumns;
}

bool HasWholeHeads(const TensorCopy& copy, const Shape& shape) {
  if (copy.heads < 1 || copy.groups < 1 || copy.unmoved < 0 || shape.rank() < 1) return false;
  const int64_t size = shape.dim(copy.relayout == Relayout::kRegroupRows ? 0 : shape.rank() - 1);
  return copy.heads % copy.groups == 0 && size > copy.unmoved &&
         (size - copy.unmoved) % copy.heads == 0;
}

// Returns the shape of the copied part of the source, and checks that it allows the copy.
absl::StatusOr<Shape> CopiedShape(const WeightsSource& source, const TensorCopy& copy) {
  ZEROTH_ASSIGN_OR_RETURN(Shape shape, source.ShapeOf(copy.from));
  if (copy.stacking == Stacking::kOutOf) {
    if (shape.rank() < 1 || shape.dim(0) != copy.places) {
      return WrongShape(source, copy, shape, absl::StrCat("a first dimension of ", copy.places));
    }
    shape = Shape(shape.dims().subspan(1));
  }
  std::string expected;
  if ((copy.relayout == Relayout::kTranspose || copy.relayout == Relayout::kRegroupColumns) &&
      shape.rank() != 2) {
    expected = "two dimensions";
  } else if (MovesHalves(copy.relayout) &&
             (copy.heads < 1 || shape.rank() < 1 || shape.dim(0) % copy.heads != 0 ||
              shape.dim(0) / copy.heads % 2 != 0)) {
    expected = absl::StrCat("a first dimension that ", copy.heads,
                            " attention heads divide into even parts");
  } else if (IsRegrouping(copy.relayout) && !HasWholeHeads(copy, shape)) {
    expected = absl::StrCat(copy.relayout == Relayout::kRegroupRows ? "a first" : "a last",
                            " dimension of ", copy.unmoved, " and ", copy.heads,
                            " heads of one size, in ", copy.groups, " groups");
  } else if (copy.reshaping == Reshaping::kDropMiddle && (shape.rank() != 3 || shape.dim(1) != 1)) {
    expected = "[channels, 1, width]";
  } else if (copy.reshaping == Reshaping::kInsertMiddle && shape.rank() != 2) {
    expected = "[channels, width]";
  } else if (copy.stacking == Stacking::kInto &&
             (shape.rank() == Shape::kMaxRank ||
              shape.numel() > std::numeric_limits<int64_t>::max() / copy.places)) {
    expected = absl::StrCat("one of which ", copy.places, " can be stacked");
  }
  if (!expected.empty()) return WrongShape(source, copy, shape, expected);
  return shape;
}

Shape DestinationShape(const TensorCopy& copy, const Shape& copied) {
  std::vector<int64_t> dims(copied.dims().begin(), copied.dims().end());
  if (copy.relayout == Relayout::kTranspose) std::swap(dims[0], dims[1]);
  if (copy.reshaping == Reshaping::kDropMiddle) dims.erase(dims.begin() + 1);
  if (copy.reshaping == Reshaping::kInsertMiddle) dims.insert(dims.begin() + 1, 1);
  if (copy.stacking == Stacking::kInto) dims.insert(dims.begin(), copy.places);
  return Shape(dims);
}

absl::Status MissingPlace(const WeightsSource& source, const TensorCopy& copy, int64_t place) {
  return InvalidArgument(source.description(), ": \"", copy.to, "\" is made of ", copy.places,
                         " tensors such as \"", copy.from, "\", expected each of 0 to ",
                         copy.places - 1, " once, found no number ", place, " in its place");
}

// Of the source's `size` rows or columns, returns the run that becomes those from `place` on: to
// the end of the unmoved ones, or of the head.
SourceRun RegroupedRun(const TensorCopy& copy, int64_t size, int64_t place) {
  if (place < copy.unmoved) return {place, copy.unmoved - place};
  const int64_t of_head = (size - copy.unmoved) / copy.heads;
  const int64_t head = (place - copy.unmoved) / of_head;
  const int64_t inside = (place - copy.unmoved) % of_head;
  const int64_t from = head % copy.groups * (copy.heads / copy.groups) + head / copy.groups;
  return {copy.unmoved + from * of_head + inside, of_head - inside};
}

// Returns the row of the source that becomes row `row` of the destination, with moved halves.
int64_t SourceRow(const TensorCopy& copy, int64_t rows, int64_t row) {
  const int64_t width = rows / copy.heads;
  const int64_t half = width / 2;
  const int64_t head = row / width;
  const int64_t place = row % width;
  const int64_t from = copy.relayout == Relayout::kInterleaveHalves
                           ? place / 2 + place % 2 * half
                           : place % half * 2 + place / half;
  return head * width + from;
}

// Checks and forwards the pieces of one copy.
class Copier {
 public:
  Copier(const WeightsSource& source, const TensorCopy& copy, const Shape& shape, TensorSink sink)
      : source_(source), copy_(copy), shape_(shape), sink_(sink) {
    const int64_t before = copy.place * shape.numel();
    if (copy.stacking == Stacking::kOutOf) source_begin_ = before;
    if (copy.stacking == Stacking::kInto) destination_begin_ = before;
  }

  absl::Status Run() {
    if (shape_.numel() == 0) return absl::OkStatus();
    if (copy_.relayout == Relayout::kTranspose) return Transpose();
    return CopyRuns();
  }

 private:
  absl::Status Read(int64_t begin, absl::Span<float> values) {
    return source_.ReadElements(copy_.from, source_begin_ + begin, values);
  }

  absl::Status CopyRuns() {
    const int64_t rows = shape_.rank() == 0 ? 1 : shape_.dim(0);
    const int64_t columns = shape_.numel() / rows;
    for (int64_t begin = 0; begin < shape_.numel(); begin += kPiece) {
      const int64_t size = std::min(kPiece, shape_.numel() - begin);
      values_.resize(static_cast<size_t>(size));
      for (int64_t at = 0; at < size;) {
        const SourceRun run = SourceRunOf(copy_, rows, columns, begin + at);
        const int64_t taken = std::min(run.size, size - at);
        ZEROTH_RETURN_IF_ERROR(Read(
            run.begin,
            absl::MakeSpan(values_).subspan(static_cast<size_t>(at), static_cast<size_t>(taken))));
        at += taken;
      }
      ZEROTH_RETURN_IF_ERROR(Emit(begin));
    }
    return absl::OkStatus();
  }

  absl::Status Transpose() {
    const int64_t rows = shape_.dim(0);
    const int64_t columns = shape_.dim(1);
    // Destination rows that are collected at a time: many, because each read of a source row is a
    // system call.
    const int64_t most = std::max<int64_t>(64, kPiece / std::max<int64_t>(1, rows));
    std::vector<float> strip;
    for (int64_t begin = 0; begin < columns; begin += most) {
      const int64_t taken = std::min(most, columns - begin);
      strip.resize(static_cast<size_t>(taken));
      values_.resize(static_cast<size_t>(taken * rows));
      for (int64_t row = 0; row < rows; ++row) {
        ZEROTH_RETURN_IF_ERROR(Read(row * columns + begin, absl::MakeSpan(strip)));
        for (int64_t i = 0; i < taken; ++i) {
          values_[static_cast<size_t>(i * rows + row)] = strip[static_cast<size_t>(i)];
        }
      }
      ZEROTH_RETURN_IF_ERROR(Emit(begin * rows));
    }
    return absl::OkStatus();
  }

  absl::Status Emit(int64_t begin) {
    ZEROTH_RETURN_IF_ERROR(MapElements(source_, copy_, absl::MakeSpan(values_)));
    if (copy_.dtype == DType::kFloat16) ZEROTH_RETURN_IF_ERROR(CheckFloat16());
    return sink_(copy_.to, destination_begin_ + begin, values_);
  }

  absl::Status CheckFloat16() const {
    for (const float value : values_) {
      if (std::isfinite(value) && !std::isfinite(ToFloat(ToFloat16(value)))) {
        return absl::OutOfRangeError(
            absl::StrCat(source_.description(), ": tensor \"", copy_.from, "\" holds ", value,
                         ", more than the 65504 that fp16 can hold; choose bf16 or fp32"));
      }
    }
    return absl::OkStatus();
  }

  const WeightsSource& source_;
  const TensorCopy& copy_;
  const Shape shape_;
  TensorSink sink_;
  int64_t source_begin_ = 0;
  int64_t destination_begin_ = 0;
  std::vector<float> values_;
};

}  // namespace

SourceRun SourceRunOf(const TensorCopy& copy, int64_t rows, int64_t row_size, int64_t begin) {
  const int64_t row = begin / row_size;
  const int64_t column = begin % row_size;
  if (copy.relayout == Relayout::kRegroupColumns) {
    const SourceRun run = RegroupedRun(copy, row_size, column);
    return {row * row_size + run.begin, run.size};
  }
  if (copy.relayout == Relayout::kRegroupRows) {
    const SourceRun run = RegroupedRun(copy, rows, row);
    return {run.begin * row_size + column, run.size * row_size - column};
  }
  if (copy.relayout == Relayout::kNone) return {begin, rows * row_size - begin};
  return {SourceRow(copy, rows, row) * row_size + column, row_size - column};
}

absl::Status MapElements(const WeightsSource& source, const TensorCopy& copy,
                         absl::Span<float> values) {
  if (copy.added != 0.0f) {
    for (float& value : values) value += copy.added;
  }
  if (copy.mapping == ElementMapping::kNone) return absl::OkStatus();
  const bool minus_exp = copy.mapping == ElementMapping::kMinusExp;
  for (float& value : values) {
    const double exact =
        minus_exp ? -std::exp(static_cast<double>(value)) : std::log(-static_cast<double>(value));
    const float mapped = static_cast<float>(exact);
    if (!std::isfinite(mapped) || (minus_exp && mapped == 0.0f)) {
      return absl::OutOfRangeError(absl::StrCat(
          source.description(), ": tensor \"", copy.from, "\" holds ", value, ", expected ",
          minus_exp ? "a logarithm whose exponential fp32 can hold (-103 to 88)"
                    : "a finite negative number, whose logarithm the model needs",
          "; the file is damaged or of another layout"));
    }
    value = mapped;
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> CopiedDType(const WeightsSource& source, absl::string_view name,
                                  std::optional<DType> asked) {
  ZEROTH_RETURN_IF_ERROR(source.ShapeOf(name).status());
  switch (source.Find(name)->dtype) {
    case SafetensorsDType::kF32:
      return asked.value_or(DType::kFloat32);
    case SafetensorsDType::kF16:
      return asked.value_or(DType::kFloat16);
    case SafetensorsDType::kBF16:
      return asked.value_or(DType::kBFloat16);
    case SafetensorsDType::kF64:
      if (asked.has_value()) return *asked;
      return InvalidArgument(source.description(), ": tensor \"", name,
                             "\" is F64, which cannot be written; --dtype=fp32 rounds it");
    default:
      return InvalidArgument(source.description(), ": tensor \"", name, "\" is ",
                             SafetensorsDTypeName(source.Find(name)->dtype),
                             ", expected F32, F16, BF16 or F64");
  }
}

std::string TorchDTypeName(DType dtype) {
  ZEROTH_CHECK(IsFloatingPoint(dtype));
  if (dtype == DType::kFloat16) return "float16";
  return dtype == DType::kBFloat16 ? "bfloat16" : "float32";
}

absl::StatusOr<std::vector<TensorDeclaration>> DeclareCopies(const WeightsSource& source,
                                                             absl::Span<const TensorCopy> copies) {
  std::vector<TensorDeclaration> declarations;
  declarations.reserve(copies.size());
  const TensorCopy* unfinished = nullptr;  // the last copy of a stack that lacks further places
  for (const TensorCopy& copy : copies) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, CopiedShape(source, copy));
    const bool into = copy.stacking == Stacking::kInto;
    const bool goes_on = unfinished != nullptr && into && unfinished->to == copy.to;
    if (unfinished != nullptr && !goes_on) {
      return MissingPlace(source, *unfinished, unfinished->place + 1);
    }
    const int64_t place = goes_on ? unfinished->place + 1 : 0;
    if (into && copy.place != place) return MissingPlace(source, copy, place);
    unfinished = into && copy.place + 1 < copy.places ? &copy : nullptr;
    TensorDeclaration declaration = {copy.to, copy.dtype, DestinationShape(copy, shape)};
    if (!goes_on) {
      declarations.push_back(std::move(declaration));
    } else if (declarations.back().shape != declaration.shape ||
               declarations.back().dtype != declaration.dtype) {
      return InvalidArgument(source.description(), ": tensor \"", copy.from,
                             "\" has another shape or type than those before it in \"", copy.to,
                             "\"");
    }
  }
  if (unfinished != nullptr) return MissingPlace(source, *unfinished, unfinished->place + 1);
  return declarations;
}

absl::Status CopyTensors(const WeightsSource& source, absl::Span<const TensorCopy> copies,
                         TensorSink sink) {
  for (const TensorCopy& copy : copies) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, CopiedShape(source, copy));
    ZEROTH_RETURN_IF_ERROR(Copier(source, copy, shape, sink).Run());
  }
  return absl::OkStatus();
}

}  // namespace zeroth
