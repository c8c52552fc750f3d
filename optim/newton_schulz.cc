// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/muon/muon.h"

namespace zeroth {
namespace {

constexpr float kCoefficients[] = {3.4445f, -4.7750f, 2.0315f};
// Symmetric matmuls are computed only on and below the diagonal, in at most kMostStrips strips of
// at least kLeastStripRows rows: four strips do five eighths of the work.
constexpr int64_t kMostStrips = 4;
constexpr int64_t kLeastStripRows = 128;

Matrix Block(const Tensor& tensor, int64_t stride, int64_t row, int64_t column, int64_t rows,
             int64_t columns) {
  Matrix block;
  block.tensor = tensor;
  block.offset = row * stride + column;
  block.rows = rows;
  block.cols = columns;
  block.stride = stride;
  return block;
}

// One part of a matrix, with the buffers that its matmuls need.
class PartIteration {
 public:
  // `s` and `s2` have room for square matrices of the smaller side.
  PartIteration(Kernels& kernels, const MuonMatrix& matrix, const MuonPart& part, const Tensor& s,
                const Tensor& s2, const Tensor& norm_squared)
      : kernels_(kernels),
        stride_(matrix.columns),
        part_(part),
        is_tall_(part.rows > part.columns),
        n_(std::min(part.rows, part.columns)),
        s_(s.View(0, Shape({n_, n_}))),
        s2_(s2.View(0, Shape({n_, n_}))),
        norm_squared_(norm_squared) {}

  // Computes to = one step from `from`, times `scale`.
  absl::Status Step(const Tensor& from, const Tensor& to, bool normalises, float scale) {
    const Matrix x = Of(from);
    ZEROTH_RETURN_IF_ERROR(LowerMatmul(
        [&](int64_t first, int64_t last, GemmArgs& args) {
          args.a = Strip(x, first, last);
          args.b = Strip(x, 0, last);
          (is_tall_ ? args.transpose_a : args.transpose_b) = true;
        },
        s_));
    if (normalises) ZEROTH_RETURN_IF_ERROR(kernels::MuonNormalise(kernels_, s_, norm_squared_));
    ZEROTH_RETURN_IF_ERROR(kernels::MuonMirror(kernels_, s_));
    ZEROTH_RETURN_IF_ERROR(LowerMatmul(
        [&](int64_t first, int64_t last, GemmArgs& args) {
          args.a = Block(s_, n_, first, 0, last - first, n_);
          args.b = Block(s_, n_, 0, 0, n_, last);
        },
        s2_));
    MuonPolynomialArgs polynomial{s_, s2_, normalises ? norm_squared_ : Tensor()};
    polynomial.a = kCoefficients[0] * scale;
    polynomial.b = kCoefficients[1] * scale;
    polynomial.c = kCoefficients[2] * scale;
    ZEROTH_RETURN_IF_ERROR(kernels::MuonPolynomial(kernels_, polynomial));
    ZEROTH_RETURN_IF_ERROR(kernels::MuonMirror(kernels_, s2_));
    return kernels::Gemm(
        kernels_, {.a = is_tall_ ? x : Matrix(s2_), .b = is_tall_ ? Matrix(s2_) : x, .c = Of(to)});
  }

 private:
  Matrix Of(const Tensor& x) const {
    return Block(x, stride_, part_.row, part_.column, part_.rows, part_.columns);
  }
  // Returns indices [first, last) of the smaller side.
  Matrix Strip(const Matrix& x, int64_t first, int64_t last) const {
    if (is_tall_) return x.Columns(first, last - first);
    Matrix strip = x;
    strip.offset += first * x.stride;
    strip.rows = last - first;
    return strip;
  }
  // Computes a symmetric matmul c on and below the diagonal. `operands` sets the operands of its
  // rows [first, last) and columns [0, last).
  template <typename Operands>
  absl::Status LowerMatmul(const Operands& operands, const Tensor& c) {
    const int64_t strips = std::clamp(n_ / kLeastStripRows, int64_t{1}, kMostStrips);
    for (int64_t i = 0; i < strips; ++i) {
      const int64_t first = n_ * i / strips;
      const int64_t last = n_ * (i + 1) / strips;
      GemmArgs args;
      operands(first, last, args);
      args.c = Block(c, n_, first, 0, last - first, last);
      ZEROTH_RETURN_IF_ERROR(kernels::Gemm(kernels_, args));
    }
    return absl::OkStatus();
  }

  Kernels& kernels_;
  const int64_t stride_;
  const MuonPart part_;
  const bool is_tall_;
  const int64_t n_;
  const Tensor s_;
  const Tensor s2_;
  const Tensor norm_squared_;
};

}  // namespace

absl::StatusOr<Tensor> Orthogonalise(Kernels& kernels, const MuonMatrix& matrix, const Tensor& x,
                                     int steps, DType precision) {
  const auto empty = [&](int64_t numel, DType dtype) {
    return Tensor::Empty(kernels.device(), Shape({numel}), dtype, MemoryCategory::kWorkspace);
  };
  int64_t largest = 0;
  for (const MuonPart& part : matrix.parts) {
    largest = std::max(largest, std::min(part.rows, part.columns));
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor s, empty(largest * largest, precision));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor s2, empty(largest * largest, precision));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_squared, empty(1, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(Tensor result, empty(matrix.numel(), DType::kFloat32));
  // Steps alternate between two buffers; the last step writes fp32.
  Tensor from = x;
  Tensor to = result;
  if (precision != DType::kFloat32) {
    ZEROTH_ASSIGN_OR_RETURN(from, empty(matrix.numel(), precision));
    ZEROTH_ASSIGN_OR_RETURN(to, empty(matrix.numel(), precision));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels, x, from));
  }
  for (int step = 0; step < steps; ++step) {
    const bool is_last = step + 1 == steps;
    if (is_last && precision != DType::kFloat32) to = result;
    for (const MuonPart& part : matrix.parts) {
      PartIteration iteration(kernels, matrix, part, s, s2, norm_squared);
      ZEROTH_RETURN_IF_ERROR(
          iteration.Step(from, to, /*normalises=*/step == 0, is_last ? part.scale : 1.0f));
    }
    std::swap(from, to);
  }
  return from;
}

}  // namespace zeroth
