// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels of layers whose limit is memory, against the floors of kernels_floors.h.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/benchmarks/kernels_floors.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/rope/rope.h"

namespace zeroth {
namespace {

absl::StatusOr<Op> PrepareAdd(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({rows, kDim}));
  return Op([&bench, a, b, out] { return kernels::Add(bench.kernels(), a, b, out); });
}

absl::StatusOr<Op> PrepareScale(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  return Op([&bench, x] { return kernels::Scale(bench.kernels(), x, -1.0f); });
}

std::function<absl::StatusOr<Op>(Bench&, int64_t)> CastBetween(DType from, DType to) {
  return [from, to](Bench& bench, int64_t rows) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor src, bench.Zeros({rows, kDim}, from));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dst, bench.Zeros({rows, kDim}, to));
    return Op([&bench, src, dst] { return kernels::Cast(bench.kernels(), src, dst); });
  };
}

absl::StatusOr<Op> PrepareGelu(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor y, bench.Values({rows, kDim}));
  return Op([&bench, x, y] { return kernels::Gelu(bench.kernels(), x, y); });
}

absl::StatusOr<Op> PrepareGeluBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dx, bench.Values({rows, kDim}));
  return Op([&bench, x, dy, dx] { return kernels::GeluBackward(bench.kernels(), x, dy, dx); });
}

