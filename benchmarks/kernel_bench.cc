// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/kernel_bench.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth {
namespace {

constexpr DType kFp32 = DType::kFloat32;
// Not a power of two, so that repetitions start on all alignments of rows.
constexpr int64_t kPatternElements = 1000003;

// Returns tensors of the activations' type: [rows, columns] for each of `columns`.
absl::StatusOr<std::vector<Tensor>> Rows(KernelBench& bench, const Activations& on,
                                         const std::vector<int64_t>& columns) {
  std::vector<Tensor> tensors;
  for (const int64_t count : columns) {
    ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, bench.Values(Shape({on.rows(), count}), on.dtype));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Returns the arguments that both norms share.
absl::StatusOr<LayerNormArgs> NormArgs(KernelBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  LayerNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Zeros(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Zeros(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Zeros(Shape({on.rows()}), kFp32));
  return args;
}

absl::StatusOr<LayerNormBackwardArgs> NormBackwardArgs(KernelBench& bench, const Activations& on,
                                                       bool accumulate_dx) {
  const Shape shape({on.rows(), on.dim});
  LayerNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Values(Shape({on.rows()}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Zeros(shape, on.dtype));
  args.accumulate_dx = accumulate_dx;
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Zeros(Shape({on.dim}), on.gradient_dtype));
  return args;
}

// Returns the arguments of a step on `n` elements, with scales if moments have 8 bits.
absl::StatusOr<AdamWArgs> AdamWStep(KernelBench& bench, int64_t n, DType param_dtype,
                                    DType grad_dtype, DType moment_dtype) {
  const Shape shape({n});
  AdamWArgs args;
  args.lr = 1e-4;
  args.weight_decay = 0.1;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Values(shape, param_dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values(shape, grad_dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Zeros(shape, moment_dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros(shape, moment_dtype));
  if (moment_dtype == DType::kUInt8) {
    const Shape blocks({(n + kMomentBlock - 1) / kMomentBlock});
    ZEROTH_ASSIGN_OR_RETURN(args.m_scale, bench.Zeros(blocks, kFp32));
    ZEROTH_ASSIGN_OR_RETURN(args.v_scale, bench.Zeros(blocks, kFp32));
  }
  return args;
}

}  // namespace

absl::Status KernelBench::Open(const std::string& device, const KernelOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(device_, DeviceRegistry::Create(device, DeviceOptions()));
  device_->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(kernels_,
                          KernelRegistry::Create(*device_, device_->compute_stream(), options));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(kPatternElements));
  for (float& value : values) value = normal(random);
  ZEROTH_ASSIGN_OR_RETURN(pattern_, Tensor::FromHost<float>(*device_, Shape({kPatternElements}),
                                                            values, MemoryCategory::kWorkspace));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> KernelBench::Values(const Shape& shape, DType dtype, float stddev) {
  const MemoryCategory category = MemoryCategory::kActivations;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Empty(*device_, shape, dtype, category));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor scaled,
                          Tensor::Empty(*device_, pattern_.shape(), kFp32, category));
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(
      device_->Copy(scaled.raw_data(), pattern_.raw_data(), pattern_.bytes(), stream));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(*kernels_, scaled, stddev));
  Tensor repeated = scaled;
  if (dtype != kFp32) {
    ZEROTH_ASSIGN_OR_RETURN(repeated, Tensor::Empty(*device_, pattern_.shape(), dtype, category));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*kernels_, scaled, repeated));
  }
  for (size_t begin = 0; begin < tensor.bytes(); begin += repeated.bytes()) {
    ZEROTH_RETURN_IF_ERROR(
        device_->Copy(static_cast<char*>(tensor.raw_data()) + begin, repeated.raw_data(),
                      std::min(repeated.bytes(), tensor.bytes() - begin), stream));
  }
  return tensor;
}

absl::StatusOr<Tensor> KernelBench::Zeros(const Shape& shape, DType dtype) {
  return Tensor::Zeros(*device_, shape, dtype, MemoryCategory::kActivations);
}

