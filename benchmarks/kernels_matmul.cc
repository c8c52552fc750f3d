// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels that live on matrix products: GEMM in the shapes of a GPT-2 124M step (1024 tokens),
// attention, and the output projection with its loss, in fp32 and in bf16. Each is held against the
// rate of a square product of its element type that stays in cache, the GEMM peak, measured in turn
// with it. Gradients of weights are fp32 whatever the operands.
//
// Columns: GFLOP/s of the best iteration; gemm_peak in GFLOP/s, the best product; ratio_to_floor
// the former over the latter, 1 being the floor. Causal attention counts the scores below the
// diagonal only.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// A CPU device with one thread, its kernels, and random tensors.
class Bench {
 public:
  // `dtype` is the type of Random() and of the peak's product: fp32 or bf16.
  static absl::StatusOr<std::unique_ptr<Bench>> Create(DType dtype) {
    auto bench = std::make_unique<Bench>();
    bench->dtype_ = dtype;
    ZEROTH_ASSIGN_OR_RETURN(bench->device_, DeviceRegistry::Create("cpu", DeviceOptions{}));
    bench->device_->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(
        bench->kernels_, KernelRegistry::Create(*bench->device_, bench->device_->compute_stream()));
    constexpr int64_t kSide = 768;
    ZEROTH_ASSIGN_OR_RETURN(bench->peak_.a, bench->Random({kSide, kSide}));
    ZEROTH_ASSIGN_OR_RETURN(bench->peak_.b, bench->Random({kSide, kSide}));
    ZEROTH_ASSIGN_OR_RETURN(bench->peak_.c, bench->Random({kSide, kSide}));
    bench->peak_flops_ = 2.0 * kSide * kSide * kSide;
    return bench;
  }

  absl::StatusOr<Tensor> Random(const Shape& shape, float stddev = 1.0f) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor floats, RandomFloats(shape, stddev));
    if (dtype_ == DType::kFloat32) return floats;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor tensor,
                            Tensor::Empty(*device_, shape, dtype_, MemoryCategory::kActivations));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*kernels_, floats, tensor));
    return tensor;
  }

  absl::StatusOr<Tensor> RandomFloats(const Shape& shape, float stddev = 1.0f) {
    std::normal_distribution<float> normal(0.0f, stddev);
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (float& value : values) value = normal(random_);
    return Tensor::FromHost<float>(*device_, shape, values, MemoryCategory::kActivations);
  }

  absl::StatusOr<Tensor> RandomTokens(int64_t count, int64_t vocab) {
    std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(vocab - 1));
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t& value : values) value = uniform(random_);
    return Tensor::FromHost<int32_t>(*device_, Shape({count}), values,
                                     MemoryCategory::kActivations);
  }

  Kernels& kernels() { return *kernels_; }

  // Runs `op`, which does `flops` operations, and the peak's product in turn.
  template <typename Op>
  absl::Status Run(benchmark::State& state, double flops, const Op& op) {
    ZEROTH_RETURN_IF_ERROR(op());  // touches memory, sizes the workspace
    double best = std::numeric_limits<double>::infinity();
    double best_peak = best;
    for (auto _ : state) {
      ZEROTH_RETURN_IF_ERROR(
          Time([&] { return kernels::Gemm(*kernels_, peak_); }, best_peak).status());
      ZEROTH_ASSIGN_OR_RETURN(const double seconds, Time(op, best));
      state.SetIterationTime(seconds);
    }
    state.counters["GFLOP/s"] = flops / best * 1e-9;
    state.counters["gemm_peak"] = peak_flops_ / best_peak * 1e-9;
    state.counters["ratio_to_floor"] = (flops / best) / (peak_flops_ / best_peak);
    return absl::OkStatus();
  }

 private:
  template <typename Op>
  absl::StatusOr<double> Time(const Op& op, double& best) {
    const Clock::time_point start = Clock::now();
    ZEROTH_RETURN_IF_ERROR(op());
    ZEROTH_RETURN_IF_ERROR(kernels_->stream().Synchronize());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    return seconds;
  }

  DType dtype_ = DType::kFloat32;
  std::mt19937_64 random_{1};
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  GemmArgs peak_;
  double peak_flops_ = 0.0;
};

