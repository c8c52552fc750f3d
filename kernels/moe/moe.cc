// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/moe/moe.h"

#include <limits>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Pairs of tokens and experts are counted in int32.
bool CheckCounts(Operation& op, int64_t tokens, int64_t top_k) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  return op.Require(top_k == 0 || tokens <= most / top_k, "rows",
                    absl::StrCat("are ", tokens, " x ", top_k, ", expected at most ", most));
}

// Checks the fields that Route and RouteBackward share. `routed`, called `field`, is a tensor
// [tokens, top_k] of the call.
template <typename Args>
bool CheckRouted(Operation& op, const Args& args, const char* field, const Tensor& routed,
                 SharedType& type, RoutedCall& call) {
  if (!op.MinRank("logits", args.logits, 2) || !op.MinRank(field, routed, 2)) return false;
  call.experts = args.logits.dim(-1);
  call.tokens = call.experts == 0 ? 0 : args.logits.numel() / call.experts;
  call.top_k = routed.dim(-1);
  op.Require(
      call.top_k >= 1 && call.top_k <= call.experts, field,
      absl::StrCat("has ", call.top_k, " experts for each token, expected 1 to ", call.experts));
  if (!CheckCounts(op, call.tokens, call.top_k)) return false;
  op.Rows("logits", args.logits, call.tokens, call.experts, type);
  call.dtype = type.dtype;
  call.how = args.how;
  call.logits = args.logits.raw_data();
  return true;
}

// Checks the fields that Scatter, Combine and RowDots share.
bool CheckRows(Operation& op, const Tensor& tokens, const Tensor& rows, const Tensor& weights,
               const Tensor& grouped, RowsCall& call) {
  SharedType type;
  if (!op.MinRank("tokens", tokens, 2) || !op.MinRank("rows", rows, 2)) return false;
  call.dim = tokens.dim(-1);
  call.tokens = call.dim == 0 ? 0 : tokens.numel() / call.dim;
  call.top_k = rows.dim(-1);
  op.Rows("tokens", tokens, call.tokens, call.dim, type);
  op.Rows("rows", rows, call.tokens, call.top_k, DType::kInt32);
  if (weights.defined()) op.Rows("weights", weights, call.tokens, call.top_k, DType::kFloat32);
  op.Rows("grouped", grouped, call.tokens * call.top_k, call.dim, type);
  if (!CheckCounts(op, call.tokens, call.top_k)) return false;
  call.dtype = type.dtype;
  call.rows = rows.data<int32_t>();
  return true;
}

bool CheckOffsets(Operation& op, const Tensor& offsets, size_t experts) {
  return op.Exactly("offsets", offsets, {static_cast<int64_t>(experts) + 1}, DType::kInt32);
}

// Checks that an expert's matrix has the row stride of the first expert's.
bool CheckStride(Operation& op, const char* field, const Matrix& matrix, const Matrix& first) {
  return op.Require(matrix.stride == first.stride, field,
                    absl::StrCat("has rows ", matrix.stride, " apart, expected ", first.stride,
                                 " as of the first expert"));
}

// Sets the shared fields of a call whose other fields are set, and runs it if all checks have
// passed.
template <typename Args, typename Call>
absl::Status RunGrouped(Operation& op, const Args& args, DType dtype, DType c_dtype, Call& call) {
  if (!op.ok()) return op.status();
  call.dtype = dtype;
  call.c_dtype = c_dtype;
  call.offsets = args.offsets.template data<int32_t>();
  call.a = args.a.raw_data();
  call.lda = args.a.stride;
  return op.Run(call);
}

}  // namespace

absl::Status Route(Kernels& kernels, const RouteArgs& args) {
  Operation op("Route", kernels);
  SharedType type;
  RouteCall call;
  if (!CheckRouted(op, args, "weights", args.weights, type, call)) return op.status();
  op.Rows("weights", args.weights, call.tokens, call.top_k, DType::kFloat32);
  op.Rows("experts", args.routing.experts, call.tokens, call.top_k, DType::kInt32);
  op.Rows("rows", args.routing.rows, call.tokens, call.top_k, DType::kInt32);
  if (!CheckOffsets(op, args.routing.offsets, static_cast<size_t>(call.experts))) {
    return op.status();
  }
  if (args.bias.defined()) {
    op.Exactly("bias", args.bias, {call.experts}, DType::kFloat32);
    op.Require(args.how.scores == ExpertScores::kSigmoid, "bias",
               "is defined, expected none beside scores by softmax");
    if (!op.ok()) return op.status();
  }
  call.bias = DataOrNull(args.bias);
  call.weights = args.weights.data<float>();
  call.chosen = args.routing.experts.data<int32_t>();
  call.rows = args.routing.rows.data<int32_t>();
  call.offsets = args.routing.offsets.data<int32_t>();
  return op.Run(call);
}