absl::StatusOr<Tensor> KernelBench::Tokens(const Shape& shape, int64_t vocab) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(vocab - 1));
  std::vector<int32_t> values(static_cast<size_t>(shape.numel()));
  for (int32_t& value : values) value = uniform(random);
  return Tensor::FromHost<int32_t>(*device_, shape, values, MemoryCategory::kActivations);
}

absl::StatusOr<Op> PrepareAdd(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {on.dim, on.dim, on.dim}));
  return Op([&to = bench.kernels(), t] { return kernels::Add(to, t[0], t[1], t[2]); });
}

absl::StatusOr<Op> PrepareScale(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {on.dim}));
  return Op([&to = bench.kernels(), t] { return kernels::Scale(to, t[0], -1.0f); });
}

Prepare PrepareCast(DType from, DType to) {
  return [from, to](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    const Shape shape({on.rows(), on.dim});
    ZEROTH_ASSIGN_OR_RETURN(const Tensor src, bench.Values(shape, from));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dst, bench.Zeros(shape, to));
    return Op([&bench, src, dst] { return kernels::Cast(bench.kernels(), src, dst); });
  };
}

absl::StatusOr<Op> PrepareGelu(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {on.hidden, on.hidden}));
  return Op([&to = bench.kernels(), t] { return kernels::Gelu(to, t[0], t[1]); });
}

absl::StatusOr<Op> PrepareGeluBackward(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {on.hidden, on.hidden, on.hidden}));
  return Op([&to = bench.kernels(), t] { return kernels::GeluBackward(to, t[0], t[1], t[2]); });
}

absl::StatusOr<Op> PrepareSwiGlu(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {2 * on.hidden, on.hidden}));
  return Op([&to = bench.kernels(), t] { return kernels::SwiGlu(to, t[0], t[1]); });
}

absl::StatusOr<Op> PrepareSwiGluBackward(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto t, Rows(bench, on, {2 * on.hidden, on.hidden, 2 * on.hidden}));
  return Op([&to = bench.kernels(), t] { return kernels::SwiGluBackward(to, t[0], t[1], t[2]); });
}

absl::StatusOr<Op> PrepareLayerNorm(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(LayerNormArgs args, NormArgs(bench, on));
  ZEROTH_ASSIGN_OR_RETURN(args.beta, bench.Values(Shape({on.dim}), on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Zeros(Shape({on.rows()}), kFp32));
  return Op([&bench, args] { return kernels::LayerNorm(bench.kernels(), args); });
}

Prepare PrepareLayerNormBackward(bool accumulate_dx) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(LayerNormBackwardArgs args, NormBackwardArgs(bench, on, accumulate_dx));
    ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Zeros(Shape({on.rows()}), kFp32));
    ZEROTH_ASSIGN_OR_RETURN(args.dbeta, bench.Zeros(Shape({on.dim}), on.gradient_dtype));
    return Op([&bench, args] { return kernels::LayerNormBackward(bench.kernels(), args); });
  };
}

absl::StatusOr<Op> PrepareRmsNorm(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const RmsNormArgs args, NormArgs(bench, on));
  return Op([&bench, args] { return kernels::RmsNorm(bench.kernels(), args); });
}

Prepare PrepareRmsNormBackward(bool accumulate_dx) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(const RmsNormBackwardArgs args,
                            NormBackwardArgs(bench, on, accumulate_dx));
    return Op([&bench, args] { return kernels::RmsNormBackward(bench.kernels(), args); });
  };
}

absl::StatusOr<Op> PrepareRope(KernelBench& bench, const Activations& on) {
  RopeArgs args;
  args.shape = {on.batch, on.seq, on.heads, on.kv_heads, on.dim / on.heads};
  ZEROTH_ASSIGN_OR_RETURN(
      args.qkv, bench.Values(Shape({on.batch, on.seq, args.shape.packed_dim()}), on.dtype));
  return Op([&bench, args] { return kernels::Rope(bench.kernels(), args); });
}

