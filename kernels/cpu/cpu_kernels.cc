// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/cpu_kernels.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw_coefficients.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/basic/basic_cpu.h"
#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/cpu/adamw.h"
#include "zeroth/kernels/cpu/attention.h"
#include "zeroth/kernels/cpu/cast.h"
#include "zeroth/kernels/cpu/clip_factor.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/elementwise.h"
#include "zeroth/kernels/cpu/embedding.h"
#include "zeroth/kernels/cpu/fp8.h"
#include "zeroth/kernels/cpu/gelu.h"
#include "zeroth/kernels/cpu/gemm.h"
#include "zeroth/kernels/cpu/gemm_epilogue.h"
#include "zeroth/kernels/cpu/linear_cross_entropy.h"
#include "zeroth/kernels/cpu/norm.h"
#include "zeroth/kernels/cpu/quantize.h"
#include "zeroth/kernels/cpu/sum_of_squares.h"
#include "zeroth/kernels/cpu/swiglu.h"
#include "zeroth/kernels/validation.h"

namespace zeroth::cpu {
namespace {

// Null for a tensor that is not wanted.
float* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<float>() : nullptr;
}

void* RawDataOrNull(const Tensor& tensor) { return tensor.defined() ? tensor.raw_data() : nullptr; }

// The fields that both norms have.
template <typename Args>
NormCall CommonCall(const Args& args) {
  const Matrix x(args.x);
  NormCall call;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.x = args.x.raw_data();
  call.residual = RawDataOrNull(args.residual);
  call.sum = RawDataOrNull(args.sum);
  call.gamma = args.gamma.raw_data();
  call.eps = args.eps;
  call.y = args.y.raw_data();
  call.rstd = args.rstd.template data<float>();
  return call;
}

template <typename Args>
NormBackwardCall CommonBackwardCall(const Args& args) {
  const Matrix x(args.x);
  NormBackwardCall call;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.dy = args.dy.raw_data();
  call.x = args.x.raw_data();
  call.gamma = args.gamma.raw_data();
  call.rstd = args.rstd.template data<float>();
  call.dx = args.dx.raw_data();
  call.accumulate_dx = args.accumulate_dx;
  if (args.dgamma.defined()) call.grad_dtype = args.dgamma.dtype();
  call.dgamma = RawDataOrNull(args.dgamma);
  call.accumulate_dgamma = args.accumulate_dgamma;
  return call;
}

RowGradients RowGradientsOf(const Tensor& dout, const Tensor& gradient, bool accumulate) {
  RowGradients rows;
  rows.dim = gradient.dim(1);
  rows.dtype = dout.dtype();
  rows.dout = dout.raw_data();
  rows.accumulate = accumulate;
  rows.grad_dtype = gradient.dtype();
  rows.gradient = gradient.raw_data();
  return rows;
}

}  // namespace

CpuKernels::CpuKernels(Device& device, CpuStream& stream)
    : device_(device),
      stream_(stream),
      workspace_(device.allocator()),
      gemm_workspace_(device.allocator()),
      rope_table_(device.allocator()) {}

CpuKernels::~CpuKernels() {
  // An error of the stream has its own reader.
  stream_.Synchronize().IgnoreError();
}

absl::Status CpuKernels::Gemm(const GemmArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateGemm(device_, args));
  return stream_.Enqueue([this, args] {
    GemmCall call;
    call.m = args.c.rows;
    call.n = args.c.cols;
    call.k = args.transpose_a ? args.a.rows : args.a.cols;
    call.dtype = args.a.tensor.dtype();
    call.c_dtype = args.c.tensor.dtype();
    call.a = args.a.raw_data();
    call.lda = args.a.stride;
    call.transpose_a = args.transpose_a;
    call.b = args.b.raw_data();
    call.ldb = args.b.stride;
    call.transpose_b = args.transpose_b;
    call.c = args.c.raw_data();
    call.ldc = args.c.stride;
    call.accumulate = args.accumulate;
    call.bias = RawDataOrNull(args.bias);
    call.activation = args.activation;
    call.pre_activation = RawDataOrNull(args.pre_activation);
    call.gelu_input = RawDataOrNull(args.gelu_input);
    call.any_team = device_.options().bits_of_any_team;
    return cpu::Gemm(call, gemm_workspace_);
  });
}

absl::Status CpuKernels::BiasGradient(const Matrix& dy, const Tensor& dbias, bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidateBiasGradient(device_, dy, dbias));
  return stream_.Enqueue([this, dy, dbias, accumulate] {
    return ColumnSum(dy.rows, dy.cols, dy.stride, dy.tensor.dtype(), dy.raw_data(), accumulate,
                     dbias.dtype(), dbias.raw_data(), workspace_);
  });
}

