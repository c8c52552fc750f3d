// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels of a GPU whose limit is memory, in bf16 at the shapes of one training step, against a
// plain copy measured in turn.
//
// Columns: GB/s of the best call, counting what must be read and written; copy_GB/s of the copy,
// which counts what it reads and what it writes; ratio_to_floor the former over the latter, 1 being
// the floor. Kernels that read more than they write may exceed it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/cuda_bench.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/sum_of_squares/exact_sum.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth {
namespace {

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp32 = DType::kFloat32;

// The activations of one step: [batch * seq, dim].
struct Activations {
  const char* model;
  int64_t batch;
  int64_t seq;
  int64_t dim;
  int64_t heads;
  int64_t kv_heads;
  int64_t hidden;  // of the MLP
  int64_t vocab;

  int64_t rows() const { return batch * seq; }
};

constexpr Activations kModels[] = {
    {"gpt2_124m", 64, 1024, 768, 12, 12, 3072, 50304},
    {"llama_1b", 16, 2048, 2048, 32, 4, 5632, 32000},
};

struct Prepared {
  double bytes;
  std::function<absl::Status()> op;
};
using Prepare = absl::StatusOr<Prepared> (*)(CudaBench&, const Activations&);

double Bf16Bytes(int64_t rows, int64_t columns, double times) {
  return 2.0 * times * static_cast<double>(rows * columns);
}

absl::StatusOr<Prepared> PrepareAdd(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Zeros(shape, kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 3),
                  [&bench, a, b, out] { return kernels::Add(bench.kernels(), a, b, out); }};
}

absl::StatusOr<Prepared> PrepareScale(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(Shape({on.rows(), on.dim}), kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 2),
                  [&bench, x] { return kernels::Scale(bench.kernels(), x, -1.0f); }};
}

// A master shard into the buffer that is gathered.
absl::StatusOr<Prepared> PrepareCast(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor from, bench.Values(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor to, bench.Zeros(shape, kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 3),
                  [&bench, from, to] { return kernels::Cast(bench.kernels(), from, to); }};
}

absl::StatusOr<Prepared> PrepareGelu(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.hidden});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor y, bench.Zeros(shape, kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.hidden, 2),
                  [&bench, x, y] { return kernels::Gelu(bench.kernels(), x, y); }};
}

absl::StatusOr<Prepared> PrepareGeluBackward(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.hidden});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dx, bench.Zeros(shape, kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.hidden, 3), [&bench, x, dy, dx] {
                    return kernels::GeluBackward(bench.kernels(), x, dy, dx);
                  }};
}

