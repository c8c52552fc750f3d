// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Prepares the kernels that the GEMM rate limits.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "zeroth/benchmarks/kernel_bench.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth {

absl::StatusOr<GemmArgs> LayerGemm(KernelBench& bench, const Layer& layer, Pass pass, DType dtype) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x, bench.Values(Shape({layer.tokens, layer.in}), dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor y, bench.Values(Shape({layer.tokens, layer.out}), dtype));
  GemmArgs args;
  if (pass == Pass::kWeightGradient) {
    args.a = layer.gpt2 ? x : y;
    args.b = layer.gpt2 ? y : x;
    args.transpose_a = true;
    ZEROTH_ASSIGN_OR_RETURN(args.c, bench.Zeros(layer.weight_shape(), DType::kFloat32));
    return args;
  }
  ZEROTH_ASSIGN_OR_RETURN(args.b, bench.Values(layer.weight_shape(), dtype, 0.02f));
  const bool forward = pass == Pass::kForward;
  args.a = forward ? x : y;
  args.c = forward ? y : x;
  args.transpose_b = layer.gpt2 != forward;
  if (forward && layer.gpt2) {
    ZEROTH_ASSIGN_OR_RETURN(args.bias, bench.Values(Shape({layer.out}), dtype));
  }
  if (forward && layer.before_gelu) {
    args.activation = Activation::kGelu;
    ZEROTH_ASSIGN_OR_RETURN(args.pre_activation, bench.Zeros(y.shape(), dtype));
  }
  if (!forward && layer.after_gelu) {
    ZEROTH_ASSIGN_OR_RETURN(args.gelu_input, bench.Values(x.shape(), dtype));
  }
  return args;
}

absl::StatusOr<Op> PrepareAttention(KernelBench& bench, Kernels& kernels,
                                    const AttentionShape& shape, DType dtype, bool backward) {
  AttentionArgs args;
  args.shape = shape;
  const Shape packed({shape.batch, shape.seq, shape.packed_dim()});
  const Shape out({shape.batch, shape.seq, shape.heads * shape.head_dim});
  ZEROTH_ASSIGN_OR_RETURN(args.qkv, bench.Values(packed, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.out, bench.Zeros(out, dtype));
  ZEROTH_ASSIGN_OR_RETURN(
      args.lse, bench.Zeros(Shape({shape.batch, shape.heads, shape.seq}), DType::kFloat32));
  if (!backward) return Op([&kernels, args] { return kernels::Attention(kernels, args); });
  ZEROTH_RETURN_IF_ERROR(kernels::Attention(kernels, args));
  AttentionBackwardArgs gradients;
  gradients.shape = shape;
  gradients.qkv = args.qkv;
  gradients.out = args.out;
  gradients.lse = args.lse;
  ZEROTH_ASSIGN_OR_RETURN(gradients.dout, bench.Values(out, dtype));
  ZEROTH_ASSIGN_OR_RETURN(gradients.dqkv, bench.Zeros(packed, dtype));
  return Op([&kernels, gradients] { return kernels::AttentionBackward(kernels, gradients); });
}

// Forward has two matmuls and backward five, each with 2 head_dim operations for every visible
// score.
double AttentionFlops(const AttentionShape& shape, bool backward) {
  const auto window = static_cast<double>(shape.window > 0 ? shape.window : shape.seq);
  const double seen = static_cast<double>(shape.seq) * window - window * (window - 1.0) / 2.0;
  return (backward ? 5.0 : 2.0) *
         static_cast<double>(2 * shape.batch * shape.heads * shape.head_dim) * seen;
}

absl::StatusOr<Op> PrepareExperts(KernelBench& bench, const ExpertLayer& layer, DType dtype,
                                  bool grouped) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench.Values(Shape({layer.rows, layer.in}), dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor c, bench.Zeros(Shape({layer.rows, layer.out}), dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor chosen, bench.Tokens(Shape({layer.rows}), layer.experts));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> experts, chosen.ToHost<int32_t>());
  std::vector<int32_t> offsets(static_cast<size_t>(layer.experts) + 1);
  for (const int32_t expert : experts) ++offsets[static_cast<size_t>(expert) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  GroupedGemmArgs args;
  ZEROTH_ASSIGN_OR_RETURN(
      args.offsets, Tensor::FromHost<int32_t>(bench.device(), Shape({layer.experts + 1}), offsets,
                                              MemoryCategory::kActivations));
  args.a = a;
  args.c = c;
  args.transpose_b = true;
  for (int64_t e = 0; e < layer.experts; ++e) {
    ZEROTH_ASSIGN_OR_RETURN(args.b.emplace_back(),
                            bench.Values(Shape({layer.out, layer.in}), dtype));
  }
  if (grouped) return Op([&bench, args] { return kernels::GroupedGemm(bench.kernels(), args); });
  return Op([&bench, args, a, c, offsets]() -> absl::Status {
    for (size_t e = 0; e < args.b.size(); ++e) {
      const int64_t rows = offsets[e + 1] - offsets[e];
      GemmArgs gemm;
      gemm.a = a.View(offsets[e] * a.dim(1), Shape({rows, a.dim(1)}));
      gemm.b = args.b[e];
      gemm.transpose_b = true;
      gemm.c = c.View(offsets[e] * c.dim(1), Shape({rows, c.dim(1)}));
      ZEROTH_RETURN_IF_ERROR(kernels::Gemm(bench.kernels(), gemm));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Op> PrepareLoss(KernelBench& bench, const Loss& loss, DType dtype) {
  const Shape hidden({loss.rows, loss.dim});
  const Shape weight({loss.vocab, loss.dim});
  LinearCrossEntropyArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.hidden, bench.Values(hidden, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.weight, bench.Values(weight, dtype, 0.02f));
  ZEROTH_ASSIGN_OR_RETURN(args.targets, bench.Tokens(Shape({loss.rows}), loss.vocab));
  ZEROTH_ASSIGN_OR_RETURN(args.loss, bench.Zeros(Shape({1}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(args.dhidden, bench.Zeros(hidden, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.dweight, bench.Zeros(weight, DType::kFloat32));
  args.accumulate_dweight = loss.accumulate;
  return Op([&bench, args] { return kernels::LinearCrossEntropy(bench.kernels(), args); });
}

}  // namespace zeroth