absl::Status RouteBackward(Kernels& kernels, const RouteBackwardArgs& args) {
  Operation op("RouteBackward", kernels);
  SharedType type;
  RouteBackwardCall call;
  if (!CheckRouted(op, args, "experts", args.experts, type, call)) return op.status();
  op.Rows("experts", args.experts, call.tokens, call.top_k, DType::kInt32);
  op.Rows("dweights", args.dweights, call.tokens, call.top_k, DType::kFloat32);
  if (!op.Rows("dlogits", args.dlogits, call.tokens, call.experts, type)) return op.status();
  call.chosen = args.experts.data<int32_t>();
  call.dweights = args.dweights.data<float>();
  call.dlogits = args.dlogits.raw_data();
  return op.Run(call);
}

absl::Status RouterZLoss(Kernels& kernels, const RouterZLossArgs& args) {
  Operation op("RouterZLoss", kernels);
  SharedType type;
  RouterZLossCall call;
  if (!op.MinRank("logits", args.logits, 2)) return op.status();
  call.experts = args.logits.dim(-1);
  call.tokens = call.experts == 0 ? 0 : args.logits.numel() / call.experts;
  op.Rows("logits", args.logits, call.tokens, call.experts, type);
  if (args.losses.defined()) op.Count("losses", args.losses, call.tokens, DType::kFloat32);
  if (args.dlogits.defined()) op.Rows("dlogits", args.dlogits, call.tokens, call.experts, type);
  if (!op.ok()) return op.status();
  call.dtype = type.dtype;
  call.scale = args.scale;
  call.logits = args.logits.raw_data();
  call.losses = DataOrNull(args.losses);
  call.dlogits = RawDataOrNull(args.dlogits);
  return op.Run(call);
}

absl::Status CountExperts(Kernels& kernels, const CountExpertsArgs& args) {
  Operation op("CountExperts", kernels);
  if (!op.MinRank("experts", args.experts, 2) || !op.MinRank("counts", args.counts, 2)) {
    return op.status();
  }
  CountExpertsCall call;
  const int64_t top_k = args.experts.dim(-1);
  const int64_t tokens = top_k == 0 ? 0 : args.experts.numel() / top_k;
  if (!op.Require(
          args.sequence >= 1 && tokens % args.sequence == 0, "sequence",
          absl::StrCat("is ", args.sequence, ", expected a divisor of ", tokens, " tokens")) ||
      !CheckCounts(op, tokens, top_k)) {
    return op.status();
  }
  call.sequences = tokens / args.sequence;
  call.experts = args.counts.dim(-1);
  call.pairs = args.sequence * top_k;
  op.Rows("experts", args.experts, tokens, top_k, DType::kInt32);
  if (!op.Rows("counts", args.counts, call.sequences, call.experts, DType::kFloat32)) {
    return op.status();
  }
  call.scale = args.scale;
  call.chosen = args.experts.data<int32_t>();
  call.counts = args.counts.data<float>();
  return op.Run(call);
}

absl::Status Scatter(Kernels& kernels, const ScatterArgs& args) {
  Operation op("Scatter", kernels);
  ScatterCall call;
  if (!CheckRows(op, args.tokens, args.rows, args.weights, args.grouped, call)) {
    return op.status();
  }
  call.from = args.tokens.raw_data();
  call.weights = DataOrNull(args.weights);
  call.grouped = args.grouped.raw_data();
  return op.Run(call);
}

absl::Status Combine(Kernels& kernels, const CombineArgs& args) {
  Operation op("Combine", kernels);
  CombineCall call;
  if (!CheckRows(op, args.tokens, args.rows, args.weights, args.grouped, call)) {
    return op.status();
  }
  call.grouped = args.grouped.raw_data();
  call.weights = DataOrNull(args.weights);
  call.to = args.tokens.raw_data();
  call.accumulate = args.accumulate;
  return op.Run(call);
}

