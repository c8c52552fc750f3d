// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels whose limit is memory. Each is held against a plain loop that moves as many bytes at the
// same moment: out = a + s * b (two thirds read, one third written), which also has the lines of
// `out` fetched before they are overwritten; x = -x for kernels that work in place; and for kernels
// that only read a plain sum of squares.
//
// Argument: MiB that one call must read and write, once within the shared cache and once far beyond
// it. Names that end in Bf16 work on bf16, and AdamW then on bf16 gradients; their floors are the
// same plain fp32 loops, moving as many bytes. Columns: GB/s of the best call, counting what must
// be read and written; floor_GB/s of the plain loop; ratio_to_floor the former over the latter, 1
// being the floor. One thread.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/exact_sum.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// The floors may use the widest vectors that the machine has, as the kernels do.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ZEROTH_WIDEST_VECTORS __attribute__((target_clones("arch=x86-64-v4,avx2,default")))
#else
#define ZEROTH_WIDEST_VECTORS
#endif

ZEROTH_WIDEST_VECTORS void Triad(int64_t n, const float* __restrict a, const float* __restrict b,
                                 float* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + 3.0f * b[i];
}

ZEROTH_WIDEST_VECTORS void NegateInPlace(int64_t n, float* x) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
}

ZEROTH_WIDEST_VECTORS float PlainSumOfSquares(int64_t n, const float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

constexpr int64_t kDim = 768;
constexpr int64_t kVocab = 50304;

// A CPU device with one thread, its kernels, and tensors to run them on.
class Bench {
 public:
  // `dtype` is the type of Values: fp32 or bf16.
  static absl::StatusOr<std::unique_ptr<Bench>> Create(DType dtype) {
    auto bench = std::make_unique<Bench>();
    bench->dtype_ = dtype;
    ZEROTH_ASSIGN_OR_RETURN(bench->device_, DeviceRegistry::Create("cpu", DeviceOptions{}));
    bench->device_->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(
        bench->kernels_, KernelRegistry::Create(*bench->device_, bench->device_->compute_stream()));
    return bench;
  }

  Kernels& kernels() { return *kernels_; }

  // Of the type that the case is about.
  absl::StatusOr<Tensor> Values(const Shape& shape) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor floats, Floats(shape));
    if (dtype_ == DType::kFloat32) return floats;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor tensor,
                            Tensor::Empty(*device_, shape, dtype_, MemoryCategory::kActivations));
    ZEROTH_RETURN_IF_ERROR(kernels_->Cast(floats, tensor));
    return tensor;
  }

  // Of magnitudes like those of a gradient, from 2^-10 to 2, either sign.
  absl::StatusOr<Tensor> Floats(const Shape& shape) {
    ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(*device_, shape, DType::kFloat32,
                                                         MemoryCategory::kActivations));
    float* data = tensor.data<float>();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const uint32_t draw = Draw();
      const float magnitude = static_cast<float>(draw & 0xfffffu) * 0x1p-19f + 0x1p-10f;
      data[i] = (draw & 0x80000000u) != 0 ? -magnitude : magnitude;
    }
    return tensor;
  }

  absl::StatusOr<Tensor> Zeros(const Shape& shape, DType dtype) {
    return Tensor::Zeros(*device_, shape, dtype, MemoryCategory::kActivations);
  }

  absl::StatusOr<Tensor> Tokens(int64_t count) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t& value : values) value = static_cast<int32_t>(Draw() % kVocab);
    return Tensor::FromHost<int32_t>(*device_, Shape({1, count}), values,
                                     MemoryCategory::kActivations);
  }

 private:
  uint32_t Draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }

  uint64_t state_ = 1;
  DType dtype_ = DType::kFloat32;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
};

using Op = std::function<absl::Status()>;

