// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The CPU's kernels on one thread, each measured in alternation with its floor.
//
// Memory-bound kernels are compared with a plain loop that moves as many bytes: out = a + s * b,
// which reads two thirds of them and also has the lines of `out` fetched before they are
// overwritten; x = -x for kernels that work in place; and a plain sum of squares for kernels that
// only read. Their argument is the MiB that one call must read and write: once within the shared
// cache, and once far beyond it. Kernels whose names end in Bf16 work on bf16, and AdamW on bf16
// gradients; their floors are the same fp32 loops. GB/s counts the bytes that must be read and
// written.
//
// GEMMs, in the shapes of a GPT-2 124M step (1024 tokens), attention, and the output projection
// with its loss, in fp32 and in bf16, are compared with a square GEMM of their element type that
// stays in cache (gemm_peak). In fp32, fma_peak is what the core does without memory (fma_peak.h),
// in GFLOP/s as well. Gradients of weights are fp32 whatever the operands' type.
//
// BM_Unpack restores weights in few bits; its floor moves as many bytes. A BM_PackedLinear's floor
// is the same layer with weights in full: its ratio is what is left of that layer's rate.
//
// ratio_to_floor: the rate of the best iteration divided by that of the best floor; 1 is the floor.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/fma_peak.h"
#include "zeroth/benchmarks/kernel_bench.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;
constexpr int64_t kDim = 768;

// The floors use the widest vectors that the machine has, as the kernels do.
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

enum class Floor { kTriad, kInPlace, kSumOfSquares };

// Returns a plain loop that moves `bytes`.
absl::StatusOr<Op> PrepareFloor(KernelBench& bench, Floor floor, int64_t bytes) {
  const int64_t tensors = floor == Floor::kTriad ? 3 : floor == Floor::kInPlace ? 2 : 1;
  const Shape shape({bytes / (tensors * static_cast<int64_t>(sizeof(float)))});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench.Values(shape, kFp32));
  if (floor == Floor::kSumOfSquares) {
    return Op([a] {
      benchmark::DoNotOptimize(PlainSumOfSquares(a.numel(), a.data<float>()));
      return absl::OkStatus();
    });
  }
  if (floor == Floor::kInPlace) {
    return Op([a] {
      NegateInPlace(a.numel(), a.data<float>());
      benchmark::ClobberMemory();
      return absl::OkStatus();
    });
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench.Values(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench.Values(shape, kFp32));
  return Op([a, b, out] {
    Triad(out.numel(), a.data<float>(), b.data<float>(), out.data<float>());
    benchmark::ClobberMemory();
    return absl::OkStatus();
  });
}

// The work of a call, in bytes or operations, and the name of its rate.
struct Amount {
  double count;
  const char* rate;
};