absl::StatusOr<Op> PrepareSwiGlu(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up, bench.Values({rows, 2 * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({rows, kDim}));
  return Op([&bench, gate_up, out] { return kernels::SwiGlu(bench.kernels(), gate_up, out); });
}

absl::StatusOr<Op> PrepareSwiGluBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up, bench.Values({rows, 2 * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, bench.Values({rows, 2 * kDim}));
  return Op([&bench, gate_up, dout, gradient] {
    return kernels::SwiGluBackward(bench.kernels(), gate_up, dout, gradient);
  });
}

// Reads x and the residual, writes their sum and y.
absl::StatusOr<Op> PrepareLayerNorm(Bench& bench, int64_t rows) {
  LayerNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.beta, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Floats({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  return Op([&bench, args] { return kernels::LayerNorm(bench.kernels(), args); });
}

absl::StatusOr<Op> PrepareLayerNormBackward(Bench& bench, int64_t rows) {
  LayerNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Floats({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.dbeta, bench.Values({kDim}));
  return Op([&bench, args] { return kernels::LayerNormBackward(bench.kernels(), args); });
}

absl::StatusOr<Op> PrepareRmsNorm(Bench& bench, int64_t rows) {
  RmsNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  return Op([&bench, args] { return kernels::RmsNorm(bench.kernels(), args); });
}

absl::StatusOr<Op> PrepareRmsNormBackward(Bench& bench, int64_t rows) {
  RmsNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Values({kDim}));
  return Op([&bench, args] { return kernels::RmsNormBackward(bench.kernels(), args); });
}

// Twelve heads of 64; as many rows as make rows * kDim rotated elements, half queries, half keys.
absl::StatusOr<Op> PrepareRope(Bench& bench, int64_t rows) {
  RopeArgs args;
  args.shape = {std::max<int64_t>(1, rows / 2 / 256), 256, 12, 12, 64};
  ZEROTH_ASSIGN_OR_RETURN(
      args.qkv, bench.Values({args.shape.batch, args.shape.seq, args.shape.packed_dim()}));
  return Op([&bench, args] { return kernels::Rope(bench.kernels(), args); });
}

absl::StatusOr<Op> PrepareEmbedding(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(rows));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor table, bench.Values({kVocab, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({1, rows, kDim}));
  return Op([&bench, tokens, table, out] {
    return kernels::Embedding(bench.kernels(), tokens, table, Tensor(), out);
  });
}

// Into a gradient that exists: reads dout, reads and writes rows of the table.
absl::StatusOr<Op> PrepareEmbeddingBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(rows));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dtable, bench.Values({kVocab, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout, bench.Values({1, rows, kDim}));
  return Op([&bench, tokens, dout, dtable] {
    return kernels::EmbeddingBackward(bench.kernels(), tokens, dout, dtable, true);
  });
}

absl::StatusOr<Op> PrepareBiasGradient(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dbias, bench.Values({kDim}));
  return Op(
      [&bench, dy, dbias] { return kernels::BiasGradient(bench.kernels(), dy, dbias, false); });
}

[[maybe_unused]] const bool registered = RegisterCases({
    {"Add", DType::kFloat32, 12, Floor::kTriad, PrepareAdd},
    {"AddBf16", DType::kBFloat16, 6, Floor::kTriad, PrepareAdd},
    {"Scale", DType::kFloat32, 8, Floor::kInPlace, PrepareScale},
    {"ScaleBf16", DType::kBFloat16, 4, Floor::kInPlace, PrepareScale},
    {"CastFp32ToBf16", DType::kFloat32, 6, Floor::kTriad,
     CastBetween(DType::kFloat32, DType::kBFloat16)},
    {"CastFp32ToFp16", DType::kFloat32, 6, Floor::kTriad,
     CastBetween(DType::kFloat32, DType::kFloat16)},
    {"CastBf16ToFp32", DType::kFloat32, 6, Floor::kTriad,
     CastBetween(DType::kBFloat16, DType::kFloat32)},
    {"CastFp16ToFp32", DType::kFloat32, 6, Floor::kTriad,
     CastBetween(DType::kFloat16, DType::kFloat32)},
    {"Gelu", DType::kFloat32, 8, Floor::kTriad, PrepareGelu},
    {"GeluBf16", DType::kBFloat16, 4, Floor::kTriad, PrepareGelu},
    {"GeluBackward", DType::kFloat32, 12, Floor::kTriad, PrepareGeluBackward},
    {"GeluBackwardBf16", DType::kBFloat16, 6, Floor::kTriad, PrepareGeluBackward},
    {"SwiGlu", DType::kFloat32, 12, Floor::kTriad, PrepareSwiGlu},
    {"SwiGluBf16", DType::kBFloat16, 6, Floor::kTriad, PrepareSwiGlu},
    {"SwiGluBackward", DType::kFloat32, 20, Floor::kTriad, PrepareSwiGluBackward},
    {"SwiGluBackwardBf16", DType::kBFloat16, 10, Floor::kTriad, PrepareSwiGluBackward},
    {"LayerNormResidual", DType::kFloat32, 16, Floor::kTriad, PrepareLayerNorm},
    {"LayerNormResidualBf16", DType::kBFloat16, 8, Floor::kTriad, PrepareLayerNorm},
    {"LayerNormBackward", DType::kFloat32, 12, Floor::kTriad, PrepareLayerNormBackward},
    {"LayerNormBackwardBf16", DType::kBFloat16, 6, Floor::kTriad, PrepareLayerNormBackward},
    {"RmsNormResidual", DType::kFloat32, 16, Floor::kTriad, PrepareRmsNorm},
    {"RmsNormResidualBf16", DType::kBFloat16, 8, Floor::kTriad, PrepareRmsNorm},
    {"RmsNormBackward", DType::kFloat32, 12, Floor::kTriad, PrepareRmsNormBackward},
    {"RmsNormBackwardBf16", DType::kBFloat16, 6, Floor::kTriad, PrepareRmsNormBackward},
    {"Rope", DType::kFloat32, 8, Floor::kInPlace, PrepareRope},
    {"RopeBf16", DType::kBFloat16, 4, Floor::kInPlace, PrepareRope},
    {"Embedding", DType::kFloat32, 8, Floor::kTriad, PrepareEmbedding},
    {"EmbeddingBf16", DType::kBFloat16, 4, Floor::kTriad, PrepareEmbedding},
    {"EmbeddingBackward", DType::kFloat32, 12, Floor::kInPlace, PrepareEmbeddingBackward},
    {"EmbeddingBackwardBf16", DType::kBFloat16, 6, Floor::kInPlace, PrepareEmbeddingBackward},
    {"BiasGradient", DType::kFloat32, 4, Floor::kSumOfSquares, PrepareBiasGradient},
    {"BiasGradientBf16", DType::kBFloat16, 2, Floor::kSumOfSquares, PrepareBiasGradient},
});

}  // namespace
}  // namespace zeroth