absl::Status RowDots(Kernels& kernels, const RowDotsArgs& args) {
  Operation op("RowDots", kernels);
  RowDotsCall call;
  if (!op.Place("dweights", args.dweights) ||
      !CheckRows(op, args.tokens, args.rows, args.dweights, args.grouped, call)) {
    return op.status();
  }
  call.from = args.tokens.raw_data();
  call.grouped = args.grouped.raw_data();
  call.dweights = args.dweights.data<float>();
  return op.Run(call);
}

absl::Status GroupedGemm(Kernels& kernels, const GroupedGemmArgs& args) {
  Operation op("GroupedGemm", kernels);
  SharedType type;
  SharedType c_type;
  GroupedGemmCall call;
  call.experts = args.offsets.defined() ? args.offsets.numel() - 1 : 0;
  call.first = args.first.value_or(0);
  const bool is_part = args.first.has_value();
  if (is_part) op.Part(call.first, static_cast<int64_t>(args.b.size()), call.experts);
  CheckOffsets(op, args.offsets, is_part ? static_cast<size_t>(call.experts) : args.b.size());
  op.Require(call.experts > 0, "offsets", "have no experts, expected at least one");
  if (!op.Inside("a", args.a, type) || !op.Inside("c", args.c, c_type)) return op.status();
  call.rows = args.a.rows;
  call.k = args.a.cols;
  call.n = args.c.cols;
  op.Sized("c", args.c, call.rows, call.n, c_type);
  for (const Matrix& b : args.b) {
    if (!op.Sized("b", b, args.transpose_b ? call.n : call.k, args.transpose_b ? call.k : call.n,
                  type) ||
        !CheckStride(op, "b", b, args.b.front())) {
      return op.status();
    }
    call.b.push_back(b.raw_data());
    call.ldb = b.stride;
  }
  call.transpose_b = args.transpose_b;
  call.c = args.c.raw_data();
  call.ldc = args.c.stride;
  call.accumulate = args.accumulate;
  op.Require(args.biases.empty() || (args.biases.size() == args.b.size() && !args.accumulate),
             "biases",
             absl::StrCat("are ", args.biases.size(), ", expected none, or, without accumulate, ",
                          args.b.size(), ": one for each expert"));
  for (const Tensor& bias : args.biases) {
    if (!op.Exactly("biases", bias, {call.n}, type)) return op.status();
    call.biases.push_back(bias.raw_data());
  }
  return RunGrouped(op, args, type.dtype, c_type.dtype, call);
}

absl::Status GroupedGradient(Kernels& kernels, const GroupedGradientArgs& args) {
  Operation op("GroupedGradient", kernels);
  SharedType type;
  SharedType c_type;
  GroupedGradientCall call;
  CheckOffsets(op, args.offsets, args.c.size());
  if (!op.Inside("a", args.a, type) || !op.Inside("b", args.b, type)) return op.status();
  call.rows = args.a.rows;
  call.m = args.a.cols;
  call.n = args.b.cols;
  op.Sized("b", args.b, call.rows, call.n, type);
  for (const GroupedGradientArgs::Output& c : args.c) {
    if (!op.Sized("c", c.matrix, call.m, call.n, c_type) ||
        !CheckStride(op, "c", c.matrix, args.c.front().matrix)) {
      return op.status();
    }
    call.c.push_back({c.matrix.raw_data(), c.accumulate});
    call.ldc = c.matrix.stride;
  }
  call.b = args.b.raw_data();
  call.ldb = args.b.stride;
  return RunGrouped(op, args, type.dtype, c_type.dtype, call);
}

absl::Status GroupedBiasGradient(Kernels& kernels, const GroupedBiasGradientArgs& args) {
  Operation op("GroupedBiasGradient", kernels);
  SharedType type;
  SharedType gradient;
  GroupedBiasGradientCall call;
  CheckOffsets(op, args.offsets, args.outputs.size());
  if (!op.Inside("dy", args.dy, type)) return op.status();
  call.rows = args.dy.rows;
  call.n = args.dy.cols;
  for (const auto& [dbias, accumulate] : args.outputs) {
    if (!op.Exactly("dbias", dbias, {call.n}, gradient)) return op.status();
    call.outputs.push_back({dbias.raw_data(), accumulate});
  }
  call.stride = args.dy.stride;
  call.dtype = type.dtype;
  call.grad_dtype = gradient.dtype;
  call.offsets = args.offsets.data<int32_t>();
  call.dy = args.dy.raw_data();
  return op.Run(call);
}

}  // namespace zeroth::kernels
