// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels of a GPU that live on matrix products: the linear layers of three models, attention, and
// the output projection with its loss, at the shapes of one training step on one GPU.
//
// Columns: TFLOP/s of the best call; peak_TFLOP/s of a large square product of the same precision,
// measured in turn; ratio_to_floor, 1 being the floor. Causal attention counts the scores below the
// diagonal only. The loss's floor holds its products and one reading of fp32 logits and one writing
// of their bf16 gradients.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/cuda_bench.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth {
namespace {

constexpr DType kBf16 = DType::kBFloat16;

// A linear layer as a model has it.
struct Layer {
  const char* model;
  const char* name;
  int64_t tokens;
  int64_t in;
  int64_t out;
  bool gpt2;  // weights [in, out] and a bias; otherwise [out, in] and none
  Activation activation = Activation::kNone;
};

constexpr Layer kLayers[] = {
    {"gpt2_124m", "qkv", 65536, 768, 2304, true},
    {"gpt2_124m", "attention_out", 65536, 768, 768, true},
    {"gpt2_124m", "mlp_up", 65536, 768, 3072, true, Activation::kGelu},
    {"gpt2_124m", "mlp_down", 65536, 3072, 768, true},
    {"gpt2_1558m", "qkv", 16384, 1600, 4800, true},
    {"gpt2_1558m", "attention_out", 16384, 1600, 1600, true},
    {"gpt2_1558m", "mlp_up", 16384, 1600, 6400, true, Activation::kGelu},
    {"gpt2_1558m", "mlp_down", 16384, 6400, 1600, true},
    {"llama_1b", "query", 32768, 2048, 2048, false},
    {"llama_1b", "key", 32768, 2048, 256, false},
    {"llama_1b", "mlp_gate", 32768, 2048, 5632, false},
    {"llama_1b", "mlp_down", 32768, 5632, 2048, false},
};

enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };
constexpr const char* kPassNames[] = {"forward", "dx", "dw"};

// y = x w + bias; dx = dy w^T, times gelu' where the layer before ended in a GELU; dw = x^T dy in
// fp32.
absl::StatusOr<GemmArgs> LayerProduct(CudaBench& bench, const Layer& layer, Pass pass,
                                      DType dtype) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(Shape({layer.tokens, layer.in}), dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor y, bench.Values(Shape({layer.tokens, layer.out}), dtype));
  const Shape stored = layer.gpt2 ? Shape({layer.in, layer.out}) : Shape({layer.out, layer.in});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, bench.Values(stored, dtype, 0.02f));
  GemmArgs args;
  switch (pass) {
    case Pass::kForward:
      args.a = x;
      args.b = weight;
      args.transpose_b = !layer.gpt2;
      args.c = y;
      args.activation = layer.activation;
      if (layer.gpt2) {
        ZEROTH_ASSIGN_OR_RETURN(args.bias, bench.Values(Shape({layer.out}), dtype));
      }
      if (layer.activation == Activation::kGelu) {
        ZEROTH_ASSIGN_OR_RETURN(args.pre_activation, bench.Zeros(y.shape(), dtype));
      }
      break;
    case Pass::kInputGradient:
      args.a = y;
      args.b = weight;
      args.transpose_b = layer.gpt2;
      args.c = x;
      if (layer.gpt2 && absl::string_view(layer.name) == "mlp_down") {
        ZEROTH_ASSIGN_OR_RETURN(args.gelu_input, bench.Values(x.shape(), dtype));
      }
      break;
    case Pass::kWeightGradient:
      args.a = layer.gpt2 ? x : y;
      args.b = layer.gpt2 ? y : x;
      args.transpose_a = true;
      ZEROTH_ASSIGN_OR_RETURN(args.c, bench.Zeros(stored, DType::kFloat32));
      break;
  }
  return args;
}

double LayerFlops(const Layer& layer) {
  return 2.0 * static_cast<double>(layer.tokens * layer.in * layer.out);
}

absl::Status RunLayer(benchmark::State& state, const Layer& layer, Pass pass, Precision precision) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  const DType dtype = precision == Precision::kBFloat16 ? kBf16 : DType::kFloat32;
  ZEROTH_ASSIGN_OR_RETURN(const GemmArgs args, LayerProduct(*bench, layer, pass, dtype));
  Kernels& kernels = precision == Precision::kTf32 ? bench->tf32_kernels() : bench->kernels();
  return bench->Run(state, {LayerFlops(layer), 0, precision},
                    [&] { return kernels::Gemm(kernels, args); });
}

