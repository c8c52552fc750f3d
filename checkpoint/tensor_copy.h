// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies tensors between file formats with different layouts: transposed matrices, rows in another
// order. Holds a few MiB at a time, however large a tensor is.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

enum class Relayout {
  kNone,
  // [a, b] becomes [b, a].
  kTranspose,
  // The rows (dim 0) of each head are two halves. Hugging Face's Llama rotates the pairs (0, d/2),
  // (1, d/2 + 1), ... These become neighbours, 0, d/2, 1, d/2 + 1, ..., as in the original Llama
  // and in llama.cpp.
  kInterleaveHalves,
  // The inverse.
  kSeparateHalves,
  // The last rows (dim 0) are those of `heads` heads in `groups` groups. Head i of group g, number
  // g * heads / groups + i before, becomes number i * groups + g. With heads / groups groups, this
  // is the inverse.
  kRegroupRows,
  // The same for the columns of a matrix.
  kRegroupColumns,
};

// What becomes of each element, in fp32.
enum class ElementMapping {
  kNone,
  // a becomes -exp(a).
  kMinusExp,
  // The inverse: log(-a).
  kLogOfMinus,
};

enum class Reshaping {
  kNone,
  // [a, 1, b] becomes [a, b].
  kDropMiddle,
  // The inverse.
  kInsertMiddle,
};

// One side may hold several tensors of one shape stacked along a new first dimension.
enum class Stacking {
  kNone,
  // The copy is tensor number `place` of the `places` stacked in the destination. The copies of a
  // stack follow each other by place, with no other copy between.
  kInto,
  // The copy is tensor number `place` of the `places` stacked in the source.
  kOutOf,
};

struct TensorCopy {
  std::string from;
  std::string to;
  Relayout relayout = Relayout::kNone;
  // Number of heads in the rows, for kInterleaveHalves and kSeparateHalves, or in the rows or
  // columns after the first `unmoved`, for kRegroupRows and kRegroupColumns.
  int64_t heads = 1;
  // The copy's type: fp32, bf16 or fp16.
  DType dtype = DType::kFloat32;
  float added = 0.0f;  // added to each element, in fp32
  int64_t groups = 1;
  int64_t unmoved = 0;
  ElementMapping mapping = ElementMapping::kNone;
  Reshaping reshaping = Reshaping::kNone;
  Stacking stacking = Stacking::kNone;
  int64_t place = 0;
  int64_t places = 1;
};

// A run of elements that are neighbours in the source, too.
struct SourceRun {
  int64_t begin = 0;  // in the source
  int64_t size = 0;
};

// Returns the contiguous run of the source that starts at element `begin` of the destination: a
// row, or a group that a relayout moves as one. Not for kTranspose. The destination has `rows` rows
// of `row_size` elements. Elements may also be units of several values (such as blocks) if these
// divide a row, and the columns of a head, evenly.
SourceRun SourceRunOf(const TensorCopy& copy, int64_t rows, int64_t row_size, int64_t begin);

// Applies `added` and `mapping` to elements of the copy. OutOfRange, naming the tensor of `source`
// and the value, if fp32 cannot hold a result or its inverse.
absl::Status MapElements(const WeightsSource& source, const TensorCopy& copy,
                         absl::Span<float> values);

// Returns `asked`, or else the tensor's own type. NotFound or InvalidArgument, naming the tensor,
// for a type other than F32, F16, BF16 and F64, and for F64 unless a type is asked for: no file is
// written in F64, and rounding is not silent.
absl::StatusOr<DType> CopiedDType(const WeightsSource& source, absl::string_view name,
                                  std::optional<DType> asked);

// "float32", "bfloat16", "float16": torch_dtype in a config.json. Aborts for integers.
std::string TorchDTypeName(DType dtype);

// Returns the tensors that the destination declares, in the order of `copies`; copies that are
// stacked make one tensor. InvalidArgument, naming the tensor, if its shape does not allow the
// relayout, and for a stack with a place that is missing or filled twice, or with several shapes or
// types.
absl::StatusOr<std::vector<TensorDeclaration>> DeclareCopies(const WeightsSource& source,
                                                             absl::Span<const TensorCopy> copies);

// Receives elements [begin, begin + values.size()) of the destination's tensor `name`.
using TensorSink = absl::FunctionRef<absl::Status(absl::string_view name, int64_t begin,
                                                  absl::Span<const float> values)>;

// Feeds every element of every copy to `sink`, in order. OutOfRange, naming the tensor and the
// value, if fp16 cannot hold a value, which would become infinite; and the errors of MapElements.
absl::Status CopyTensors(const WeightsSource& source, absl::Span<const TensorCopy> copies,
                         TensorSink sink);

}  // namespace zeroth
