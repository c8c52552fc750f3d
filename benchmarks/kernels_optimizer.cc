// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels of the optimizer, against the floors of kernels_floors.h.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/benchmarks/kernels_floors.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth {
namespace {

absl::StatusOr<Op> PrepareAdamW(Bench& bench, int64_t rows) {
  AdamWArgs args;
  args.lr = 1e-4;
  args.weight_decay = 0.1;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Floats({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Floats({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros({rows * kDim}, DType::kFloat32));
  return Op([&bench, args] { return kernels::AdamW(bench.kernels(), args); });
}

// The same elements as a model has them: a matrix, which decays, then its vectors, which do not.
absl::StatusOr<std::vector<AdamWArgs>> CutAdamW(Bench& bench, int64_t rows) {
  constexpr int64_t kRowsOf[] = {48, 1, 1};
  AdamWArgs args;
  args.lr = 1e-4;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor param, bench.Floats({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor grad, bench.Values({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor m, bench.Floats({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor v, bench.Zeros({rows * kDim}, DType::kFloat32));
  std::vector<AdamWArgs> ranges;
  for (int64_t row = 0; row < rows;) {
    const int64_t count = std::min(rows - row, kRowsOf[ranges.size() % std::size(kRowsOf)]);
    const Shape shape({count * kDim});
    args.weight_decay = count > 1 ? 0.1 : 0.0;
    args.param = param.View(row * kDim, shape);
    args.grad = grad.View(row * kDim, shape);
    args.m = m.View(row * kDim, shape);
    args.v = v.View(row * kDim, shape);
    ranges.push_back(args);
    row += count;
  }
  return ranges;
}

absl::StatusOr<Op> PrepareAdamWRanges(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AdamWArgs> ranges, CutAdamW(bench, rows));
  return Op([&bench, ranges] { return kernels::AdamW(bench.kernels(), ranges); });
}

absl::StatusOr<Op> PrepareAdamWRangesOneByOne(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AdamWArgs> ranges, CutAdamW(bench, rows));
  return Op([&bench, ranges]() -> absl::Status {
    for (const AdamWArgs& range : ranges) {
      ZEROTH_RETURN_IF_ERROR(kernels::AdamW(bench.kernels(), range));
    }
    return absl::OkStatus();
  });
}

// On bf16 parameters and gradients, whichever moments.
absl::StatusOr<Op> PrepareLowAdamW(Bench& bench, int64_t rows, DType moment_dtype) {
  AdamWArgs args;
  args.lr = 1e-4;
  args.weight_decay = 0.1;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  const Shape shape({rows * kDim});
  ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Values(shape));
  ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values(shape));
  ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Zeros(shape, moment_dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros(shape, moment_dtype));
  if (moment_dtype == DType::kUInt8) {
    const Shape blocks({(shape.numel() + kMomentBlock - 1) / kMomentBlock});
    ZEROTH_ASSIGN_OR_RETURN(args.m_scale, bench.Zeros(blocks, DType::kFloat32));
    ZEROTH_ASSIGN_OR_RETURN(args.v_scale, bench.Zeros(blocks, DType::kFloat32));
  }
  return Op([&bench, args]() mutable {
    ++args.step;
    return kernels::AdamW(bench.kernels(), args);
  });
}
absl::StatusOr<Op> PrepareAdamWBf16State(Bench& bench, int64_t rows) {
  return PrepareLowAdamW(bench, rows, DType::kBFloat16);
}
absl::StatusOr<Op> PrepareAdamW8BitState(Bench& bench, int64_t rows) {
  return PrepareLowAdamW(bench, rows, DType::kUInt8);
}

absl::StatusOr<Op> PrepareAddSquares(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, bench.Zeros({ExactSum::kWords}, DType::kInt64));
  return Op([&bench, x, sum] { return kernels::AddSquares(bench.kernels(), x, sum); });
}

[[maybe_unused]] const bool registered = RegisterCases({
    {"AdamW", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamW},
    {"AdamWRanges", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamWRanges},
    {"AdamWRangesOneByOne", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamWRangesOneByOne},
    {"AdamWBf16", DType::kBFloat16, 26, Floor::kInPlace, PrepareAdamW},
    {"AdamWBf16State", DType::kBFloat16, 14, Floor::kInPlace, PrepareAdamWBf16State},
    {"AdamW8BitState", DType::kBFloat16, 10, Floor::kInPlace, PrepareAdamW8BitState},
    {"AddSquares", DType::kFloat32, 4, Floor::kSumOfSquares, PrepareAddSquares},
    {"AddSquaresBf16", DType::kBFloat16, 2, Floor::kSumOfSquares, PrepareAddSquares},
});

}  // namespace
}  // namespace zeroth