absl::StatusOr<double> Seconds(KernelBench& bench, const Op& op) {
  const auto start = std::chrono::steady_clock::now();
  ZEROTH_RETURN_IF_ERROR(op());
  ZEROTH_RETURN_IF_ERROR(bench.kernels().stream().Synchronize());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Alternates op and floor, so that both meet the same state of the machine.
absl::Status Compare(benchmark::State& state, KernelBench& bench, const Op& op, const Amount& does,
                     const Op& floor, const Amount& floor_does) {
  ZEROTH_RETURN_IF_ERROR(op());  // touches memory and sizes the workspace
  ZEROTH_RETURN_IF_ERROR(floor());
  double best = std::numeric_limits<double>::infinity();
  double best_floor = best;
  for (auto _ : state) {
    ZEROTH_ASSIGN_OR_RETURN(const double floor_seconds, Seconds(bench, floor));
    ZEROTH_ASSIGN_OR_RETURN(const double seconds, Seconds(bench, op));
    best_floor = std::min(best_floor, floor_seconds);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters[does.rate] = does.count / best * 1e-9;
  state.counters[floor_does.rate] = floor_does.count / best_floor * 1e-9;
  state.counters["ratio_to_floor"] = (does.count / best) / (floor_does.count / best_floor);
  return absl::OkStatus();
}

// A memory-bound kernel.
struct Case {
  const char* name;
  DType dtype;                // of activations, parameters and gradients
  int64_t bytes_per_element;  // that must be read and written
  Floor floor;
  Prepare prepare;
};

const Case kCases[] = {
    {"Add", kFp32, 12, Floor::kTriad, PrepareAdd},
    {"AddBf16", kBf16, 6, Floor::kTriad, PrepareAdd},
    {"Scale", kFp32, 8, Floor::kInPlace, PrepareScale},
    {"ScaleBf16", kBf16, 4, Floor::kInPlace, PrepareScale},
    {"CastFp32ToBf16", kFp32, 6, Floor::kTriad, PrepareCast(kFp32, kBf16)},
    {"CastFp32ToFp16", kFp32, 6, Floor::kTriad, PrepareCast(kFp32, DType::kFloat16)},
    {"CastBf16ToFp32", kFp32, 6, Floor::kTriad, PrepareCast(kBf16, kFp32)},
    {"CastFp16ToFp32", kFp32, 6, Floor::kTriad, PrepareCast(DType::kFloat16, kFp32)},
    {"Gelu", kFp32, 8, Floor::kTriad, PrepareGelu},
    {"GeluBf16", kBf16, 4, Floor::kTriad, PrepareGelu},
    {"GeluBackward", kFp32, 12, Floor::kTriad, PrepareGeluBackward},
    {"GeluBackwardBf16", kBf16, 6, Floor::kTriad, PrepareGeluBackward},
    {"SwiGlu", kFp32, 12, Floor::kTriad, PrepareSwiGlu},
    {"SwiGluBf16", kBf16, 6, Floor::kTriad, PrepareSwiGlu},
    {"SwiGluBackward", kFp32, 20, Floor::kTriad, PrepareSwiGluBackward},
    {"SwiGluBackwardBf16", kBf16, 10, Floor::kTriad, PrepareSwiGluBackward},
    {"LayerNormResidual", kFp32, 16, Floor::kTriad, PrepareLayerNorm},
    {"LayerNormResidualBf16", kBf16, 8, Floor::kTriad, PrepareLayerNorm},
    {"LayerNormBackward", kFp32, 12, Floor::kTriad, PrepareLayerNormBackward(false)},
    {"LayerNormBackwardBf16", kBf16, 6, Floor::kTriad, PrepareLayerNormBackward(false)},
    {"RmsNormResidual", kFp32, 16, Floor::kTriad, PrepareRmsNorm},
    {"RmsNormResidualBf16", kBf16, 8, Floor::kTriad, PrepareRmsNorm},
    {"RmsNormBackward", kFp32, 12, Floor::kTriad, PrepareRmsNormBackward(false)},
    {"RmsNormBackwardBf16", kBf16, 6, Floor::kTriad, PrepareRmsNormBackward(false)},
    // These rotate queries and keys.
    {"Rope", kFp32, 16, Floor::kInPlace, PrepareRope},
    {"RopeBf16", kBf16, 8, Floor::kInPlace, PrepareRope},
    {"Embedding", kFp32, 8, Floor::kTriad, PrepareEmbedding(false)},
    {"EmbeddingBf16", kBf16, 4, Floor::kTriad, PrepareEmbedding(false)},
    {"EmbeddingBackward", kFp32, 12, Floor::kInPlace, PrepareEmbeddingBackward(true)},
    {"EmbeddingBackwardBf16", kBf16, 6, Floor::kInPlace, PrepareEmbeddingBackward(true)},
    {"BiasGradient", kFp32, 4, Floor::kSumOfSquares, PrepareBiasGradient},
    {"BiasGradientBf16", kBf16, 2, Floor::kSumOfSquares, PrepareBiasGradient},
    {"AdamW", kFp32, 28, Floor::kInPlace, PrepareAdamW},
    {"AdamWRanges", kFp32, 28, Floor::kInPlace, PrepareAdamWRanges(48, false)},
    {"AdamWRangesOneByOne", kFp32, 28, Floor::kInPlace, PrepareAdamWRanges(48, true)},
    {"AdamWBf16", kBf16, 26, Floor::kInPlace, PrepareAdamW},
    {"AdamWBf16State", kBf16, 14, Floor::kInPlace, PrepareLowAdamW(kBf16)},
    {"AdamW8BitState", kBf16, 10, Floor::kInPlace, PrepareLowAdamW(DType::kUInt8)},
    {"AddSquares", kFp32, 4, Floor::kSumOfSquares, PrepareAddSquares},
    {"AddSquaresBf16", kBf16, 2, Floor::kSumOfSquares, PrepareAddSquares},
};

absl::Status RunCase(benchmark::State& state, const Case& test) {
  constexpr int64_t kSeq = 256;
  KernelBench bench;
  ZEROTH_RETURN_IF_ERROR(bench.Open("cpu"));
  const int64_t sequences = (state.range(0) << 20) / (test.bytes_per_element * kDim * kSeq);
  const Activations on = {
      "", std::max<int64_t>(1, sequences), kSeq, kDim, 12, 12, kDim, 50304, test.dtype, test.dtype};
  const int64_t bytes = on.rows() * kDim * test.bytes_per_element;
  ZEROTH_ASSIGN_OR_RETURN(const Op op, test.prepare(bench, on));
  ZEROTH_ASSIGN_OR_RETURN(const Op floor, PrepareFloor(bench, test.floor, bytes));
  const auto moved = static_cast<double>(bytes);
  return Compare(state, bench, op, {moved, "GB/s"}, floor, {moved, "floor_GB/s"});
}

// Returns the peak FLOP/s: the best of several rounds, since the machine may be busy in some.
absl::StatusOr<double> FmaPeak(KernelBench& bench) {
  double best = 0;
  for (int i = 0; i < 15; ++i) {
    double flops = 0;
    ZEROTH_ASSIGN_OR_RETURN(const double seconds, Seconds(bench, [&flops] {
                              flops = MultiplyAdd();
                              return absl::OkStatus();
                            }));
    best = std::max(best, flops / seconds);
  }
  return best;
}

// Alternates the prepared op (`flops` per call) with a square GEMM that measures the peak.
absl::Status CompareWithGemmPeak(benchmark::State& state, DType dtype, double flops,
                                 const std::function<absl::StatusOr<Op>(KernelBench&)>& prepare) {
  const Layer square = {"", "", kDim, kDim, kDim, /*gpt2=*/false};
  KernelBench bench;
  ZEROTH_RETURN_IF_ERROR(bench.Open("cpu"));
  ZEROTH_ASSIGN_OR_RETURN(GemmArgs peak, LayerGemm(bench, square, Pass::kForward, dtype));
  peak.transpose_b = false;
  ZEROTH_ASSIGN_OR_RETURN(const Op op, prepare(bench));
  ZEROTH_RETURN_IF_ERROR(Compare(state, bench, op, {flops, "GFLOP/s"},
                                 [&] { return kernels::Gemm(bench.kernels(), peak); },
                                 {square.flops(), "gemm_peak"}));
  if (dtype == kFp32) {
    ZEROTH_ASSIGN_OR_RETURN(const double fma_peak, FmaPeak(bench));
    state.counters["fma_peak"] = fma_peak * 1e-9;
  }
  return absl::OkStatus();
}

// Weights are [in, out] as in GPT-2, except for the last three, which are as in Llama. GEMMs of 256
// tokens do less work per weight read.
constexpr struct {
  Layer layer;
  Pass pass;
} kLayerGemms[] = {
    {{"", "qkv_forward", 1024, 768, 2304, true}, Pass::kForward},
    {{"", "attention_out_forward", 1024, 768, 768, true}, Pass::kForward},
    {{"", "mlp_up_forward", 1024, 768, 3072, true}, Pass::kForward},
    {{"", "mlp_up_gelu_forward", 1024, 768, 3072, true, true}, Pass::kForward},
    {{"", "mlp_down_forward", 1024, 3072, 768, true}, Pass::kForward},
    {{"", "qkv_dx", 1024, 768, 2304, true}, Pass::kInputGradient},
    {{"", "mlp_up_dx", 1024, 768, 3072, true}, Pass::kInputGradient},
    {{"", "mlp_down_dx", 1024, 3072, 768, true}, Pass::kInputGradient},
    {{"", "mlp_down_gelu_dx", 1024, 3072, 768, true, false, true}, Pass::kInputGradient},
    {{"", "qkv_dw", 1024, 768, 2304, true}, Pass::kWeightGradient},
    {{"", "mlp_up_dw", 1024, 768, 3072, true}, Pass::kWeightGradient},
    {{"", "mlp_down_dw", 1024, 3072, 768, true}, Pass::kWeightGradient},
    {{"", "qkv_forward_256", 256, 768, 2304, true}, Pass::kForward},
    {{"", "mlp_down_forward_256", 256, 3072, 768, true}, Pass::kForward},
    {{"", "mlp_up_dw_256", 256, 768, 3072, true}, Pass::kWeightGradient},
    {{"", "linear_out_in_forward", 1024, 768, 3072, false}, Pass::kForward},
    {{"", "linear_out_in_dx", 1024, 768, 3072, false}, Pass::kInputGradient},
    {{"", "linear_out_in_dw", 1024, 768, 3072, false}, Pass::kWeightGradient},
};

void RegisterComputeBound(DType dtype) {
  for (const auto& [layer, pass] : kLayerGemms) {
    Register(absl::StrCat("BM_Gemm/", layer.name, "_", DTypeName(dtype)),
             [=, &layer = layer, pass = pass](benchmark::State& state) {
               return CompareWithGemmPeak(
                   state, dtype, layer.flops(), [&](KernelBench& bench) -> absl::StatusOr<Op> {
                     ZEROTH_ASSIGN_OR_RETURN(GemmArgs args, LayerGemm(bench, layer, pass, dtype));
                     args.accumulate = pass == Pass::kWeightGradient;
                     return Op([&bench, args] { return kernels::Gemm(bench.kernels(), args); });
                   });
             });
  }
  for (const bool backward : {false, true}) {
    Register(absl::StrCat(backward ? "BM_AttentionBackward/" : "BM_Attention/", DTypeName(dtype)),
             [=](benchmark::State& state) {
               const AttentionShape shape{state.range(0), state.range(1), state.range(2),
                                          state.range(3), state.range(4), state.range(5)};
               return CompareWithGemmPeak(
                   state, dtype, AttentionFlops(shape, backward), [&](KernelBench& bench) {
                     return PrepareAttention(bench, bench.kernels(), shape, dtype, backward);
                   });
             })
        ->ArgNames({"batch", "seq", "heads", "kv_heads", "head_dim", "window"})
        ->Args({4, 256, 12, 12, 64, 0})
        ->Args({1, 1024, 12, 12, 64, 0})
        ->Args({1, 2048, 8, 2, 128, 0})
        ->Args({1, 4096, 8, 2, 128, 0})
        ->Args({1, 4096, 8, 2, 128, 1024})
        ->Args({1, 4096, 8, 2, 128, 256});
  }
  // The gate matrices of a Qwen3-30B-A3B layer, with 512 tokens routed to 8 of 128 experts each.
  const ExpertLayer experts = {512 * 8, 128, 2048, 768};
  for (const bool grouped : {true, false}) {
    Register(
        absl::StrCat(grouped ? "BM_Experts/grouped_" : "BM_Experts/one_by_one_", DTypeName(dtype)),
        [=](benchmark::State& state) {
          return CompareWithGemmPeak(state, dtype, experts.flops(), [&](KernelBench& bench) {
            return PrepareExperts(bench, experts, dtype, grouped);
          });
        });
  }
  Register(absl::StrCat("BM_LinearCrossEntropy/", DTypeName(dtype)),
           [=](benchmark::State& state) {
             const Loss loss = {state.range(0), state.range(1), state.range(2), true};
             return CompareWithGemmPeak(state, dtype, loss.flops(), [&](KernelBench& bench) {
               return PrepareLoss(bench, loss, dtype);
             });
           })
      ->ArgNames({"rows", "dim", "vocab"})
      ->Args({1024, 768, 50304})
      ->MinTime(4.0);
}

// Restores a matrix of `mib` MiB, the values and the packed bytes together.
absl::Status RunUnpack(benchmark::State& state, PackedFormat format, DType dtype) {
  PackedShape shape = {format, 1, 4 * kDim};
  shape.rows =
      static_cast<int64_t>(static_cast<double>(state.range(0) << 20) / UnpackBytes(shape, dtype));
  KernelBench bench;
  ZEROTH_RETURN_IF_ERROR(bench.Open("cpu"));
  ZEROTH_ASSIGN_OR_RETURN(const Op op, PrepareUnpack(bench, shape, dtype));
  const double moved = UnpackBytes(shape, dtype);
  ZEROTH_ASSIGN_OR_RETURN(const Op floor,
                          PrepareFloor(bench, Floor::kTriad, static_cast<int64_t>(moved)));
  return Compare(state, bench, op, {moved, "GB/s"}, floor, {moved, "floor_GB/s"});
}

absl::Status RunPackedLinear(benchmark::State& state, PackedFormat format, DType dtype) {
  const Layer layer = {"", "", state.range(0), kDim, 4 * kDim, /*gpt2=*/false};
  KernelBench bench;
  ZEROTH_RETURN_IF_ERROR(bench.Open("cpu"));
  ZEROTH_ASSIGN_OR_RETURN(const Op op, PreparePackedLinear(bench, layer, format, dtype));
  ZEROTH_ASSIGN_OR_RETURN(const GemmArgs full, LayerGemm(bench, layer, Pass::kForward, dtype));
  return Compare(state, bench, op, {layer.flops(), "GFLOP/s"},
                 [&] { return kernels::Gemm(bench.kernels(), full); },
                 {layer.flops(), "linear_GFLOP/s"});
}

void RegisterPacked(DType dtype) {
  for (const PackedFormat format : kPackedFormats) {
    const std::string name = absl::StrCat(PackedFormatName(format), "_", DTypeName(dtype));
    Register(absl::StrCat("BM_Unpack/", name),
             [=](benchmark::State& state) { return RunUnpack(state, format, dtype); })
        ->ArgName("MiB")
        ->Arg(12)
        ->Arg(768)
        ->Unit(benchmark::kMicrosecond);
    Register(absl::StrCat("BM_PackedLinear/", name),
             [=](benchmark::State& state) { return RunPackedLinear(state, format, dtype); })
        ->ArgName("tokens")
        ->Arg(256)
        ->Arg(1024);
  }
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& test : kCases) {
    Register(absl::StrCat("BM_", test.name),
             [&test](benchmark::State& state) { return RunCase(state, test); })
        ->ArgName("MiB")
        ->Arg(12)
        ->Arg(768)
        ->Unit(benchmark::kMicrosecond);
  }
  for (const DType dtype : {kFp32, kBf16}) {
    RegisterComputeBound(dtype);
    RegisterPacked(dtype);
  }
  return true;
}();

}  // namespace
}  // namespace zeroth