// The forward product of a layer in 8-bit floats: alone, against what a large one reaches, or with
// the casts that go before it, against a large product in bf16: above 1, the casts pay.
absl::Status RunLayerFp8(benchmark::State& state, const Layer& layer, bool with_casts) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench->Values(Shape({layer.tokens, layer.in}), kBf16));
  const Shape stored = layer.gpt2 ? Shape({layer.in, layer.out}) : Shape({layer.out, layer.in});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, bench->Values(stored, kBf16, 0.02f));
  ZEROTH_ASSIGN_OR_RETURN(CastFp8Args x_cast, bench->Fp8Cast(x, /*transposed=*/false));
  ZEROTH_ASSIGN_OR_RETURN(const CastFp8Args weight_cast, bench->Fp8Cast(weight, layer.gpt2));
  Fp8GemmArgs gemm;
  gemm.a = {x_cast.codes, x_cast.format, x_cast.scale};
  gemm.b = {layer.gpt2 ? weight_cast.codes_transposed : weight_cast.codes, weight_cast.format,
            weight_cast.scale};
  ZEROTH_ASSIGN_OR_RETURN(gemm.c, bench->Zeros(Shape({layer.tokens, layer.out}), kBf16));
  Kernels& kernels = bench->kernels();
  // For backward, which is why the input is cast both ways.
  ZEROTH_ASSIGN_OR_RETURN(
      x_cast.codes_transposed,
      bench->Zeros(Shape({layer.in, PaddedFp8Depth(layer.tokens)}), DType::kUInt8));
  const auto cast = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(kernels::CastFp8(kernels, x_cast));
    return kernels::CastFp8(kernels, weight_cast);
  };
  ZEROTH_RETURN_IF_ERROR(cast());
  const Precision floor = with_casts ? Precision::kBFloat16 : Precision::kFp8;
  return bench->Run(state, {LayerFlops(layer), 0, floor}, [&]() -> absl::Status {
    if (with_casts) ZEROTH_RETURN_IF_ERROR(cast());
    return kernels::Fp8Gemm(kernels, gemm);
  });
}

absl::Status RunSquare(benchmark::State& state, Precision precision) {
  constexpr int64_t kSide = 8192;
  const Layer layer = {"", "", kSide, kSide, kSide, /*gpt2=*/false};
  if (precision == Precision::kFp8) return RunLayerFp8(state, layer, /*with_casts=*/false);
  return RunLayer(state, layer, Pass::kForward, precision);
}

// Products of the scores' lower triangle, each of 2 head_dim operations an element: two in forward,
// five in backward.
double TriangleFlops(const AttentionShape& shape, double products) {
  const auto seq = static_cast<double>(shape.seq);
  return products * static_cast<double>(2 * shape.batch * shape.heads * shape.head_dim) * seq *
         (seq + 1.0) / 2.0;
}