void SkipOnError(benchmark::State& state, const absl::Status& status) {
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

struct GemmShape {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::kNone;
  bool gelu_backward = false;
};

absl::Status RunGemm(benchmark::State& state, DType dtype, const GemmShape& shape) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::Create(dtype));
  GemmArgs args;
  args.transpose_a = shape.transpose_a;
  args.transpose_b = shape.transpose_b;
  args.accumulate = shape.accumulate;
  args.activation = shape.activation;
  ZEROTH_ASSIGN_OR_RETURN(args.a, bench->Random(shape.transpose_a ? Shape({shape.k, shape.m})
                                                                  : Shape({shape.m, shape.k})));
  ZEROTH_ASSIGN_OR_RETURN(args.b, bench->Random(shape.transpose_b ? Shape({shape.n, shape.k})
                                                                  : Shape({shape.k, shape.n})));
  const Shape result{shape.m, shape.n};
  ZEROTH_ASSIGN_OR_RETURN(args.c,
                          shape.accumulate ? bench->RandomFloats(result) : bench->Random(result));
  if (shape.activation == Activation::kGelu) {
    ZEROTH_ASSIGN_OR_RETURN(args.pre_activation, bench->Random(result));
  }
  if (shape.gelu_backward) {
    ZEROTH_ASSIGN_OR_RETURN(args.gelu_input, bench->Random(result));
  }
  if (shape.bias) {
    ZEROTH_ASSIGN_OR_RETURN(args.bias, bench->Random({shape.n}));
  }
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  return bench->Run(state, flops, [&] { return kernels::Gemm(bench->kernels(), args); });
}

void BM_Gemm(benchmark::State& state, DType dtype, const GemmShape& shape) {
  SkipOnError(state, RunGemm(state, dtype, shape));
}

#define ZEROTH_BENCHMARK_GEMM_IN(name, dtype, ...)                \
  BENCHMARK_CAPTURE(BM_Gemm, name, dtype, GemmShape{__VA_ARGS__}) \
      ->UseManualTime()                                           \
      ->Unit(benchmark::kMillisecond)
#define ZEROTH_BENCHMARK_GEMM(name, ...)                               \
  ZEROTH_BENCHMARK_GEMM_IN(name##_fp32, DType::kFloat32, __VA_ARGS__); \
  ZEROTH_BENCHMARK_GEMM_IN(name##_bf16, DType::kBFloat16, __VA_ARGS__)

// y = x w + bias, weights [in, out] as GPT-2 keeps them.
ZEROTH_BENCHMARK_GEMM(qkv_forward, 1024, 2304, 768, false, false, false, true);
ZEROTH_BENCHMARK_GEMM(attention_out_forward, 1024, 768, 768, false, false, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_up_forward, 1024, 3072, 768, false, false, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_up_gelu_forward, 1024, 3072, 768, false, false, false, true,
                      Activation::kGelu);
ZEROTH_BENCHMARK_GEMM(mlp_down_forward, 1024, 768, 3072, false, false, false, true);
// dx = dy w^T.
ZEROTH_BENCHMARK_GEMM(qkv_dx, 1024, 768, 2304, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_up_dx, 1024, 768, 3072, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_down_dx, 1024, 3072, 768, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_down_gelu_dx, 1024, 3072, 768, false, true, false, false,
                      Activation::kNone, true);
// dw += x^T dy.
ZEROTH_BENCHMARK_GEMM(qkv_dw, 768, 2304, 1024, true, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_up_dw, 768, 3072, 1024, true, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_down_dw, 3072, 768, 1024, true, false, true);
// A quarter of the tokens: less work for every weight that is read.
ZEROTH_BENCHMARK_GEMM(qkv_forward_256, 256, 2304, 768, false, false, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_down_forward_256, 256, 768, 3072, false, false, false, true);
ZEROTH_BENCHMARK_GEMM(mlp_up_dw_256, 768, 3072, 256, true, false, true);
// Weights [out, in] as Llama keeps them.
ZEROTH_BENCHMARK_GEMM(linear_out_in_forward, 1024, 3072, 768, false, true);
ZEROTH_BENCHMARK_GEMM(linear_out_in_dx, 1024, 768, 3072);
ZEROTH_BENCHMARK_GEMM(linear_out_in_dw, 3072, 768, 1024, true, false, true);

// Products of the scores' lower triangle, each of 2 head_dim operations an element: two in forward,
// five in backward.
double TriangleFlops(const AttentionShape& shape, double products) {
  const double seq = static_cast<double>(shape.seq);
  return products * static_cast<double>(2 * shape.batch * shape.heads * shape.head_dim) * seq *
         (seq + 1.0) / 2.0;
}

absl::Status RunAttention(benchmark::State& state, DType dtype, bool backward) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::Create(dtype));
  const AttentionShape shape{state.range(0), state.range(1), state.range(2), state.range(3),
                             state.range(4)};
  AttentionArgs args;
  args.shape = shape;
  ZEROTH_ASSIGN_OR_RETURN(args.qkv, bench->Random({shape.batch, shape.seq, shape.packed_dim()}));
  ZEROTH_ASSIGN_OR_RETURN(args.out,
                          bench->Random({shape.batch, shape.seq, shape.heads * shape.head_dim}));
  ZEROTH_ASSIGN_OR_RETURN(args.lse, bench->RandomFloats({shape.batch, shape.heads, shape.seq}));
  const auto forward = [&] { return kernels::Attention(bench->kernels(), args); };
  if (!backward) return bench->Run(state, TriangleFlops(shape, 2.0), forward);
  ZEROTH_RETURN_IF_ERROR(forward());
  AttentionBackwardArgs gradients;
  gradients.shape = shape;
  gradients.qkv = args.qkv;
  gradients.out = args.out;
  gradients.lse = args.lse;
  ZEROTH_ASSIGN_OR_RETURN(gradients.dout, bench->Random(args.out.shape()));
  ZEROTH_ASSIGN_OR_RETURN(gradients.dqkv, bench->Random(args.qkv.shape()));
  return bench->Run(state, TriangleFlops(shape, 5.0),
                    [&] { return kernels::AttentionBackward(bench->kernels(), gradients); });
}

