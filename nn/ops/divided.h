// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Operations whose weights are divided among the ranks of Context::tensor_ranks(), and what they
// have in common: depth that is divided, whose matmuls have to be summed over ranks, and rows that
// ranks share out between layers (Context::rows_are_shared).

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

// The ranks among which `parameter` is divided. FailedPrecondition if the context has none.
absl::StatusOr<TensorRanks*> RanksOf(Context& context, const Parameter& parameter);

// All rows of [batch, seq, ..], of which this rank has a share if rows are shared; else x itself.
// `beside` runs in any case.
absl::StatusOr<Tensor> AllRows(Context& context, const Tensor& x, absl::string_view label,
                               const TensorRanks::Beside& beside = nullptr);
// The same, for what every rank computes in whole from them: the gradient, which is then the same
// on every rank, is not summed.
absl::StatusOr<Value> AllRowsOp(Context& context, const Value& x, absl::string_view label);
// The shape of all rows, from that of this rank's; and the other way.
Shape ShapeOfAllRows(const Context& context, const Shape& shape);
Shape ShapeOfOwnRows(const Context& context, const Shape& shape);

// The sum of `x` over ranks: all of it, in place, or this rank's share of its rows.
absl::StatusOr<Tensor> SumOverRanks(Context& context, const Tensor& x, absl::string_view label,
                                    const TensorRanks::Beside& beside = nullptr);
// The same, rounded to `dtype` at the end.
absl::StatusOr<Tensor> RoundedSumOverRanks(Context& context, const Tensor& x, DType dtype,
                                           absl::string_view label,
                                           const TensorRanks::Beside& beside = nullptr);

// Overwrites `out` with the matmul of one piece of this rank's depth.
using PieceProduct = std::function<absl::Status(int piece, const Tensor& out)>;
// `out` becomes the sum of `pieces` of this rank, a power of two, from `first` on, in one binary
// tree.
absl::Status SumPieces(Context& context, int pieces, const Tensor& out, const PieceProduct& product,
                       int first = 0);
// The same for TensorParallelOptions::pieces().
absl::Status SumPieces(Context& context, const Tensor& out, const PieceProduct& product);
// The type in which SumPieces and SumOverRanks sum for a result of this type: fp32 where the order
// of sums is fixed.
DType SumType(const Context& context, DType dtype);
// The sum of this rank's pieces in SumType.
absl::StatusOr<Tensor> OwnSumOfProducts(Context& context, const Shape& shape, DType dtype,
                                        const PieceProduct& product);
// OwnSumOfProducts and RoundedSumOverRanks.
absl::StatusOr<Tensor> SumOfProducts(Context& context, const Shape& shape, DType dtype,
                                     absl::string_view label, const PieceProduct& product);

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

// The mean cross-entropy of LinearCrossEntropyOp where `weight` is a part of the vocabulary. Ranks
// exchange three numbers for each row; logits exist a chunk of rows of a part at a time.
absl::StatusOr<Value> DividedCrossEntropyOp(Context& context, const Value& hidden,
                                            Parameter& weight, const Tensor& targets,
                                            float logit_cap = 0);

// Logits fp32 [rows, vocab] of hidden [rows, dim], the same on every rank.
absl::StatusOr<Tensor> DividedLogits(Context& context, const Tensor& hidden,
                                     const Parameter& weight);

}  // namespace zeroth
