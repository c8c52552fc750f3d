// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies tensors from one file format to another, whose layouts differ: a matrix stored the other
// way round, rows in another order. Streams: a few MiB at a time, however large a tensor is.

#ifndef ZEROTH_CHECKPOINT_TENSOR_COPY_H_
#define ZEROTH_CHECKPOINT_TENSOR_COPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

enum class Relayout {
  kNone,
  // [a, b] becomes [b, a].
  kTranspose,
  // The rows (dim 0) of each head are two halves, as rotary embeddings in Hugging Face's Llama pair
  // them: (0, d/2), (1, d/2 + 1), ... They become neighbours: 0, d/2, 1, d/2 + 1, ..., as in the
  // original Llama and in llama.cpp.
  kInterleaveHalves,
  // The inverse of that.
  kSeparateHalves,
};

// One side may hold several tensors of one shape stacked along a new first dimension.
enum class Stacking {
  kNone,
  // The copy is `place` of the `places` that the destination consists of. Such copies follow each
  // other by place, with nothing between.
  kInto,
  // The copy is `place` of the `places` that the source consists of.
  kOutOf,
};

struct TensorCopy {
  std::string from;
  std::string to;
  Relayout relayout = Relayout::kNone;
  // Heads that the rows divide into; for the two that move halves.
  int64_t heads = 1;
  // Of the copy: fp32, bf16 or fp16.
  DType dtype = DType::kFloat32;
  Stacking stacking = Stacking::kNone;
  int64_t place = 0;
  int64_t places = 1;
};

// The type that keeps a tensor's values: its own if it is F32, F16 or BF16, fp32 for F64 (which
// rounds). NotFound or InvalidArgument, naming the tensor, for the rest.
absl::StatusOr<DType> KeepingDType(const WeightsSource& source, absl::string_view name);

// "float32", "bfloat16", "float16": torch_dtype in a config.json. Aborts for integers.
std::string TorchDTypeName(DType dtype);

// What the destination declares, in the order of `copies`; one tensor for all that are stacked into
// it. InvalidArgument, naming the tensor, if its shape does not allow the relayout, and for a stack
// with a place missing, or taken twice, or of several shapes or types.
absl::StatusOr<std::vector<TensorDeclaration>> DeclareCopies(const WeightsSource& source,
                                                             absl::Span<const TensorCopy> copies);

// Receives elements [begin, begin + values.size()) of the destination's tensor `name`.
using TensorSink = absl::FunctionRef<absl::Status(absl::string_view name, int64_t begin,
                                                  absl::Span<const float> values)>;

// Feeds every element of every copy to `sink`, in order. OutOfRange, naming the tensor and the
// value, for one that fp16 cannot hold: it would become infinite.
absl::Status CopyTensors(const WeightsSource& source, absl::Span<const TensorCopy> copies,
                         TensorSink sink);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_TENSOR_COPY_H_