absl::Status CpuKernels::Embedding(const Tensor& tokens, const Tensor& table,
                                   const Tensor& positions, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmbedding(device_, tokens, table, positions, out));
  return stream_.Enqueue([tokens, table, positions, out] {
    const int64_t batch = tokens.dim(0);
    const int64_t seq = tokens.dim(1);
    ZEROTH_RETURN_IF_ERROR(
        CheckTokens("Embedding", batch, seq, table.dim(0), tokens.data<int32_t>()));
    cpu::Embedding(batch, seq, table.dim(1), tokens.data<int32_t>(), table.dtype(),
                   table.raw_data(), RawDataOrNull(positions), out.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::EmbeddingBackward(const Tensor& tokens, const Tensor& dout,
                                           const Tensor& dtable, bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmbeddingBackward(device_, tokens, dout, dtable));
  return stream_.Enqueue([this, tokens, dout, dtable, accumulate] {
    ZEROTH_RETURN_IF_ERROR(CheckTokens("EmbeddingBackward", tokens.dim(0), tokens.dim(1),
                                       dtable.dim(0), tokens.data<int32_t>()));
    return cpu::EmbeddingBackward(tokens.numel(), dtable.dim(0), tokens.data<int32_t>(),
                                  RowGradientsOf(dout, dtable, accumulate), workspace_);
  });
}

absl::Status CpuKernels::PositionBackward(const Tensor& dout, const Tensor& dpositions,
                                          bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidatePositionBackward(device_, dout, dpositions));
  return stream_.Enqueue([dout, dpositions, accumulate] {
    cpu::PositionBackward(dout.dim(0), dout.dim(1), dpositions.dim(0),
                          RowGradientsOf(dout, dpositions, accumulate));
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::LayerNorm(const LayerNormArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLayerNorm(device_, args));
  return stream_.Enqueue([args] {
    NormCall call = CommonCall(args);
    call.beta = args.beta.raw_data();
    call.mean = args.mean.data<float>();
    cpu::LayerNorm(call);
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::LayerNormBackward(const LayerNormBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLayerNormBackward(device_, args));
  return stream_.Enqueue([this, args] {
    NormBackwardCall call = CommonBackwardCall(args);
    call.mean = args.mean.data<float>();
    if (args.dbeta.defined()) call.grad_dtype = args.dbeta.dtype();
    call.dbeta = RawDataOrNull(args.dbeta);
    call.accumulate_dbeta = args.accumulate_dbeta;
    return cpu::LayerNormBackward(call, workspace_);
  });
}

absl::Status CpuKernels::RmsNorm(const RmsNormArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRmsNorm(device_, args));
  return stream_.Enqueue([args] {
    cpu::RmsNorm(CommonCall(args));
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::RmsNormBackward(const RmsNormBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRmsNormBackward(device_, args));
  return stream_.Enqueue(
      [this, args] { return cpu::RmsNormBackward(CommonBackwardCall(args), workspace_); });
}

absl::Status CpuKernels::Rope(const RopeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRope(device_, args));
  return stream_.Enqueue([this, args] {
    ZEROTH_RETURN_IF_ERROR(rope_table_.Prepare(args.shape.seq, args.shape.head_dim, args.theta));
    cpu::Rope(args.shape, rope_table_, args.inverse, args.qkv.dtype(), args.qkv.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Attention(const AttentionArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateAttention(device_, args));
  return stream_.Enqueue([this, args] {
    AttentionCall call;
    call.shape = args.shape;
    call.dtype = args.qkv.dtype();
    call.qkv = args.qkv.raw_data();
    call.out = args.out.raw_data();
    call.lse = DataOrNull(args.lse);
    return AttentionForward(call, workspace_);
  });
}

absl::Status CpuKernels::AttentionBackward(const AttentionBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateAttentionBackward(device_, args));
  return stream_.Enqueue([this, args] {
    AttentionBackwardCall call;
    call.shape = args.shape;
    call.dtype = args.qkv.dtype();
    call.dout = args.dout.raw_data();
    call.qkv = args.qkv.raw_data();
    call.out = args.out.raw_data();
    call.lse = args.lse.data<float>();
    call.dqkv = args.dqkv.raw_data();
    return cpu::AttentionBackward(call, workspace_);
  });
}

absl::StatusOr<std::string> CpuKernels::DescribeAttention(const AttentionShape& /*shape*/,
                                                          DType /*dtype*/) {
  return std::string();
}

absl::Status CpuKernels::Gelu(const Tensor& x, const Tensor& y) {
  ZEROTH_RETURN_IF_ERROR(ValidateGelu(device_, x, y));
  return stream_.Enqueue([x, y] {
    cpu::Gelu(x.numel(), x.dtype(), x.raw_data(), y.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::GeluBackward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  ZEROTH_RETURN_IF_ERROR(ValidateGeluBackward(device_, x, dy, dx));
  return stream_.Enqueue([x, dy, dx] {
    cpu::GeluBackward(x.numel(), x.dtype(), x.raw_data(), dy.raw_data(), dx.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::SwiGlu(const Tensor& gate_up, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateSwiGlu(device_, gate_up, out));
  return stream_.Enqueue([gate_up, out] {
    const Matrix flat(out);
    cpu::SwiGlu(flat.rows, flat.cols, out.dtype(), gate_up.raw_data(), out.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::SwiGluBackward(const Tensor& gate_up, const Tensor& dout,
                                        const Tensor& dgate_up) {
  ZEROTH_RETURN_IF_ERROR(ValidateSwiGluBackward(device_, gate_up, dout, dgate_up));
  return stream_.Enqueue([gate_up, dout, dgate_up] {
    const Matrix flat(dout);
    cpu::SwiGluBackward(flat.rows, flat.cols, dout.dtype(), gate_up.raw_data(), dout.raw_data(),
                        dgate_up.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Basic(const BasicArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateBasic(device_, args));
  return stream_.Enqueue([args] {
    cpu::Basic(CallOf(args));
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Add(const Tensor& a, const Tensor& b, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdd(device_, a, b, out));
  return stream_.Enqueue([a, b, out] {
    cpu::Add(a.numel(), a.dtype(), a.raw_data(), b.raw_data(), out.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Scale(const Tensor& x, float factor) {
  ZEROTH_RETURN_IF_ERROR(ValidateScale(device_, x));
  return stream_.Enqueue([x, factor] {
    cpu::Scale(x.numel(), factor, x.dtype(), x.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Lerp(const Tensor& x, const Tensor& target, float weight) {
  ZEROTH_RETURN_IF_ERROR(ValidateLerp(device_, x, target));
  return stream_.Enqueue([x, target, weight] {
    cpu::Lerp(x.numel(), weight, x.dtype(), target.raw_data(), x.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Cast(const Tensor& src, const Tensor& dst) {
  ZEROTH_RETURN_IF_ERROR(ValidateCast(device_, src, dst));
  return stream_.Enqueue([src, dst] {
    cpu::Cast(src.numel(), src.dtype(), src.raw_data(), dst.dtype(), dst.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Quantize(const QuantizeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateQuantize(device_, args));
  return stream_.Enqueue([args] {
    cpu::Quantize({args.values.numel(), args.block}, args.values.dtype(), args.values.raw_data(),
                  args.quantized.data<uint8_t>());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::Dequantize(const DequantizeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateDequantize(device_, args));
  return stream_.Enqueue([args] {
    cpu::Dequantize({args.values.numel() / args.pieces, args.block}, args.pieces,
                    args.quantized.data<uint8_t>(), args.values.dtype(), args.values.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::SumQuantized(const SumQuantizedArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateSumQuantized(device_, args));
  return stream_.Enqueue([args] {
    cpu::SumQuantized({args.sum.numel(), args.block}, args.pieces, args.quantized.data<uint8_t>(),
                      args.mean, args.accumulate, args.sum.dtype(), args.sum.raw_data());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::LinearCrossEntropy(const LinearCrossEntropyArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLinearCrossEntropy(device_, args));
  return stream_.Enqueue([this, args] {
    const Matrix hidden(args.hidden);
    LinearCrossEntropyCall call;
    call.rows = hidden.rows;
    call.dim = hidden.cols;
    call.vocab = args.weight.dim(0);
    call.dtype = args.hidden.dtype();
    call.hidden = args.hidden.raw_data();
    call.weight = args.weight.raw_data();
    call.targets = args.targets.data<int32_t>();
    call.loss = args.loss.data<float>();
    call.dhidden = RawDataOrNull(args.dhidden);
    call.dweight = RawDataOrNull(args.dweight);
    if (args.dweight.defined()) call.grad_dtype = args.dweight.dtype();
    call.accumulate_dweight = args.accumulate_dweight;
    call.grad_scale = args.grad_scale;
    call.any_team = device_.options().bits_of_any_team;
    return cpu::LinearCrossEntropy(call, workspace_, gemm_workspace_);
  });
}

namespace {

// What counts now, the factor on the device included.
AdamWCoefficients CurrentCoefficients(const AdamWArgs& args) {
  AdamWCoefficients coefficients;
  if (args.coefficients.defined()) {
    std::memcpy(&coefficients, args.coefficients.raw_data(), sizeof(coefficients));
  } else {
    coefficients = DeriveAdamWCoefficients(args);
  }
  if (args.grad_factor.defined()) coefficients.grad_scale *= *args.grad_factor.data<float>();
  return coefficients;
}

cpu::AdamWCall CallOf(const AdamWArgs& args, const AdamWCoefficients& coefficients) {
  cpu::AdamWCall call;
  call.count = args.param.numel();
  call.coefficients = coefficients;
  call.param_dtype = args.param.dtype();
  call.grad_dtype = args.grad.dtype();
  call.moment_dtype = args.m.dtype();
  call.param = args.param.raw_data();
  call.grad = args.grad.raw_data();
  call.m = args.m.raw_data();
  call.v = args.v.raw_data();
  call.m_scale = static_cast<float*>(RawDataOrNull(args.m_scale));
  call.v_scale = static_cast<float*>(RawDataOrNull(args.v_scale));
  call.stream = args.stream;
  call.first_element = args.first_element;
  return call;
}

}  // namespace

absl::Status CpuKernels::AdamW(absl::Span<const AdamWArgs> ranges) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdamW(device_, ranges));
  return stream_.Enqueue([ranges = std::vector<AdamWArgs>(ranges.begin(), ranges.end())] {
    std::vector<cpu::AdamWCall> calls;
    calls.reserve(ranges.size());
    for (const AdamWArgs& args : ranges) {
      const AdamWCoefficients coefficients = CurrentCoefficients(args);
      if (std::isnan(coefficients.grad_scale)) continue;  // a step to be skipped
      calls.push_back(CallOf(args, coefficients));
    }
    cpu::AdamW(calls);
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::AddSquares(absl::Span<const Tensor> xs, const Tensor& sum) {
  ZEROTH_RETURN_IF_ERROR(ValidateAddSquares(device_, xs, sum));
  return stream_.Enqueue([xs = std::vector<Tensor>(xs.begin(), xs.end()), sum] {
    cpu::AddSquares(CallsOf(xs), sum.data<int64_t>());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::ClipFactor(const Tensor& sum, double scale, double max_norm,
                                    const Tensor& norm_and_factor) {
  ZEROTH_RETURN_IF_ERROR(ValidateClipFactor(device_, sum, scale, max_norm, norm_and_factor));
  return stream_.Enqueue([sum, scale, max_norm, norm_and_factor] {
    cpu::ClipFactor(sum.data<int64_t>(), scale, max_norm, norm_and_factor.data<float>());
    return absl::OkStatus();
  });
}

absl::Status CpuKernels::CastFp8(const CastFp8Args& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateCastFp8(device_, args));
  return stream_.Enqueue([this, args] { return cpu::CastFp8(CallOf(args), workspace_); });
}

absl::Status CpuKernels::Fp8Gemm(const Fp8GemmArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateFp8Gemm(device_, args));
  return stream_.Enqueue([this, args] {
    Fp8GemmCall call;
    call.m = args.c.rows;
    call.n = args.c.cols;
    call.k = args.a.codes.dim(1);
    call.a = args.a.codes.data<uint8_t>();
    call.a_format = args.a.format;
    call.b = args.b.codes.data<uint8_t>();
    call.b_format = args.b.format;
    call.scale = args.a.scale.data<float>()[0] * args.b.scale.data<float>()[0];
    call.c_dtype = args.c.tensor.dtype();
    call.c = args.c.raw_data();
    call.ldc = args.c.stride;
    call.accumulate = args.accumulate;
    call.bias = RawDataOrNull(args.bias);
    call.any_team = device_.options().bits_of_any_team;
    return cpu::Fp8Gemm(call, workspace_, gemm_workspace_);
  });
}

namespace {

absl::StatusOr<std::unique_ptr<Kernels>> CreateCpuKernels(Device& device, Stream& stream,
                                                          const KernelOptions&) {
  return std::make_unique<CpuKernels>(device, CpuStream::From(stream));
}

const KernelRegistration registration("cpu", CreateCpuKernels);

}  // namespace
}  // namespace zeroth::cpu
