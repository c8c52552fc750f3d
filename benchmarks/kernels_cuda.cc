// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A GPU's kernels with the shapes of one training step of four models on one GPU. Each is measured
// in alternation with its floors: a large square GEMM of the same precision, and a copy of 512 MiB.
//
// Memory-bound kernels run in bf16. GB/s of the best call counts the bytes that must be read and
// written; copy_GB/s is the same for the copy. Kernels that read more than they write may exceed
// it. GEMMs, attention and the output projection with its loss have TFLOP/s of the best call and
// peak_TFLOP/s. Causal attention counts only scores below the diagonal. The loss's floor consists
// of its GEMMs, reading fp32 logits once, and writing their bf16 gradients once.
//
// ratio_to_floor: the floor's time divided by that of the best call; 1 is the floor.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/cuda_bench.h"
#include "zeroth/benchmarks/kernel_bench.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp32 = DType::kFloat32;

constexpr Activations kModels[] = {
    {"gpt2_124m", 64, 1024, 768, 12, 12, 3072, 50304},
    {"llama_1b", 16, 2048, 2048, 32, 4, 5632, 32000},
    {"llama3_8b", 1, 8192, 4096, 32, 8, 14336, 128256},
};

// A memory-bound kernel, and the bytes that it must move for the activations.
struct Case {
  const char* name;
  DType dtype;
  double (*bytes)(const Activations& on);
  Prepare prepare;
};

double Bytes(double bytes, int64_t rows, int64_t columns) {
  return bytes * static_cast<double>(rows * columns);
}
// Return kBytes for each element of [rows, dim], and of [rows, hidden].
template <int kBytes>
double OfDim(const Activations& on) {
  return Bytes(kBytes, on.rows(), on.dim);
}
template <int kBytes>
double OfHidden(const Activations& on) {
  return Bytes(kBytes, on.rows(), on.hidden);
}
double OfHeads(const Activations& on) {
  return Bytes(4, on.rows(), (on.heads + on.kv_heads) * (on.dim / on.heads));
}
// Return the bytes of dout and of an fp32 gradient that is written entirely.
double WithTable(const Activations& on) { return OfDim<2>(on) + Bytes(4, on.vocab, on.dim); }
double WithPositions(const Activations& on) { return OfDim<2>(on) + Bytes(4, on.seq, on.dim); }

const Case kCases[] = {
    {"Add", kBf16, OfDim<6>, PrepareAdd},
    {"Scale", kBf16, OfDim<4>, PrepareScale},
    {"CastFp32ToBf16", kBf16, OfDim<6>, PrepareCast(kFp32, kBf16)},
    {"Gelu", kBf16, OfHidden<4>, PrepareGelu},
    {"GeluBackward", kBf16, OfHidden<6>, PrepareGeluBackward},
    {"SwiGlu", kBf16, OfHidden<6>, PrepareSwiGlu},
    {"SwiGluBackward", kBf16, OfHidden<10>, PrepareSwiGluBackward},
    {"LayerNormResidual", kBf16, OfDim<8>, PrepareLayerNorm},
    {"LayerNormBackward", kBf16, OfDim<8>, PrepareLayerNormBackward(true)},
    {"RmsNormResidual", kBf16, OfDim<8>, PrepareRmsNorm},
    {"RmsNormBackward", kBf16, OfDim<8>, PrepareRmsNormBackward(true)},
    {"Rope", kBf16, OfHeads, PrepareRope},
    {"Embedding", kBf16, OfDim<4>, PrepareEmbedding(true)},
    {"EmbeddingBackward", kBf16, WithTable, PrepareEmbeddingBackward(false)},
    {"PositionBackward", kBf16, WithPositions, PreparePositionBackward},
    {"BiasGradient", kBf16, OfHidden<2>, PrepareBiasGradient},
    {"AdamW", kFp32, OfDim<28>, PrepareAdamW},
    {"AdamWRanges", kFp32, OfDim<28>, PrepareAdamWRanges(0, false)},
    {"AdamWRangesOneByOne", kFp32, OfDim<28>, PrepareAdamWRanges(0, true)},
    {"AdamWBf16State", kBf16, OfDim<14>, PrepareLowAdamW(kBf16)},
    {"AdamW8BitState", kBf16, OfDim<10>, PrepareLowAdamW(DType::kUInt8)},
    {"AddSquares", kFp32, OfDim<4>, PrepareAddSquares},
};

absl::Status RunCase(benchmark::State& state, const Case& test, Activations on) {
  on.dtype = test.dtype;
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Op op, test.prepare(*bench, on));
  return bench->Run(state, {/*flops=*/0, test.bytes(on)}, op);
}

