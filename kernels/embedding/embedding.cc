// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/embedding/embedding.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

bool IsMatrix(Operation& op, const char* field, const Tensor& tensor, const char* expected) {
  return tensor.shape().rank() == 2 || op.WrongShape(field, tensor, expected);
}

bool HasPositions(Operation& op, const char* field, const Tensor& tensor, int64_t seq,
                  int64_t dim) {
  return (tensor.shape().rank() == 2 && tensor.dim(0) >= seq && tensor.dim(1) == dim) ||
         op.WrongShape(field, tensor, absl::StrCat("[at least ", seq, ", ", dim, "]"));
}

RowGradients RowGradientsOf(const Tensor& dout, const Tensor& gradient, bool accumulate) {
  return {dout.dim(0),     dout.dim(1), gradient.dim(0),  gradient.dim(1),    dout.dtype(),
          dout.raw_data(), accumulate,  gradient.dtype(), gradient.raw_data()};
}

}  // namespace

absl::Status Embedding(Kernels& kernels, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, const Tensor& out, bool part) {
  Operation op("Embedding", kernels);
  SharedType type;
  if (!op.Kind("tokens", tokens, DType::kInt32) || !op.Kind("table", table, type) ||
      !IsMatrix(op, "tokens", tokens, "[batch, seq]") ||
      !IsMatrix(op, "table", table, "[vocab, dim]")) {
    return op.status();
  }
  const int64_t batch = tokens.dim(0);
  const int64_t seq = tokens.dim(1);
  const int64_t dim = table.dim(1);
  if (positions.defined() && op.Kind("positions", positions, type))
    HasPositions(op, "positions", positions, seq, dim);
  if (!op.Exactly("out", out, {batch, seq, dim}, type)) return op.status();
  return op.Run(EmbeddingCall{batch, seq, table.dim(0), dim, type.dtype, tokens.data<int32_t>(),
                              table.raw_data(), RawDataOrNull(positions), out.raw_data(), part});
}

absl::Status EmbeddingBackward(Kernels& kernels, const Tensor& tokens, const Tensor& dout,
                               const Tensor& dtable, bool accumulate, bool part) {
  Operation op("EmbeddingBackward", kernels);
  SharedType type;
  SharedType gradient;
  if (!op.Kind("dtable", dtable, gradient) || !op.Kind("tokens", tokens, DType::kInt32) ||
      !IsMatrix(op, "tokens", tokens, "[batch, seq]") ||
      !IsMatrix(op, "dtable", dtable, "[vocab, dim]") ||
      !op.Exactly("dout", dout, {tokens.dim(0), tokens.dim(1), dtable.dim(1)}, type)) {
    return op.status();
  }
  return op.Run(EmbeddingBackwardCall{RowGradientsOf(dout, dtable, accumulate),
                                      tokens.data<int32_t>(), part});
}

absl::Status PositionBackward(Kernels& kernels, const Tensor& dout, const Tensor& dpositions,
                              bool accumulate) {
  Operation op("PositionBackward", kernels);
  SharedType type;
  SharedType gradient;
  if (!op.Kind("dout", dout, type) || !op.Kind("dpositions", dpositions, gradient) ||
      !(dout.shape().rank() == 3 || op.WrongShape("dout", dout, "[batch, seq, dim]")) ||
      !HasPositions(op, "dpositions", dpositions, dout.dim(1), dout.dim(2))) {
    return op.status();
  }
  return op.Run(PositionBackwardCall{RowGradientsOf(dout, dpositions, accumulate)});
}

}  // namespace zeroth::kernels