absl::Status RunAttention(benchmark::State& state, const AttentionShape& shape, bool by_cudnn,
                          bool backward) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  Kernels& kernels = by_cudnn ? bench->cudnn_kernels() : bench->kernels();
  AttentionArgs args;
  args.shape = shape;
  const Shape packed({shape.batch, shape.seq, shape.packed_dim()});
  const Shape out({shape.batch, shape.seq, shape.heads * shape.head_dim});
  ZEROTH_ASSIGN_OR_RETURN(args.qkv, bench->Values(packed, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.out, bench->Zeros(out, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(
      args.lse, bench->Zeros(Shape({shape.batch, shape.heads, shape.seq}), DType::kFloat32));
  const auto forward = [&] { return kernels::Attention(kernels, args); };
  if (!backward) return bench->Run(state, {TriangleFlops(shape, 2.0)}, forward);
  ZEROTH_RETURN_IF_ERROR(forward());
  AttentionBackwardArgs gradients;
  gradients.shape = shape;
  gradients.qkv = args.qkv;
  gradients.out = args.out;
  gradients.lse = args.lse;
  ZEROTH_ASSIGN_OR_RETURN(gradients.dout, bench->Values(out, kBf16));
  ZEROTH_ASSIGN_OR_RETURN(gradients.dqkv, bench->Zeros(packed, kBf16));
  return bench->Run(state, {TriangleFlops(shape, 5.0)},
                    [&] { return kernels::AttentionBackward(kernels, gradients); });
}

absl::Status RunLoss(benchmark::State& state, int64_t rows, int64_t dim, int64_t vocab) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  LinearCrossEntropyArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.hidden, bench->Values(Shape({rows, dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.weight, bench->Values(Shape({vocab, dim}), kBf16, 0.02f));
  ZEROTH_ASSIGN_OR_RETURN(args.targets, bench->Tokens(Shape({rows}), vocab));
  ZEROTH_ASSIGN_OR_RETURN(args.loss, bench->Zeros(Shape({1}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(args.dhidden, bench->Zeros(Shape({rows, dim}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(args.dweight, bench->Zeros(Shape({vocab, dim}), DType::kFloat32));
  Work work;
  work.flops = 6.0 * static_cast<double>(rows * dim * vocab);
  work.bytes = static_cast<double>(rows * vocab) * (4 + 2);
  return bench->Run(state, work,
                    [&] { return kernels::LinearCrossEntropy(bench->kernels(), args); });
}

void Register(const std::string& name, std::function<absl::Status(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [run](benchmark::State& state) { SkipOnError(state, run(state)); })
      ->UseManualTime()
      ->Iterations(20)
      ->Unit(benchmark::kMillisecond);
}

void RegisterLayers() {
  for (const Layer& layer : kLayers) {
    for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
      const std::string name =
          absl::StrCat(layer.model, "/", layer.name, "_", kPassNames[static_cast<size_t>(pass)]);
      Register(absl::StrCat("BM_GemmBf16/", name), [layer, pass](benchmark::State& state) {
        return RunLayer(state, layer, pass, Precision::kBFloat16);
      });
      Register(absl::StrCat("BM_GemmFp32/", name), [layer, pass](benchmark::State& state) {
        return RunLayer(state, layer, pass, Precision::kFloat32);
      });
    }
    Register(absl::StrCat("BM_GemmTf32/", layer.model, "/", layer.name, "_forward"),
             [layer](benchmark::State& state) {
               return RunLayer(state, layer, Pass::kForward, Precision::kTf32);
             });
    Register(absl::StrCat("BM_GemmFp8/", layer.model, "/", layer.name, "_forward"),
             [layer](benchmark::State& state) { return RunLayerFp8(state, layer, false); });
    Register(absl::StrCat("BM_LinearFp8/", layer.model, "/", layer.name, "_forward"),
             [layer](benchmark::State& state) { return RunLayerFp8(state, layer, true); });
  }
}

void RegisterAttention(const std::string& model, const AttentionShape& shape) {
  for (const bool by_cudnn : {false, true}) {
    for (const bool backward : {false, true}) {
      Register(
          absl::StrCat(backward ? "BM_AttentionBackward/" : "BM_Attention/",
                       by_cudnn ? "cudnn/" : "flash/", model),
          [=](benchmark::State& state) { return RunAttention(state, shape, by_cudnn, backward); });
    }
  }
}

void RegisterLoss(const std::string& model, int64_t rows, int64_t dim, int64_t vocab) {
  Register("BM_LinearCrossEntropy/" + model,
           [=](benchmark::State& state) { return RunLoss(state, rows, dim, vocab); });
}

[[maybe_unused]] const bool registered = [] {
  Register("BM_SquareGemm/bf16",
           [](benchmark::State& state) { return RunSquare(state, Precision::kBFloat16); });
  Register("BM_SquareGemm/tf32",
           [](benchmark::State& state) { return RunSquare(state, Precision::kTf32); });
  Register("BM_SquareGemm/fp8",
           [](benchmark::State& state) { return RunSquare(state, Precision::kFp8); });
  Register("BM_SquareGemm/fp32",
           [](benchmark::State& state) { return RunSquare(state, Precision::kFloat32); });
  RegisterLayers();
  RegisterAttention("gpt2_124m", {64, 1024, 12, 12, 64});
  RegisterAttention("gpt2_1558m", {16, 1024, 25, 25, 64});
  RegisterAttention("llama_1b", {16, 2048, 32, 4, 64});
  RegisterAttention("head_dim_128", {8, 4096, 16, 4, 128});
  RegisterLoss("gpt2_124m", 65536, 768, 50304);
  RegisterLoss("gpt2_1558m", 16384, 1600, 50304);
  RegisterLoss("llama_1b", 32768, 2048, 32000);
  return true;
}();

}  // namespace
}  // namespace zeroth