absl::StatusOr<Prepared> PrepareSwiGlu(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up,
                          bench.Values(Shape({on.rows(), 2 * on.hidden}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Zeros(Shape({on.rows(), on.hidden}), kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.hidden, 3), [&bench, gate_up, out] {
                    return kernels::SwiGlu(bench.kernels(), gate_up, out);
                  }};
}

absl::StatusOr<Prepared> PrepareSwiGluBackward(CudaBench& bench, const Activations& on) {
  const Shape pair({on.rows(), 2 * on.hidden});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up, bench.Values(pair, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout, bench.Values(Shape({on.rows(), on.hidden}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, bench.Zeros(pair, kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.hidden, 5), [&bench, gate_up, dout, gradient] {
                    return kernels::SwiGluBackward(bench.kernels(), gate_up, dout, gradient);
                  }};
}

// Reads x and the residual, writes their sum and y.
absl::StatusOr<Prepared> PrepareLayerNorm(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  LayerNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Zeros(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.beta, bench.Values(Shape({on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Zeros(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Zeros(Shape({on.rows()}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Zeros(Shape({on.rows()}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 4),
                  [&bench, args] { return kernels::LayerNorm(bench.kernels(), args); }};
}

// Adds to dx, as a residual stream does.
absl::StatusOr<Prepared> PrepareLayerNormBackward(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  LayerNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.mean, bench.Zeros(Shape({on.rows()}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Values(Shape({on.rows()}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Zeros(shape, kBf16));
  args.accumulate_dx = true;
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Zeros(Shape({on.dim}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.dbeta, bench.Zeros(Shape({on.dim}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 4),
                  [&bench, args] { return kernels::LayerNormBackward(bench.kernels(), args); }};
}

absl::StatusOr<Prepared> PrepareRmsNorm(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  RmsNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Zeros(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Zeros(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Zeros(Shape({on.rows()}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 4),
                  [&bench, args] { return kernels::RmsNorm(bench.kernels(), args); }};
}

absl::StatusOr<Prepared> PrepareRmsNormBackward(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows(), on.dim});
  RmsNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values(Shape({on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Values(Shape({on.rows()}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Zeros(shape, kBf16));
  args.accumulate_dx = true;
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Zeros(Shape({on.dim}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 4),
                  [&bench, args] { return kernels::RmsNormBackward(bench.kernels(), args); }};
}

// Queries and keys, in place.
absl::StatusOr<Prepared> PrepareRope(CudaBench& bench, const Activations& on) {
  RopeArgs args;
  args.shape = {on.batch, on.seq, on.heads, on.kv_heads, on.dim / on.heads};
  ZEROTH_ASSIGN_OR_RETURN(args.qkv,
                          bench.Values(Shape({on.batch, on.seq, args.shape.packed_dim()}), kBf16));
  return Prepared{Bf16Bytes(on.rows(), (on.heads + on.kv_heads) * args.shape.head_dim, 2),
                  [&bench, args] { return kernels::Rope(bench.kernels(), args); }};
}

absl::StatusOr<Prepared> PrepareEmbedding(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(Shape({on.batch, on.seq}), on.vocab));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor table, bench.Values(Shape({on.vocab, on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor positions, bench.Values(Shape({on.seq, on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Zeros(Shape({on.batch, on.seq, on.dim}), kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 2), [&bench, tokens, table, positions, out] {
                    return kernels::Embedding(bench.kernels(), tokens, table, positions, out);
                  }};
}

// Reads dout and writes the whole table's gradient in fp32.
absl::StatusOr<Prepared> PrepareEmbeddingBackward(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(Shape({on.batch, on.seq}), on.vocab));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dtable, bench.Zeros(Shape({on.vocab, on.dim}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout,
                          bench.Values(Shape({on.batch, on.seq, on.dim}), kBf16));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 1) + Bf16Bytes(on.vocab, on.dim, 2),
                  [&bench, tokens, dout, dtable] {
                    return kernels::EmbeddingBackward(bench.kernels(), tokens, dout, dtable, false);
                  }};
}

absl::StatusOr<Prepared> PreparePositionBackward(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout,
                          bench.Values(Shape({on.batch, on.seq, on.dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dpositions, bench.Zeros(Shape({on.seq, on.dim}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 1) + Bf16Bytes(on.seq, on.dim, 2),
                  [&bench, dout, dpositions] {
                    return kernels::PositionBackward(bench.kernels(), dout, dpositions, false);
                  }};
}

absl::StatusOr<Prepared> PrepareBiasGradient(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values(Shape({on.rows(), on.hidden}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dbias, bench.Zeros(Shape({on.hidden}), kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.hidden, 1), [&bench, dy, dbias] {
                    return kernels::BiasGradient(bench.kernels(), dy, dbias, false);
                  }};
}

// On fp32 gradients: reads four, writes three.
absl::StatusOr<Prepared> PrepareAdamW(CudaBench& bench, const Activations& on) {
  const Shape shape({on.rows() * on.dim});
  AdamWArgs args;
  args.lr = 1e-4;
  args.weight_decay = 0.1;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Values(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Zeros(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros(shape, kFp32));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 2 * 7),
                  [&bench, args] { return kernels::AdamW(bench.kernels(), args); }};
}

// A step of the model's blocks, whose parameters are ranges of their own: matrices, which decay,
// and vectors, which do not and are too small to fill a GPU.
struct ManyRanges {
  std::vector<AdamWArgs> ranges;
  double bytes = 0;
};

absl::StatusOr<ManyRanges> CutAdamW(CudaBench& bench, const Activations& on) {
  constexpr int kBlocks = 12;
  const int64_t packed = (on.heads + 2 * on.kv_heads) * (on.dim / on.heads);
  const Shape shapes[] = {
      {on.dim}, {on.dim}, {packed, on.dim},    {packed},    {on.dim, on.dim},    {on.dim},
      {on.dim}, {on.dim}, {on.hidden, on.dim}, {on.hidden}, {on.dim, on.hidden}, {on.dim}};
  ManyRanges many;
  AdamWArgs args;
  args.lr = 1e-4;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  for (int block = 0; block < kBlocks; ++block) {
    for (const Shape& whole : shapes) {
      const Shape shape({whole.numel()});
      args.weight_decay = whole.rank() == 2 ? 0.1 : 0.0;
      ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Values(shape, kFp32));
      ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values(shape, kFp32));
      ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Zeros(shape, kFp32));
      ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros(shape, kFp32));
      many.ranges.push_back(args);
      many.bytes += 28.0 * static_cast<double>(shape.numel());
    }
  }
  return many;
}

absl::StatusOr<Prepared> PrepareAdamWRanges(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const ManyRanges many, CutAdamW(bench, on));
  return Prepared{many.bytes, [&bench, ranges = many.ranges] {
                    return kernels::AdamW(bench.kernels(), ranges);
                  }};
}

absl::StatusOr<Prepared> PrepareAdamWRangesOneByOne(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const ManyRanges many, CutAdamW(bench, on));
  return Prepared{many.bytes, [&bench, ranges = many.ranges]() -> absl::Status {
                    for (const AdamWArgs& range : ranges) {
                      ZEROTH_RETURN_IF_ERROR(kernels::AdamW(bench.kernels(), range));
                    }
                    return absl::OkStatus();
                  }};
}

// On bf16 parameters and gradients, whichever moments, of `bytes` read and written an element.
absl::StatusOr<Prepared> PrepareLowAdamW(CudaBench& bench, const Activations& on,
                                         DType moment_dtype, int64_t bytes) {
  const Shape shape({on.rows() * on.dim});
  AdamWArgs args;
  args.lr = 1e-4;
  args.weight_decay = 0.1;
  args.correction1 = 0.5;
  args.correction2 = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(args.param, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.grad, bench.Values(shape, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.m, bench.Zeros(shape, moment_dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.v, bench.Zeros(shape, moment_dtype));
  if (moment_dtype == DType::kUInt8) {
    const Shape blocks({(shape.numel() + kMomentBlock - 1) / kMomentBlock});
    ZEROTH_ASSIGN_OR_RETURN(args.m_scale, bench.Zeros(blocks, kFp32));
    ZEROTH_ASSIGN_OR_RETURN(args.v_scale, bench.Zeros(blocks, kFp32));
  }
  return Prepared{Bf16Bytes(on.rows(), on.dim, bytes / 2), [&bench, args]() mutable {
                    ++args.step;
                    return kernels::AdamW(bench.kernels(), args);
                  }};
}

absl::StatusOr<Prepared> PrepareAdamWBf16State(CudaBench& bench, const Activations& on) {
  return PrepareLowAdamW(bench, on, kBf16, 14);
}

absl::StatusOr<Prepared> PrepareAdamW8BitState(CudaBench& bench, const Activations& on) {
  return PrepareLowAdamW(bench, on, DType::kUInt8, 10);
}

absl::StatusOr<Prepared> PrepareAddSquares(CudaBench& bench, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(Shape({on.rows() * on.dim}), kFp32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, bench.Zeros(Shape({ExactSum::kWords}), DType::kInt64));
  return Prepared{Bf16Bytes(on.rows(), on.dim, 2),
                  [&bench, x, sum] { return kernels::AddSquares(bench.kernels(), x, sum); }};
}

struct Case {
  const char* name;
  Prepare prepare;
};

constexpr Case kCases[] = {
    {"Add", PrepareAdd},
    {"Scale", PrepareScale},
    {"CastFp32ToBf16", PrepareCast},
    {"Gelu", PrepareGelu},
    {"GeluBackward", PrepareGeluBackward},
    {"SwiGlu", PrepareSwiGlu},
    {"SwiGluBackward", PrepareSwiGluBackward},
    {"LayerNormResidual", PrepareLayerNorm},
    {"LayerNormBackward", PrepareLayerNormBackward},
    {"RmsNormResidual", PrepareRmsNorm},
    {"RmsNormBackward", PrepareRmsNormBackward},
    {"Rope", PrepareRope},
    {"Embedding", PrepareEmbedding},
    {"EmbeddingBackward", PrepareEmbeddingBackward},
    {"PositionBackward", PreparePositionBackward},
    {"BiasGradient", PrepareBiasGradient},
    {"AdamW", PrepareAdamW},
    {"AdamWRanges", PrepareAdamWRanges},
    {"AdamWRangesOneByOne", PrepareAdamWRangesOneByOne},
    {"AdamWBf16State", PrepareAdamWBf16State},
    {"AdamW8BitState", PrepareAdamW8BitState},
    {"AddSquares", PrepareAddSquares},
};

absl::Status RunCase(benchmark::State& state, const Case& test, const Activations& on) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Prepared prepared, test.prepare(*bench, on));
  return bench->Run(state, {/*flops=*/0, prepared.bytes}, prepared.op);
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& test : kCases) {
    for (const Activations& on : kModels) {
      const std::string name = absl::StrCat("BM_", test.name, "/", on.model);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&test, &on](benchmark::State& state) { SkipOnError(state, RunCase(state, test, on)); })
          ->UseManualTime()
          ->Iterations(20)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace zeroth
