// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

// The logits of a chunk take a multiple of the memory of the weight's fp32 gradient, within limits.
// Each chunk reads and writes that gradient. On an H100 this takes a tenth of a chunk's time at
// 4096 rows, and a quarter at 1280.
constexpr int64_t kLogitsPerWeight = 8;
constexpr int64_t kLeastLogitsBytes = int64_t{256} << 20;
constexpr int64_t kMostLogitsBytes = int64_t{1} << 30;
// Matmuls reach full speed from this number of rows on, and in multiples of it.
constexpr int64_t kRowStep = 128;

size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

LossPlan PlanLoss(const LinearCrossEntropyCall& call) {
  LossPlan plan;
  plan.words = (call.vocab + kLossColumnStep - 1) / kLossColumnStep * kLossColumnStep;
  plan.pads_weight = plan.words > call.vocab;
  const int64_t row_bytes = std::max<int64_t>(plan.words, 1) * 4;
  const int64_t bytes =
      std::clamp(kLogitsPerWeight * call.dim * row_bytes, kLeastLogitsBytes, kMostLogitsBytes);
  const int64_t fitting = std::max(bytes / row_bytes / kRowStep * kRowStep, kRowStep);
  plan.chunk_rows = std::min(std::max<int64_t>(call.rows, 1), fitting);
  const bool rounds_once = call.grad_dtype != DType::kFloat32 && call.rows > plan.chunk_rows;
  plan.sums_beside = call.dweight != nullptr && (plan.pads_weight || rounds_once);
  plan.losses_offset = Aligned(sizeof(int32_t));
  plan.logits_offset = plan.losses_offset + Aligned(static_cast<size_t>(call.rows) * 4);
  plan.sums_offset = plan.logits_offset + Aligned(static_cast<size_t>(plan.chunk_rows * row_bytes));
  const auto weights = static_cast<size_t>(plan.words * call.dim);
  plan.weight_offset = plan.sums_offset + Aligned(plan.sums_beside ? weights * 4 : size_t{0});
  plan.scratch_bytes =
      plan.weight_offset + (plan.pads_weight ? weights * SizeOf(call.dtype) : size_t{0});
  return plan;
}

namespace kernels {

absl::Status LinearCrossEntropy(Kernels& kernels, const LinearCrossEntropyArgs& args) {
  Operation op("LinearCrossEntropy", kernels);
  SharedType type;
  SharedType gradient;
  if (!op.Kind("hidden", args.hidden, type) || !op.MinRank("hidden", args.hidden, 1))
    return op.status();
  const Matrix hidden(args.hidden);
  if (!op.Kind("weight", args.weight, type)) return op.status();
  if (args.weight.shape().rank() != 2 || args.weight.dim(1) != hidden.cols) {
    op.WrongShape("weight", args.weight, absl::StrCat("[vocab, ", hidden.cols, "]"));
  }
  op.Count("targets", args.targets, hidden.rows, DType::kInt32);
  op.Count("loss", args.loss, 1, DType::kFloat32);
  if (args.divisor.defined()) op.Count("divisor", args.divisor, 1, DType::kFloat32);
  if (args.row_weights.defined()) {
    op.Count("row_weights", args.row_weights, hidden.rows, DType::kFloat32);
  }
  if (args.row_losses.defined()) {
    op.Count("row_losses", args.row_losses, hidden.rows, DType::kFloat32);
  }
  if (args.dhidden.defined()) op.Rows("dhidden", args.dhidden, hidden.rows, hidden.cols, type);
  if (args.dweight.defined()) op.Exactly("dweight", args.dweight, args.weight.shape(), gradient);
  op.Require(args.logit_cap >= 0 && std::isfinite(args.logit_cap), "logit_cap",
             absl::StrCat("is ", args.logit_cap, ", expected a finite number of at least 0"));
  if (!op.ok()) return op.status();
  LinearCrossEntropyCall call;
  call.rows = hidden.rows;
  call.dim = hidden.cols;
  call.vocab = args.weight.dim(0);
  call.dtype = type.dtype;
  call.grad_dtype = gradient.dtype;
  call.hidden = args.hidden.raw_data();
  call.weight = args.weight.raw_data();
  call.targets = args.targets.data<int32_t>();
  call.loss = args.loss.data<float>();
  call.divisor = DataOrNull(args.divisor);
  call.row_weights = DataOrNull(args.row_weights);
  call.row_losses = DataOrNull(args.row_losses);
  call.dhidden = RawDataOrNull(args.dhidden);
  call.dweight = RawDataOrNull(args.dweight);
  call.accumulate_dweight = args.accumulate_dweight;
  call.grad_scale = args.grad_scale;
  call.logit_cap = args.logit_cap;
  return op.Run(call);
}

}  // namespace kernels
}  // namespace zeroth