template <typename Body>
double Seconds(const Body& body) {
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Floor { kTriad, kInPlace, kSumOfSquares };

// One kernel: how many bytes it must move for each element of its main operand, and how to prepare
// a call on `rows` rows of kDim of them.
struct Case {
  const char* name;
  DType dtype;  // of activations, parameters and gradients
  int64_t bytes_per_element;
  Floor floor;
  std::function<absl::StatusOr<Op>(Bench& bench, int64_t rows)> prepare;
};

// Runs op and floor in turn, so that both meet the machine in the same mood.
absl::Status Compare(benchmark::State& state, int64_t bytes, const Op& op,
                     const std::function<void()>& floor) {
  ZEROTH_RETURN_IF_ERROR(op());  // touches memory, sizes the workspace
  floor();
  double best = std::numeric_limits<double>::infinity();
  double best_floor = best;
  absl::Status status;
  for (auto _ : state) {
    best_floor = std::min(best_floor, Seconds(floor));
    const double seconds = Seconds([&] { status = op(); });
    ZEROTH_RETURN_IF_ERROR(status);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best * 1e-9;
  state.counters["floor_GB/s"] = static_cast<double>(bytes) / best_floor * 1e-9;
  state.counters["ratio_to_floor"] = best_floor / best;
  return absl::OkStatus();
}

absl::Status RunCase(benchmark::State& state, const Case& test) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::Create(test.dtype));
  const int64_t rows = (state.range(0) << 20) / (test.bytes_per_element * kDim);
  const int64_t bytes = rows * kDim * test.bytes_per_element;
  ZEROTH_ASSIGN_OR_RETURN(const Op op, test.prepare(*bench, rows));
  if (test.floor == Floor::kSumOfSquares) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x,
                            bench->Floats({bytes / static_cast<int64_t>(sizeof(float))}));
    return Compare(state, bytes, op, [x] {
      benchmark::DoNotOptimize(PlainSumOfSquares(x.numel(), x.data<float>()));
    });
  }
  if (test.floor == Floor::kInPlace) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x,
                            bench->Floats({bytes / static_cast<int64_t>(2 * sizeof(float))}));
    return Compare(state, bytes, op, [x] {
      NegateInPlace(x.numel(), x.data<float>());
      benchmark::ClobberMemory();
    });
  }
  const int64_t count = bytes / static_cast<int64_t>(3 * sizeof(float));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench->Floats({count}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench->Floats({count}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench->Floats({count}));
  return Compare(state, bytes, op, [a, b, out, count] {
    Triad(count, a.data<float>(), b.data<float>(), out.data<float>());
    benchmark::ClobberMemory();
  });
}

absl::StatusOr<Op> PrepareAdd(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({rows, kDim}));
  return Op([&bench, a, b, out] { return bench.kernels().Add(a, b, out); });
}

absl::StatusOr<Op> PrepareScale(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  return Op([&bench, x] { return bench.kernels().Scale(x, -1.0f); });
}

std::function<absl::StatusOr<Op>(Bench&, int64_t)> CastBetween(DType from, DType to) {
  return [from, to](Bench& bench, int64_t rows) -> absl::StatusOr<Op> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor src, bench.Zeros({rows, kDim}, from));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dst, bench.Zeros({rows, kDim}, to));
    return Op([&bench, src, dst] { return bench.kernels().Cast(src, dst); });
  };
}

absl::StatusOr<Op> PrepareGelu(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor y, bench.Values({rows, kDim}));
  return Op([&bench, x, y] { return bench.kernels().Gelu(x, y); });
}

absl::StatusOr<Op> PrepareGeluBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dx, bench.Values({rows, kDim}));
  return Op([&bench, x, dy, dx] { return bench.kernels().GeluBackward(x, dy, dx); });
}