constexpr Layer kLayers[] = {
    {"gpt2_124m", "qkv", 65536, 768, 2304, true},
    {"gpt2_124m", "attention_out", 65536, 768, 768, true},
    {"gpt2_124m", "mlp_up", 65536, 768, 3072, true, true},
    {"gpt2_124m", "mlp_down", 65536, 3072, 768, true, false, true},
    {"gpt2_1558m", "qkv", 16384, 1600, 4800, true},
    {"gpt2_1558m", "attention_out", 16384, 1600, 1600, true},
    {"gpt2_1558m", "mlp_up", 16384, 1600, 6400, true, true},
    {"gpt2_1558m", "mlp_down", 16384, 6400, 1600, true, false, true},
    {"llama_1b", "query", 32768, 2048, 2048, false},
    {"llama_1b", "key", 32768, 2048, 256, false},
    {"llama_1b", "mlp_gate", 32768, 2048, 5632, false},
    {"llama_1b", "mlp_down", 32768, 5632, 2048, false},
    {"llama3_8b", "query", 8192, 4096, 4096, false},
    {"llama3_8b", "key", 8192, 4096, 1024, false},
    {"llama3_8b", "mlp_gate", 8192, 4096, 14336, false},
    {"llama3_8b", "mlp_down", 8192, 14336, 4096, false},
};

absl::Status RunLayer(benchmark::State& state, const Layer& layer, Pass pass, Precision precision) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  const DType dtype = precision == Precision::kBFloat16 ? kBf16 : kFp32;
  ZEROTH_ASSIGN_OR_RETURN(const GemmArgs args, LayerGemm(*bench, layer, pass, dtype));
  return bench->Run(state, {layer.flops(), 0, precision},
                    [&] { return kernels::Gemm(bench->KernelsFor(precision), args); });
}

// Runs a layer's forward GEMM in 8-bit floats. Without casts it is compared with a large GEMM in
// 8-bit floats. With its casts it is compared with a large GEMM in bf16: above 1, the casts pay.
absl::Status RunLayerFp8(benchmark::State& state, const Layer& layer, bool with_casts) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench->Values(Shape({layer.tokens, layer.in}), kBf16));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, bench->Values(layer.weight_shape(), kBf16, 0.02f));
  ZEROTH_ASSIGN_OR_RETURN(CastFp8Args x_cast, bench->Fp8Cast(x, /*transposed=*/false));
  ZEROTH_ASSIGN_OR_RETURN(const CastFp8Args weight_cast, bench->Fp8Cast(weight, layer.gpt2));
  Fp8GemmArgs gemm;
  gemm.a = {x_cast.codes, x_cast.format, x_cast.scale};
  gemm.b = {layer.gpt2 ? weight_cast.codes_transposed : weight_cast.codes, weight_cast.format,
            weight_cast.scale};
  ZEROTH_ASSIGN_OR_RETURN(gemm.c, bench->Zeros(Shape({layer.tokens, layer.out}), kBf16));
  // The input is also cast transposed, because backward needs that.
  ZEROTH_ASSIGN_OR_RETURN(
      x_cast.codes_transposed,
      bench->Zeros(Shape({layer.in, PaddedFp8Depth(layer.tokens)}), DType::kUInt8));
  const auto cast = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(kernels::CastFp8(bench->kernels(), x_cast));
    return kernels::CastFp8(bench->kernels(), weight_cast);
  };
  ZEROTH_RETURN_IF_ERROR(cast());
  const Precision floor = with_casts ? Precision::kBFloat16 : Precision::kFp8;
  return bench->Run(state, {layer.flops(), 0, floor}, [&]() -> absl::Status {
    if (with_casts) ZEROTH_RETURN_IF_ERROR(cast());
    return kernels::Fp8Gemm(bench->kernels(), gemm);
  });
}

// Restores a layer's weights from few bits. If `with_gemm`, the layer's forward GEMM follows, and
// the floor is the sum of both floors.
absl::Status RunPacked(benchmark::State& state, const Layer& layer, PackedFormat format,
                       bool with_gemm) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  const PackedShape shape = {format, layer.out, layer.in};
  ZEROTH_ASSIGN_OR_RETURN(const Op op, with_gemm ? PreparePackedLinear(*bench, layer, format, kBf16)
                                                 : PrepareUnpack(*bench, shape, kBf16));
  return bench->Run(state, {with_gemm ? layer.flops() : 0, UnpackBytes(shape, kBf16)}, op);
}

absl::Status RunAttention(benchmark::State& state, const AttentionShape& shape, bool by_cudnn,
                          bool backward) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  Kernels& kernels = by_cudnn ? bench->cudnn_kernels() : bench->kernels();
  ZEROTH_ASSIGN_OR_RETURN(const Op op, PrepareAttention(*bench, kernels, shape, kBf16, backward));
  return bench->Run(state, {AttentionFlops(shape, backward)}, op);
}

absl::Status RunExperts(benchmark::State& state, const ExpertLayer& layer, bool grouped) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Op op, PrepareExperts(*bench, layer, kBf16, grouped));
  return bench->Run(state, {layer.flops()}, op);
}

absl::Status RunLoss(benchmark::State& state, const Loss& loss) {
  ZEROTH_ASSIGN_OR_RETURN(CudaBench* const bench, CudaBench::Get());
  ZEROTH_ASSIGN_OR_RETURN(const Op op, PrepareLoss(*bench, loss, kBf16));
  return bench->Run(state, {loss.flops(), Bytes(4 + 2, loss.rows, loss.vocab)}, op);
}

