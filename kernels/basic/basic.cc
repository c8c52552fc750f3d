// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/basic/basic.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth {

RoundingKey MakeDropoutKey(uint64_t seed, int64_t step) {
  return MakeRoundingKey(seed, step, "dropout");
}

bool DropsElement(const DropoutDraws& draws, int64_t element, uint32_t threshold) {
  const std::array<uint32_t, 4> words =
      DrawBlock(draws.key, draws.stream, static_cast<uint64_t>(element) / 4);
  return words[static_cast<size_t>(element) % 4] < threshold;
}

uint32_t DropoutThreshold(float rate) {
  return static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

namespace kernels {
namespace {

// Checks the operands of an elementwise product. b and `out` may each be fp32; otherwise they have
// the dtype of a.
bool CheckProduct(Operation& op, const BasicArgs& args, SharedType& type) {
  const auto is_fp32 = [](const Matrix& matrix) {
    return matrix.tensor.defined() && matrix.tensor.dtype() == DType::kFloat32;
  };
  const Matrix& out = args.out;
  SharedType fp32;
  if (is_fp32(out)) type = {};  // that of a
  return op.SizedOrRepeated("a", args.a, out.rows, out.cols, type) &&
         op.SizedOrRepeated("b", args.b, out.rows, out.cols, is_fp32(args.b) ? fp32 : type);
}

bool Check(Operation& op, const BasicArgs& args) {
  SharedType type;
  op.Inside("out", args.out, type);
  op.Require(args.group >= 1, "group", absl::StrCat("is ", args.group, ", expected at least 1"));
  const auto expect_none = [&](const char* field, const Matrix& matrix) {
    op.Require(!matrix.tensor.defined(), field, "is given to an operation that does not read it");
  };
  if (args.op == BasicOp::kFill) {
    expect_none("a", args.a);
    expect_none("b", args.b);
  }
  if (!op.ok() || args.op == BasicOp::kFill) return op.ok();
  if (args.op == BasicOp::kMultiply) return CheckProduct(op, args, type);
  const Matrix& out = args.out;
  const bool mean_gradient = args.op == BasicOp::kMeanBackward;
  op.Require(
      !mean_gradient || out.rows % args.group == 0, "out",
      absl::StrCat("has ", out.rows, " rows, expected a multiple of the group of ", args.group));
  if (mean_gradient || args.op == BasicOp::kMean) {
    op.Sized("a", args.a, mean_gradient ? out.rows / args.group : out.rows * args.group, out.cols,
             type);
  } else {
    op.SizedOrRepeated("a", args.a, out.rows, out.cols, type);
  }
  switch (args.op) {
    case BasicOp::kReluBackward:
    case BasicOp::kSiluBackward:
    case BasicOp::kTanhBackward:
    case BasicOp::kSigmoidBackward:
    case BasicOp::kSoftmaxBackward:
      return op.SizedOrRepeated("b", args.b, out.rows, out.cols, type);
    case BasicOp::kDropout:
      expect_none("b", args.b);
      return op.Require(
          args.scalar >= 0 && args.scalar < 1, "scalar",
          absl::StrCat("is ", args.scalar, ", expected a rate of at least 0 and below 1"));
    case BasicOp::kSoftCap:
      expect_none("b", args.b);
      return op.Require(args.scalar > 0 && std::isfinite(args.scalar), "scalar",
                        absl::StrCat("is ", args.scalar, ", expected a finite cap above 0"));
    default:
      expect_none("b", args.b);
      return op.ok();
  }
}

}  // namespace

absl::Status Basic(Kernels& kernels, const BasicArgs& args) {
  Operation op("Basic", kernels);
  if (!Check(op, args)) return op.status();
  const Matrix& a = args.a.tensor.defined() ? args.a : args.out;
  const Matrix& b = args.b.tensor.defined() ? args.b : a;
  DropoutDraws draws = args.draws;
  if (draws.row_elements == 0) draws.row_elements = args.out.cols;
  return op.Run(BasicCall{.op = args.op,
                          .dtype = a.tensor.dtype(),
                          .b_dtype = b.tensor.dtype(),
                          .out_dtype = args.out.tensor.dtype(),
                          .rows = args.out.rows,
                          .cols = args.out.cols,
                          .a = a.raw_data(),
                          .a_stride = a.stride,
                          .b = b.raw_data(),
                          .b_stride = b.stride,
                          .out = args.out.raw_data(),
                          .out_stride = args.out.stride,
                          .accumulate = args.accumulate,
                          .scalar = args.scalar,
                          .group = args.group,
                          .draws = draws});
}

}  // namespace kernels
}  // namespace zeroth