Prepare PrepareEmbedding(bool positions) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(Shape({on.batch, on.seq}), on.vocab));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor table, bench.Values(Shape({on.vocab, on.dim}), on.dtype));
    Tensor added;
    if (positions) {
      ZEROTH_ASSIGN_OR_RETURN(added, bench.Values(Shape({on.seq, on.dim}), on.dtype));
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor out,
                            bench.Zeros(Shape({on.batch, on.seq, on.dim}), on.dtype));
    return Op([&bench, tokens, table, added, out] {
      return kernels::Embedding(bench.kernels(), tokens, table, added, out);
    });
  };
}

Prepare PrepareEmbeddingBackward(bool accumulate) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(Shape({on.batch, on.seq}), on.vocab));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dtable,
                            bench.Zeros(Shape({on.vocab, on.dim}), on.gradient_dtype));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dout,
                            bench.Values(Shape({on.batch, on.seq, on.dim}), on.dtype));
    return Op([=, &bench] {
      return kernels::EmbeddingBackward(bench.kernels(), tokens, dout, dtable, accumulate);
    });
  };
}

absl::StatusOr<Op> PreparePositionBackward(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout,
                          bench.Values(Shape({on.batch, on.seq, on.dim}), on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dpositions,
                          bench.Zeros(Shape({on.seq, on.dim}), on.gradient_dtype));
  return Op([&bench, dout, dpositions] {
    return kernels::PositionBackward(bench.kernels(), dout, dpositions, false);
  });
}

absl::StatusOr<Op> PrepareBiasGradient(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const auto dy, Rows(bench, on, {on.hidden}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dbias, bench.Zeros(Shape({on.hidden}), on.gradient_dtype));
  return Op(
      [&bench, dy, dbias] { return kernels::BiasGradient(bench.kernels(), dy[0], dbias, false); });
}

absl::StatusOr<Op> PrepareAdamW(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const AdamWArgs args,
                          AdamWStep(bench, on.rows() * on.dim, kFp32, on.dtype, kFp32));
  return Op([&bench, args] { return kernels::AdamW(bench.kernels(), args); });
}

Prepare PrepareAdamWRanges(int64_t matrix_rows, bool one_by_one) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    const int64_t rows_of[] = {matrix_rows > 0 ? matrix_rows : on.hidden, 1, 1};
    ZEROTH_ASSIGN_OR_RETURN(const AdamWArgs whole,
                            AdamWStep(bench, on.rows() * on.dim, kFp32, on.dtype, kFp32));
    std::vector<AdamWArgs> ranges;
    for (int64_t row = 0; row < on.rows();) {
      const int64_t count = std::min(on.rows() - row, rows_of[ranges.size() % std::size(rows_of)]);
      AdamWArgs args = whole;
      if (count == 1) args.weight_decay = 0;
      for (Tensor* tensor : {&args.param, &args.grad, &args.m, &args.v}) {
        *tensor = tensor->View(row * on.dim, Shape({count * on.dim}));
      }
      ranges.push_back(std::move(args));
      row += count;
    }
    return Op([&bench, ranges, one_by_one]() -> absl::Status {
      if (!one_by_one) return kernels::AdamW(bench.kernels(), ranges);
      for (const AdamWArgs& range : ranges) {
        ZEROTH_RETURN_IF_ERROR(kernels::AdamW(bench.kernels(), range));
      }
      return absl::OkStatus();
    });
  };
}

Prepare PrepareLowAdamW(DType moment_dtype) {
  return [=](KernelBench& bench, const Activations& on) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(AdamWArgs args,
                            AdamWStep(bench, on.rows() * on.dim, on.dtype, on.dtype, moment_dtype));
    return Op([&bench, args]() mutable {
      ++args.step;
      return kernels::AdamW(bench.kernels(), args);
    });
  };
}

absl::StatusOr<Op> PrepareAddSquares(KernelBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(Shape({on.rows() * on.dim}), on.dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, bench.Zeros(Shape({ExactSum::kWords}), DType::kInt64));
  return Op([&bench, x, sum] { return kernels::AddSquares(bench.kernels(), x, sum); });
}

benchmark::internal::Benchmark* Register(const std::string& name,
                                         std::function<absl::Status(benchmark::State&)> run) {
  const auto body = [run](benchmark::State& state) {
    const absl::Status status = run(state);
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  };
  return benchmark::RegisterBenchmark(name.c_str(), body)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace zeroth