void BM_Attention(benchmark::State& state, DType dtype) {
  SkipOnError(state, RunAttention(state, dtype, false));
}
void BM_AttentionBackward(benchmark::State& state, DType dtype) {
  SkipOnError(state, RunAttention(state, dtype, true));
}

void AttentionShapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "seq", "heads", "kv_heads", "head_dim"})
      ->Args({4, 256, 12, 12, 64})
      ->Args({1, 1024, 12, 12, 64})
      ->Args({1, 2048, 8, 2, 128})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(BM_Attention, fp32, DType::kFloat32)->Apply(AttentionShapes);
BENCHMARK_CAPTURE(BM_Attention, bf16, DType::kBFloat16)->Apply(AttentionShapes);
BENCHMARK_CAPTURE(BM_AttentionBackward, fp32, DType::kFloat32)->Apply(AttentionShapes);
BENCHMARK_CAPTURE(BM_AttentionBackward, bf16, DType::kBFloat16)->Apply(AttentionShapes);

absl::Status RunLinearCrossEntropy(benchmark::State& state, DType dtype) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::Create(dtype));
  const int64_t rows = state.range(0);
  const int64_t dim = state.range(1);
  const int64_t vocab = state.range(2);
  LinearCrossEntropyArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.hidden, bench->Random({rows, dim}));
  ZEROTH_ASSIGN_OR_RETURN(args.weight, bench->Random({vocab, dim}, 0.02f));
  ZEROTH_ASSIGN_OR_RETURN(args.targets, bench->RandomTokens(rows, vocab));
  ZEROTH_ASSIGN_OR_RETURN(args.loss, bench->RandomFloats({1}));
  ZEROTH_ASSIGN_OR_RETURN(args.dhidden, bench->Random({rows, dim}));
  ZEROTH_ASSIGN_OR_RETURN(args.dweight, bench->RandomFloats({vocab, dim}));
  args.accumulate_dweight = true;
  const double flops = 6.0 * static_cast<double>(rows * dim * vocab);
  return bench->Run(state, flops,
                    [&] { return kernels::LinearCrossEntropy(bench->kernels(), args); });
}

void BM_LinearCrossEntropy(benchmark::State& state, DType dtype) {
  SkipOnError(state, RunLinearCrossEntropy(state, dtype));
}

void LinearCrossEntropyShapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "dim", "vocab"})
      ->Args({1024, 768, 50304})
      ->UseManualTime()
      ->MinTime(4.0)
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(BM_LinearCrossEntropy, fp32, DType::kFloat32)->Apply(LinearCrossEntropyShapes);
BENCHMARK_CAPTURE(BM_LinearCrossEntropy, bf16, DType::kBFloat16)->Apply(LinearCrossEntropyShapes);

}  // namespace
}  // namespace zeroth