void RegisterOnGpu(const std::string& name, std::function<absl::Status(benchmark::State&)> run) {
  Register(name, std::move(run))->Iterations(20);
}

void RegisterLayers() {
  for (const Layer& layer : kLayers) {
    const std::string name = absl::StrCat(layer.model, "/", layer.name);
    const auto register_gemm = [&](const char* precision_name, const char* pass_name, Pass pass,
                                   Precision precision) {
      RegisterOnGpu(absl::StrCat("BM_Gemm", precision_name, "/", name, pass_name),
                    [=](auto& state) { return RunLayer(state, layer, pass, precision); });
    };
    for (const auto& [pass_name, pass] :
         {std::pair("_forward", Pass::kForward), std::pair("_dx", Pass::kInputGradient),
          std::pair("_dw", Pass::kWeightGradient)}) {
      register_gemm("Bf16", pass_name, pass, Precision::kBFloat16);
      register_gemm("Fp32", pass_name, pass, Precision::kFloat32);
    }
    register_gemm("Tf32", "_forward", Pass::kForward, Precision::kTf32);
    for (const bool with_casts : {false, true}) {
      RegisterOnGpu(absl::StrCat(with_casts ? "BM_LinearFp8/" : "BM_GemmFp8/", name, "_forward"),
                    [=](auto& state) { return RunLayerFp8(state, layer, with_casts); });
    }
  }
}

void RegisterPacked() {
  for (const Layer& layer : kLayers) {
    if (layer.gpt2) continue;
    for (const PackedFormat format : kPackedFormats) {
      for (const bool with_gemm : {false, true}) {
        RegisterOnGpu(absl::StrCat(with_gemm ? "BM_PackedLinear/" : "BM_Unpack/", layer.model, "/",
                                   layer.name, "_", PackedFormatName(format)),
                      [=](auto& state) { return RunPacked(state, layer, format, with_gemm); });
      }
    }
  }
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& test : kCases) {
    for (const Activations& on : kModels) {
      RegisterOnGpu(absl::StrCat("BM_", test.name, "/", on.model),
                    [&](auto& state) { return RunCase(state, test, on); });
    }
  }
  constexpr Layer kSquare = {"", "", 8192, 8192, 8192, /*gpt2=*/false};
  for (const auto& [name, precision] :
       {std::pair("bf16", Precision::kBFloat16), std::pair("tf32", Precision::kTf32),
        std::pair("fp32", Precision::kFloat32)}) {
    RegisterOnGpu(absl::StrCat("BM_SquareGemm/", name), [=, precision = precision](auto& state) {
      return RunLayer(state, kSquare, Pass::kForward, precision);
    });
  }
  RegisterOnGpu("BM_SquareGemm/fp8",
                [=](auto& state) { return RunLayerFp8(state, kSquare, false); });
  RegisterLayers();
  RegisterPacked();
  for (const auto& [model, shape] : {std::pair("gpt2_124m", AttentionShape{64, 1024, 12, 12, 64}),
                                     std::pair("gpt2_1558m", AttentionShape{16, 1024, 25, 25, 64}),
                                     std::pair("llama_1b", AttentionShape{16, 2048, 32, 4, 64}),
                                     std::pair("llama3_8b", AttentionShape{1, 8192, 32, 8, 128})}) {
    for (const bool by_cudnn : {false, true}) {
      for (const bool backward : {false, true}) {
        RegisterOnGpu(absl::StrCat(backward ? "BM_AttentionBackward/" : "BM_Attention/",
                                   by_cudnn ? "cudnn/" : "flash/", model),
                      [=, shape = shape](auto& state) {
                        return RunAttention(state, shape, by_cudnn, backward);
                      });
      }
    }
  }
  // The gate matrices of a Qwen3-30B-A3B layer, with 8192 tokens routed to 8 of 128 experts each.
  constexpr ExpertLayer kExperts = {8192 * 8, 128, 2048, 768};
  for (const bool grouped : {true, false}) {
    RegisterOnGpu(grouped ? "BM_Experts/grouped" : "BM_Experts/one_by_one",
                  [=](auto& state) { return RunExperts(state, kExperts, grouped); });
  }
  for (const auto& [model, loss] :
       {std::pair("gpt2_124m", Loss{65536, 768, 50304}),
        std::pair("gpt2_124m_vocabulary_50257", Loss{65536, 768, 50257}),
        std::pair("gpt2_1558m", Loss{16384, 1600, 50304}),
        std::pair("llama_1b", Loss{32768, 2048, 32000}),
        std::pair("llama3_8b", Loss{8192, 4096, 128256})}) {
    RegisterOnGpu(absl::StrCat("BM_LinearCrossEntropy/", model),
                  [loss = loss](auto& state) { return RunLoss(state, loss); });
  }
  return true;
}();

}  // namespace
}  // namespace zeroth
