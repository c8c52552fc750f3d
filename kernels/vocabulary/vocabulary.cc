// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/vocabulary/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {

// Both depend on the whole vocabulary, so that chunks, and sums over them, do not depend on the
// number of ranks.

DividedLossPlan PlanDividedLossOnCpu(const PlanDividedLossCall& call) {
  // Limit on a chunk's logits, over all ranks; and the fewest rows of a chunk.
  constexpr int64_t kLogitsBytes = int64_t{64} << 20;
  constexpr int64_t kLeastRows = 128;
  const int64_t row_bytes = call.logit_buffers * call.vocab * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max(kLeastRows, kLogitsBytes / row_bytes);
  const int64_t chunks = std::max<int64_t>(1, (call.rows + most - 1) / most);
  return {.chunk_rows = (call.rows + chunks - 1) / chunks};
}

DividedLossPlan PlanDividedLossOnGpu(const PlanDividedLossCall& call) {
  LinearCrossEntropyCall undivided;
  undivided.rows = call.rows;
  undivided.dim = call.dim;
  undivided.vocab = call.logit_buffers * call.vocab;
  return {.chunk_rows = PlanLoss(undivided).chunk_rows, .column_step = kLossColumnStep};
}

namespace kernels {
namespace {

bool IsMatrix(Operation& op, const Tensor& logits) {
  return op.Kind("logits", logits, DType::kFloat32) &&
         (logits.shape().rank() == 2 || op.WrongShape("logits", logits, "[rows, columns]"));
}

}  // namespace

absl::StatusOr<DividedLossPlan> PlanDividedLoss(Kernels& kernels, int64_t rows, int64_t dim,
                                                int64_t vocab, int64_t logit_buffers) {
  ZEROTH_RETURN_IF_ERROR(Operation("PlanDividedLoss", kernels).Supports<PlanDividedLossCall>());
  DividedLossPlan plan;
  ZEROTH_RETURN_IF_ERROR(KernelTable<PlanDividedLossCall>::Find(kernels)(
      kernels, {rows, dim, vocab, logit_buffers, &plan}, {}));
  return plan;
}

absl::Status LocalIds(Kernels& kernels, const LocalIdsArgs& args) {
  Operation op("LocalIds", kernels);
  op.Part(args.first, args.count, args.vocab);
  if (op.Kind("ids", args.ids, DType::kInt32)) {
    op.Count("local", args.local, args.ids.numel(), DType::kInt32);
  }
  if (args.counted.defined()) op.Count("counted", args.counted, 1, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(LocalIdsCall{args.ids.numel(), args.ids.data<int32_t>(), args.first, args.count,
                             args.vocab, args.local.data<int32_t>(),
                             DataOrNull<float>(args.counted)});
}

bool CheckPart(Operation& op, const SoftmaxStatisticsArgs& args, int64_t statistics,
               SoftmaxStatisticsCall& call) {
  if (!IsMatrix(op, args.logits)) return false;
  const int64_t rows = args.logits.dim(0);
  const int64_t columns = args.logits.dim(1);
  op.Part(args.begin, args.count, columns);
  op.Count("targets", args.targets, rows, DType::kInt32);
  if (!op.Exactly("statistics", args.statistics, {rows, statistics}, DType::kFloat32)) return false;
  call = {rows,
          columns,
          args.begin,
          args.count,
          args.logits.data<float>(),
          args.targets.data<int32_t>(),
          args.statistics.data<float>()};
  return true;
}

bool CheckPart(Operation& op, const PartGradientArgs& args, int64_t statistics,
               PartGradientCall& call) {
  SharedType type;
  if (!IsMatrix(op, args.logits) || !op.Kind("statistics", args.statistics, DType::kFloat32)) {
    return false;
  }
  const int64_t rows = args.logits.dim(0);
  const int64_t columns = args.logits.dim(1);
  if (args.statistics.shape().rank() != 3) {
    return op.WrongShape("statistics", args.statistics,
                         absl::StrCat("[parts, ", rows, ", ", statistics, "]"));
  }
  const int64_t parts = args.statistics.dim(0);
  op.Exactly("statistics", args.statistics, {parts, rows, statistics}, DType::kFloat32);
  op.Count("targets", args.targets, rows, DType::kInt32);
  op.Count("divisor", args.divisor, 1, DType::kFloat32);
  op.Require(args.padding >= 0 && args.padding <= columns, "padding",
             absl::StrCat("is ", args.padding, ", expected 0 to the ", columns, " columns"));
  op.Count("losses", args.losses, rows, DType::kFloat32);
  if (args.dlogits.defined()) op.Exactly("dlogits", args.dlogits, {rows, columns}, type);
  if (!op.ok()) return false;
  call = {rows,
          columns,
          args.padding,
          parts,
          args.logits.data<float>(),
          args.targets.data<int32_t>(),
          args.statistics.data<float>(),
          args.divisor.data<float>(),
          args.grad_scale,
          args.logit_cap,
          args.losses.data<float>(),
          type.dtype,
          RawDataOrNull(args.dlogits)};
  return true;
}

absl::Status SoftmaxStatistics(Kernels& kernels, const SoftmaxStatisticsArgs& args) {
  Operation op("SoftmaxStatistics", kernels);
  SoftmaxStatisticsCall call;
  return CheckPart(op, args, kSoftmaxStatistics, call) ? op.Run(call) : op.status();
}

absl::Status SoftmaxGradient(Kernels& kernels, const SoftmaxGradientArgs& args) {
  Operation op("SoftmaxGradient", kernels);
  SoftmaxGradientCall call;
  if (!CheckPart(op, args, kSoftmaxStatistics, call)) return op.status();
  if (args.row_weights.defined()) {
    op.Count("row_weights", args.row_weights, call.rows, DType::kFloat32);
  }
  call.row_weights = DataOrNull(args.row_weights);
  return op.Run(call);
}

absl::Status MeanLoss(Kernels& kernels, const MeanLossArgs& args) {
  Operation op("MeanLoss", kernels);
  op.Kind("losses", args.losses, DType::kFloat32);
  op.Count("divisor", args.divisor, 1, DType::kFloat32);
  op.Count("loss", args.loss, 1, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(MeanLossCall{args.losses.numel(), args.losses.data<float>(),
                             args.divisor.data<float>(), args.loss.data<float>()});
}

absl::Status SupportsDividedVocabulary(Kernels& kernels) {
  return Operation("LocalIds", kernels).Supports<LocalIdsCall>();
}

}  // namespace kernels
}  // namespace zeroth
