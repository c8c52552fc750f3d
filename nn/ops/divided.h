// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Operations whose weights are divided among Context::tensor_ranks(), and what they share: sums
// over ranks of matmuls whose depth is divided, and sequence parallelism between layers
// (Context::rows_are_shared).

#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

class LogitTransform;

// Returns the ranks among which `parameter` is divided. FailedPrecondition if the context has none.
absl::StatusOr<TensorRanks*> RanksOf(Context& context, const Parameter& parameter);

// All-gathers the rows of [batch, seq, ..] if rows are shared, and otherwise returns x itself. Runs
// `overlapped` in either case.
absl::StatusOr<Tensor> AllRows(Context& context, const Tensor& x, absl::string_view label,
                               const TensorRanks::OverlappedWork& overlapped = nullptr);
// Like AllRows, but with a gradient. Every rank must compute the same from all rows, so that the
// gradient is equal on every rank and is not summed.
absl::StatusOr<Value> AllRowsOp(Context& context, const Value& x, absl::string_view label);
// Convert the shape of this rank's rows to that of all rows, and back.
Shape ShapeOfAllRows(const Context& context, const Shape& shape);
Shape ShapeOfOwnRows(const Context& context, const Shape& shape);

// Sums `x` over ranks: all-reduces in place, or, if rows are shared, reduce-scatters to this rank's
// rows.
absl::StatusOr<Tensor> SumOverRanks(Context& context, const Tensor& x, absl::string_view label,
                                    const TensorRanks::OverlappedWork& overlapped = nullptr);
// Like SumOverRanks, but rounds the sum to `dtype` at the end.
absl::StatusOr<Tensor> RoundedSumOverRanks(Context& context, const Tensor& x, DType dtype,
                                           absl::string_view label,
                                           const TensorRanks::OverlappedWork& overlapped = nullptr);

// Overwrites `out` with the matmul of one piece of this rank's depth.
using ComputePiece = std::function<absl::Status(int piece, const Tensor& out)>;
// Sums this rank's pieces [first, first + pieces) into `out` along one binary tree. `pieces` is a
// power of two.
absl::Status SumPieces(Context& context, int pieces, const Tensor& out,
                       const ComputePiece& compute_piece, int first = 0);
// Sums all of this rank's pieces, TensorParallelOptions::pieces().
absl::Status SumPieces(Context& context, const Tensor& out, const ComputePiece& compute_piece);
// Returns the type in which SumPieces and SumOverRanks add up a result of `dtype`: fp32 with
// TensorParallelOptions::deterministic, otherwise `dtype`.
DType SumType(const Context& context, DType dtype);
// Returns the sum of this rank's pieces, in SumType.
absl::StatusOr<Tensor> LocalSumOfPieces(Context& context, const Shape& shape, DType dtype,
                                        const ComputePiece& compute_piece);
// Runs LocalSumOfPieces, then RoundedSumOverRanks.
absl::StatusOr<Tensor> SumOfPiecesOverRanks(Context& context, const Shape& shape, DType dtype,
                                            absl::string_view label,
                                            const ComputePiece& compute_piece);

// Where a parameter's gradient is written: its slot; or, if each rank makes a summand of it
// (`is_partial`), an fp32 tensor, whose sum over ranks FinishGradient stores in the slot.
struct GradientPlace {
  Tensor tensor;  // undefined for a frozen parameter
  bool accumulate = false;
  std::optional<Parameter::GradientSlot> after_sum;
};
absl::StatusOr<GradientPlace> TakeGradientPlace(Context& context, Parameter& parameter,
                                                bool is_partial);
absl::Status FinishGradient(Context& context, const Parameter& parameter,
                            const GradientPlace& place);

// LinearCrossEntropyOp for a `weight` divided by vocabulary, and for any weight with
// Context::distillation() or a `transform` of the logits, which excludes a cap. Ranks exchange a
// few numbers per row; each holds the logits of its part for one chunk of rows at a time. With a
// transform, it also keeps the chunk's raw logits.
absl::StatusOr<Value> DividedCrossEntropyOp(Context& context, const Value& hidden,
                                            Parameter& weight, const Tensor& targets,
                                            float logit_cap = 0,
                                            const LogitTransform* transform = nullptr);

// Returns the logits, fp32 [rows, vocab], of hidden [rows, dim], the same on every rank.
absl::StatusOr<Tensor> DividedLogits(Context& context, const Tensor& hidden,
                                     const Parameter& weight);

}  // namespace zeroth