absl::StatusOr<Op> PrepareSwiGlu(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up, bench.Values({rows, 2 * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({rows, kDim}));
  return Op([&bench, gate_up, out] { return bench.kernels().SwiGlu(gate_up, out); });
}

absl::StatusOr<Op> PrepareSwiGluBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gate_up, bench.Values({rows, 2 * kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, bench.Values({rows, 2 * kDim}));
  return Op([&bench, gate_up, dout, gradient] {
    return bench.kernels().SwiGluBackward(gate_up, dout, gradient);
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
  return Op([&bench, args] { return bench.kernels().LayerNorm(args); });
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
  return Op([&bench, args] { return bench.kernels().LayerNormBackward(args); });
}

absl::StatusOr<Op> PrepareRmsNorm(Bench& bench, int64_t rows) {
  RmsNormArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.residual, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.sum, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.y, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  return Op([&bench, args] { return bench.kernels().RmsNorm(args); });
}

absl::StatusOr<Op> PrepareRmsNormBackward(Bench& bench, int64_t rows) {
  RmsNormBackwardArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.x, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, bench.Values({kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, bench.Floats({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.dx, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(args.dgamma, bench.Values({kDim}));
  return Op([&bench, args] { return bench.kernels().RmsNormBackward(args); });
}

// Twelve heads of 64; as many rows as make rows * kDim rotated elements, half queries, half keys.
absl::StatusOr<Op> PrepareRope(Bench& bench, int64_t rows) {
  RopeArgs args;
  args.shape = {std::max<int64_t>(1, rows / 2 / 256), 256, 12, 12, 64};
  ZEROTH_ASSIGN_OR_RETURN(
      args.qkv, bench.Values({args.shape.batch, args.shape.seq, args.shape.packed_dim()}));
  return Op([&bench, args] { return bench.kernels().Rope(args); });
}

absl::StatusOr<Op> PrepareEmbedding(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(rows));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor table, bench.Values({kVocab, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values({1, rows, kDim}));
  return Op([&bench, tokens, table, out] {
    return bench.kernels().Embedding(tokens, table, Tensor(), out);
  });
}

// Into a gradient that exists: reads dout, reads and writes rows of the table.
absl::StatusOr<Op> PrepareEmbeddingBackward(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, bench.Tokens(rows));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dtable, bench.Values({kVocab, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dout, bench.Values({1, rows, kDim}));
  return Op([&bench, tokens, dout, dtable] {
    return bench.kernels().EmbeddingBackward(tokens, dout, dtable, true);
  });
}

absl::StatusOr<Op> PrepareBiasGradient(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, bench.Values({rows, kDim}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dbias, bench.Values({kDim}));
  return Op([&bench, dy, dbias] { return bench.kernels().BiasGradient(dy, dbias, false); });
}

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
  return Op([&bench, args] { return bench.kernels().AdamW(args); });
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
  return Op([&bench, ranges] { return bench.kernels().AdamW(ranges); });
}

absl::StatusOr<Op> PrepareAdamWRangesOneByOne(Bench& bench, int64_t rows) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AdamWArgs> ranges, CutAdamW(bench, rows));
  return Op([&bench, ranges]() -> absl::Status {
    for (const AdamWArgs& range : ranges) {
      ZEROTH_RETURN_IF_ERROR(bench.kernels().AdamW(range));
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
    return bench.kernels().AdamW(args);
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
  return Op([&bench, x, sum] { return bench.kernels().AddSquares(x, sum); });
}

const std::vector<Case>& Cases() {
  static const std::vector<Case>& cases = *new std::vector<Case>{
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
      {"AdamW", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamW},
      {"AdamWRanges", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamWRanges},
      {"AdamWRangesOneByOne", DType::kFloat32, 28, Floor::kInPlace, PrepareAdamWRangesOneByOne},
      {"AdamWBf16", DType::kBFloat16, 26, Floor::kInPlace, PrepareAdamW},
      {"AdamWBf16State", DType::kBFloat16, 14, Floor::kInPlace, PrepareAdamWBf16State},
      {"AdamW8BitState", DType::kBFloat16, 10, Floor::kInPlace, PrepareAdamW8BitState},
      {"AddSquares", DType::kFloat32, 4, Floor::kSumOfSquares, PrepareAddSquares},
      {"AddSquaresBf16", DType::kBFloat16, 2, Floor::kSumOfSquares, PrepareAddSquares},
  };
  return cases;
}

void RunBenchmark(benchmark::State& state, const Case* test) {
  const absl::Status status = RunCase(state, *test);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& test : Cases()) {
    const std::string name = std::string("BM_") + test.name;
    benchmark::RegisterBenchmark(name.c_str(), RunBenchmark, &test)
        ->ArgName("MiB")
        ->Arg(12)
        ->Arg(768)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace zeroth
