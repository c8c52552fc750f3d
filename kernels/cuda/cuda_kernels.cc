// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw_coefficients.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/basic/basic_cuda.h"
#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/cuda/adamw.h"
#include "zeroth/kernels/cuda/attention.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/elementwise.h"
#include "zeroth/kernels/cuda/embedding.h"
#include "zeroth/kernels/cuda/fp8.h"
#include "zeroth/kernels/cuda/fp8_gemm.h"
#include "zeroth/kernels/cuda/gemm.h"
#include "zeroth/kernels/cuda/linear_cross_entropy.h"
#include "zeroth/kernels/cuda/norm.h"
#include "zeroth/kernels/cuda/quantize.h"
#include "zeroth/kernels/cuda/rope.h"
#include "zeroth/kernels/cuda/sum_of_squares.h"
#include "zeroth/kernels/validation.h"

namespace zeroth::cuda {
namespace {

// Older devices have no TF32, where cuBLASLt would multiply in fp32 and say nothing.
constexpr int kLeastTf32Capability = 80;
constexpr int kLeastFp8Capability = 89;
// Between the arrays of one scratch buffer.
constexpr size_t kScratchAlignment = 256;

void* DataOrNull(const Tensor& tensor) { return tensor.defined() ? tensor.raw_data() : nullptr; }
float* FloatsOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<float>() : nullptr;
}

// The fields that both norms have.
template <typename Args>
NormCall CommonCall(const Args& args) {
  const Matrix x(args.x);
  NormCall call;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.x = args.x.raw_data();
  call.residual = DataOrNull(args.residual);
  call.sum = DataOrNull(args.sum);
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
  call.dgamma = DataOrNull(args.dgamma);
  call.accumulate_dgamma = args.accumulate_dgamma;
  return call;
}

}  // namespace

CudaKernels::CudaKernels(CudaDevice& device, CudaStream& stream, const KernelOptions& options)
    : device_(device),
      stream_(stream),
      blas_options_{.allow_tf32 = options.fp32_precision == Fp32Precision::kTf32,
                    .allow_slow_kernels = options.allow_slow_kernels},
      target_{stream.handle(), device.properties().multiprocessors},
      attention_(options.attention, [this] {
        return Cudnn::Create(stream_.handle(), device_.properties().compute_capability);
      }) {}

absl::StatusOr<std::unique_ptr<Kernels>> CudaKernels::Create(CudaDevice& device, CudaStream& stream,
                                                             const KernelOptions& options) {
  const int capability = device.properties().compute_capability;
  if (options.fp32_precision == Fp32Precision::kTf32 && capability < kLeastTf32Capability) {
    return absl::UnimplementedError(absl::StrCat(
        "fp32_precision = tf32: ", device.name(), " has compute capability ", capability / 10, ".",
        capability % 10, ", and TF32 begins with 8.0; expected ieee, fp32 products in fp32"));
  }
  return std::unique_ptr<Kernels>(new CudaKernels(device, stream, options));
}

template <typename... Tensors>
absl::Status CudaKernels::Finish(const absl::Status& launched, const Tensors&... tensors) {
  ZEROTH_RETURN_IF_ERROR(stream_.Update(launched));
  if (stream_.is_compute()) return absl::OkStatus();
  for (const Tensor* tensor : {&tensors...}) {
    if (tensor->defined()) stream_.Retain(tensor->buffer());
  }
  if (scratch_ != nullptr) stream_.Retain(std::exchange(scratch_, nullptr));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Buffer>> CudaKernels::Scratch(size_t bytes) {
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                          device_.allocator().Allocate(bytes, MemoryCategory::kWorkspace));
  if (stream_.is_compute()) return buffer;
  // What the compute stream may still do with this memory comes first.
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> free, device_.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(stream_.Wait(free));
  scratch_ = buffer;
  return buffer;
}

absl::StatusOr<CublasLt*> CudaKernels::Blas() {
  if (blas_ == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(blas_,
                            CublasLt::Create(stream_.handle(), device_.allocator(), blas_options_));
  }
  return blas_.get();
}

std::vector<std::string> CudaKernels::SlowProducts() const {
  if (blas_ == nullptr) return {};
  return {blas_->slow_products().begin(), blas_->slow_products().end()};
}

absl::Status CudaKernels::Gemm(const GemmArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateGemm(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
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
  call.bias = DataOrNull(args.bias);
  call.activation = args.activation;
  call.pre_activation = DataOrNull(args.pre_activation);
  call.gelu_input = DataOrNull(args.gelu_input);
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, Blas());
  return Finish(cuda::Gemm(call, *blas, target_), args.a.tensor, args.b.tensor, args.c.tensor,
                args.bias, args.pre_activation, args.gelu_input);
}

absl::Status CudaKernels::BiasGradient(const Matrix& dy, const Tensor& dbias, bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidateBiasGradient(device_, dy, dbias));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      Scratch(static_cast<size_t>(ColumnSumScratch(dy.rows, dy.cols, 1)) * sizeof(float)));
  return Finish(
      ColumnSum(dy.rows, dy.cols, dy.stride, dy.tensor.dtype(), dy.raw_data(), accumulate,
                dbias.dtype(), dbias.raw_data(), static_cast<float*>(scratch->data()), target_),
      dy.tensor, dbias);
}

absl::Status CudaKernels::Embedding(const Tensor& tokens, const Tensor& table,
                                    const Tensor& positions, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmbedding(device_, tokens, table, positions, out));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  EmbeddingCall call;
  call.batch = tokens.dim(0);
  call.seq = tokens.dim(1);
  call.vocab = table.dim(0);
  call.dim = table.dim(1);
  call.dtype = table.dtype();
  call.tokens = tokens.data<int32_t>();
  call.table = table.raw_data();
  call.positions = DataOrNull(positions);
  call.out = out.raw_data();
  call.error = stream_.data_error();
  return Finish(cuda::Embedding(call, target_), tokens, table, positions, out);
}

absl::Status CudaKernels::EmbeddingBackward(const Tensor& tokens, const Tensor& dout,
                                            const Tensor& dtable, bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmbeddingBackward(device_, tokens, dout, dtable));
  EmbeddingBackwardCall call;
  call.places = tokens.numel();
  call.seq = std::max<int64_t>(tokens.dim(1), 1);
  call.vocab = dtable.dim(0);
  call.dim = dtable.dim(1);
  call.dtype = dout.dtype();
  call.tokens = tokens.data<int32_t>();
  call.dout = dout.raw_data();
  call.grad_dtype = dtable.dtype();
  call.dtable = dtable.raw_data();
  call.accumulate = accumulate;
  call.error = stream_.data_error();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      Scratch(static_cast<size_t>(EmbeddingBackwardScratch(call.places)) * sizeof(int32_t)));
  call.scratch = static_cast<int32_t*>(scratch->data());
  return Finish(cuda::EmbeddingBackward(call, target_), tokens, dout, dtable);
}

absl::Status CudaKernels::PositionBackward(const Tensor& dout, const Tensor& dpositions,
                                           bool accumulate) {
  ZEROTH_RETURN_IF_ERROR(ValidatePositionBackward(device_, dout, dpositions));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(
      cuda::PositionBackward(dout.dim(0), dout.dim(1), dpositions.dim(0), dpositions.dim(1),
                             dout.dtype(), dout.raw_data(), dpositions.dtype(),
                             dpositions.raw_data(), accumulate, target_),
      dout, dpositions);
}

absl::Status CudaKernels::LayerNorm(const LayerNormArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLayerNorm(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  NormCall call = CommonCall(args);
  call.beta = args.beta.raw_data();
  call.mean = args.mean.data<float>();
  return Finish(Norm(call, target_), args.x, args.residual, args.sum, args.gamma, args.beta, args.y,
                args.mean, args.rstd);
}

absl::Status CudaKernels::LayerNormBackward(const LayerNormBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLayerNormBackward(device_, args));
  NormBackwardCall call = CommonBackwardCall(args);
  call.mean = args.mean.data<float>();
  if (args.dbeta.defined()) call.grad_dtype = args.dbeta.dtype();
  call.dbeta = DataOrNull(args.dbeta);
  call.accumulate_dbeta = args.accumulate_dbeta;
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      Scratch(static_cast<size_t>(ColumnSumScratch(call.rows, call.dim, 2)) * sizeof(float)));
  call.scratch = static_cast<float*>(scratch->data());
  return Finish(NormBackward(call, target_), args.dy, args.x, args.gamma, args.mean, args.rstd,
                args.dx, args.dgamma, args.dbeta);
}

absl::Status CudaKernels::RmsNorm(const RmsNormArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRmsNorm(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(Norm(CommonCall(args), target_), args.x, args.residual, args.sum, args.gamma,
                args.y, args.rstd);
}

absl::Status CudaKernels::RmsNormBackward(const RmsNormBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRmsNormBackward(device_, args));
  NormBackwardCall call = CommonBackwardCall(args);
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      Scratch(static_cast<size_t>(ColumnSumScratch(call.rows, call.dim, 2)) * sizeof(float)));
  call.scratch = static_cast<float*>(scratch->data());
  return Finish(NormBackward(call, target_), args.dy, args.x, args.gamma, args.rstd, args.dx,
                args.dgamma);
}

absl::Status CudaKernels::PrepareRopeTable(const RopeArgs& args) {
  const AttentionShape& shape = args.shape;
  if (rope_table_ != nullptr && rope_seq_ >= shape.seq && rope_head_dim_ == shape.head_dim &&
      rope_theta_ == args.theta) {
    return absl::OkStatus();
  }
  ZEROTH_ASSIGN_OR_RETURN(rope_table_,
                          Scratch(static_cast<size_t>(shape.seq * shape.head_dim) * sizeof(float)));
  rope_seq_ = shape.seq;
  rope_head_dim_ = shape.head_dim;
  rope_theta_ = args.theta;
  return stream_.Update(RopeTable(shape.seq, shape.head_dim, args.theta,
                                  static_cast<float*>(rope_table_->data()), target_));
}

absl::Status CudaKernels::Rope(const RopeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateRope(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  ZEROTH_RETURN_IF_ERROR(PrepareRopeTable(args));
  RopeCall call;
  call.batch = args.shape.batch;
  call.seq = args.shape.seq;
  call.heads = args.shape.heads + args.shape.kv_heads;
  call.head_dim = args.shape.head_dim;
  call.packed_dim = args.shape.packed_dim();
  call.dtype = args.qkv.dtype();
  call.qkv = args.qkv.raw_data();
  call.inverse = args.inverse;
  call.table = static_cast<const float*>(rope_table_->data());
  return Finish(cuda::Rope(call, target_), args.qkv);
}

absl::StatusOr<bool> CudaKernels::AttendByCudnn(const CudnnAttentionKey& key,
                                                CudnnAttentionPointers pointers) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<size_t> workspace,
                          attention_.CudnnWorkspace(key, pointers));
  if (!workspace.has_value()) return false;
  // cuDNN's forward always has somewhere to write its statistics.
  const AttentionShape& shape = key.shape;
  const size_t lse_bytes =
      pointers.lse != nullptr
          ? 0
          : static_cast<size_t>(shape.batch * shape.heads * shape.seq) * sizeof(float);
  const size_t lse_offset =
      (*workspace + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch, Scratch(lse_offset + lse_bytes));
  char* const memory = static_cast<char*>(scratch->data());
  if (lse_bytes > 0) pointers.lse = reinterpret_cast<float*>(memory + lse_offset);
  ZEROTH_RETURN_IF_ERROR(stream_.Update(attention_.EnqueueCudnn(key, pointers, memory)));
  return true;
}

absl::StatusOr<std::string> CudaKernels::DescribeAttention(const AttentionShape& shape,
                                                           DType dtype) {
  return attention_.Describe(shape, dtype);
}

absl::Status CudaKernels::Attention(const AttentionArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateAttention(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  CudnnAttentionPointers pointers;
  pointers.qkv = args.qkv.raw_data();
  pointers.out = args.out.raw_data();
  pointers.lse = FloatsOrNull(args.lse);
  ZEROTH_ASSIGN_OR_RETURN(
      const bool by_cudnn,
      AttendByCudnn({args.shape, args.qkv.dtype(), AttentionPass::kForward}, pointers));
  if (by_cudnn) return Finish(absl::OkStatus(), args.qkv, args.out, args.lse);
  AttentionCall call;
  call.shape = args.shape;
  call.dtype = args.qkv.dtype();
  call.qkv = args.qkv.raw_data();
  call.out = args.out.raw_data();
  call.lse = FloatsOrNull(args.lse);
  return Finish(cuda::Attention(call, target_), args.qkv, args.out, args.lse);
}

absl::Status CudaKernels::AttentionBackward(const AttentionBackwardArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateAttentionBackward(device_, args));
  CudnnAttentionPointers pointers;
  pointers.qkv = args.qkv.raw_data();
  pointers.out = args.out.raw_data();
  pointers.lse = args.lse.data<float>();
  pointers.dout = args.dout.raw_data();
  pointers.dqkv = args.dqkv.raw_data();
  ZEROTH_ASSIGN_OR_RETURN(
      const bool by_cudnn,
      AttendByCudnn({args.shape, args.qkv.dtype(), AttentionPass::kBackward}, pointers));
  if (by_cudnn) {
    return Finish(absl::OkStatus(), args.dout, args.qkv, args.out, args.lse, args.dqkv);
  }
  AttentionBackwardCall call;
  call.shape = args.shape;
  call.dtype = args.qkv.dtype();
  call.dout = args.dout.raw_data();
  call.qkv = args.qkv.raw_data();
  call.out = args.out.raw_data();
  call.lse = args.lse.data<float>();
  call.dqkv = args.dqkv.raw_data();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      Scratch(static_cast<size_t>(AttentionBackwardScratch(args.shape)) * sizeof(float)));
  call.scratch = static_cast<float*>(scratch->data());
  return Finish(cuda::AttentionBackward(call, target_), args.dout, args.qkv, args.out, args.lse,
                args.dqkv);
}

absl::Status CudaKernels::Gelu(const Tensor& x, const Tensor& y) {
  ZEROTH_RETURN_IF_ERROR(ValidateGelu(device_, x, y));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Gelu(x.numel(), x.dtype(), x.raw_data(), y.raw_data(), target_), x, y);
}

absl::Status CudaKernels::GeluBackward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  ZEROTH_RETURN_IF_ERROR(ValidateGeluBackward(device_, x, dy, dx));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(
      cuda::GeluBackward(x.numel(), x.dtype(), x.raw_data(), dy.raw_data(), dx.raw_data(), target_),
      x, dy, dx);
}

absl::Status CudaKernels::SwiGlu(const Tensor& gate_up, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateSwiGlu(device_, gate_up, out));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  const Matrix flat(out);
  return Finish(
      cuda::SwiGlu(flat.rows, flat.cols, out.dtype(), gate_up.raw_data(), out.raw_data(), target_),
      gate_up, out);
}

absl::Status CudaKernels::SwiGluBackward(const Tensor& gate_up, const Tensor& dout,
                                         const Tensor& dgate_up) {
  ZEROTH_RETURN_IF_ERROR(ValidateSwiGluBackward(device_, gate_up, dout, dgate_up));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  const Matrix flat(dout);
  return Finish(cuda::SwiGluBackward(flat.rows, flat.cols, dout.dtype(), gate_up.raw_data(),
                                     dout.raw_data(), dgate_up.raw_data(), target_),
                gate_up, dout, dgate_up);
}

absl::Status CudaKernels::Basic(const BasicArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateBasic(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Basic(CallOf(args), target_), args.a.tensor, args.b.tensor, args.out.tensor);
}

absl::Status CudaKernels::Add(const Tensor& a, const Tensor& b, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdd(device_, a, b, out));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(
      cuda::Add(a.numel(), a.dtype(), a.raw_data(), b.raw_data(), out.raw_data(), target_), a, b,
      out);
}

absl::Status CudaKernels::Scale(const Tensor& x, float factor) {
  ZEROTH_RETURN_IF_ERROR(ValidateScale(device_, x));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Scale(x.numel(), x.dtype(), x.raw_data(), factor, target_), x);
}

absl::Status CudaKernels::Lerp(const Tensor& x, const Tensor& target, float weight) {
  ZEROTH_RETURN_IF_ERROR(ValidateLerp(device_, x, target));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Lerp(x.numel(), x.dtype(), x.raw_data(), target.raw_data(), weight, target_),
                x, target);
}

absl::Status CudaKernels::Cast(const Tensor& src, const Tensor& dst) {
  ZEROTH_RETURN_IF_ERROR(ValidateCast(device_, src, dst));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(
      cuda::Cast(src.numel(), src.raw_data(), src.dtype(), dst.raw_data(), dst.dtype(), target_),
      src, dst);
}

absl::Status CudaKernels::Quantize(const QuantizeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateQuantize(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Quantize({args.values.numel(), args.block}, args.values.dtype(),
                               args.values.raw_data(), args.quantized.data<uint8_t>(), target_),
                args.values, args.quantized);
}

absl::Status CudaKernels::Dequantize(const DequantizeArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateDequantize(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::Dequantize({args.values.numel() / args.pieces, args.block}, args.pieces,
                                 args.quantized.data<uint8_t>(), args.values.dtype(),
                                 args.values.raw_data(), target_),
                args.quantized, args.values);
}

absl::Status CudaKernels::SumQuantized(const SumQuantizedArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateSumQuantized(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::SumQuantized({args.sum.numel(), args.block}, args.pieces,
                                   args.quantized.data<uint8_t>(), args.mean, args.accumulate,
                                   args.sum.dtype(), args.sum.raw_data(), target_),
                args.quantized, args.sum);
}

absl::Status CudaKernels::LinearCrossEntropy(const LinearCrossEntropyArgs& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateLinearCrossEntropy(device_, args));
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
  call.dhidden = DataOrNull(args.dhidden);
  if (args.dweight.defined()) call.grad_dtype = args.dweight.dtype();
  call.dweight = DataOrNull(args.dweight);
  call.accumulate_dweight = args.accumulate_dweight;
  call.grad_scale = args.grad_scale;
  call.error = stream_.data_error();
  call.shared_bytes = device_.properties().shared_bytes_per_block;
  const LossPlan plan = PlanLoss(call);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch, Scratch(plan.scratch_bytes));
  call.scratch = scratch->data();
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, Blas());
  return Finish(cuda::LinearCrossEntropy(call, plan, *blas, target_), args.hidden, args.weight,
                args.targets, args.loss, args.dhidden, args.dweight);
}

namespace {

AdamWCall CallOf(const AdamWArgs& args) {
  AdamWCall call;
  call.count = args.param.numel();
  if (args.coefficients.defined()) {
    call.on_device = static_cast<const AdamWCoefficients*>(args.coefficients.raw_data());
  } else {
    call.coefficients = DeriveAdamWCoefficients(args);
  }
  call.grad_factor = FloatsOrNull(args.grad_factor);
  call.param_dtype = args.param.dtype();
  call.grad_dtype = args.grad.dtype();
  call.moment_dtype = args.m.dtype();
  call.param = args.param.raw_data();
  call.grad = args.grad.raw_data();
  call.m = args.m.raw_data();
  call.v = args.v.raw_data();
  call.m_scale = FloatsOrNull(args.m_scale);
  call.v_scale = FloatsOrNull(args.v_scale);
  call.stream = args.stream;
  call.first_element = args.first_element;
  return call;
}

}  // namespace

absl::Status CudaKernels::AdamW(absl::Span<const AdamWArgs> ranges) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdamW(device_, ranges));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  std::vector<AdamWCall> calls;
  calls.reserve(ranges.size());
  for (const AdamWArgs& args : ranges) calls.push_back(CallOf(args));
  ZEROTH_RETURN_IF_ERROR(stream_.Update(cuda::AdamW(calls, target_)));
  for (const AdamWArgs& args : ranges) {
    ZEROTH_RETURN_IF_ERROR(Finish(absl::OkStatus(), args.param, args.grad, args.m, args.v,
                                  args.m_scale, args.v_scale, args.grad_factor, args.coefficients));
  }
  return absl::OkStatus();
}

absl::Status CudaKernels::AddSquares(absl::Span<const Tensor> xs, const Tensor& sum) {
  ZEROTH_RETURN_IF_ERROR(ValidateAddSquares(device_, xs, sum));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  ZEROTH_RETURN_IF_ERROR(Finish(cuda::AddSquares(CallsOf(xs), sum.data<int64_t>(), target_), sum));
  for (const Tensor& x : xs) ZEROTH_RETURN_IF_ERROR(Finish(absl::OkStatus(), x));
  return absl::OkStatus();
}

absl::Status CudaKernels::ClipFactor(const Tensor& sum, double scale, double max_norm,
                                     const Tensor& norm_and_factor) {
  ZEROTH_RETURN_IF_ERROR(ValidateClipFactor(device_, sum, scale, max_norm, norm_and_factor));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::ClipFactor(sum.data<int64_t>(), scale, max_norm,
                                 norm_and_factor.data<float>(), target_),
                sum, norm_and_factor);
}

absl::Status CudaKernels::SupportsFp8() const {
  const int capability = device_.properties().compute_capability;
  if (capability >= kLeastFp8Capability) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      device_.name(), " has compute capability ", capability / 10, ".", capability % 10,
      ", and products of 8-bit floats begin with 8.9 (Ada) and 9.0 (Hopper)"));
}

absl::Status CudaKernels::CastFp8(const CastFp8Args& args) {
  ZEROTH_RETURN_IF_ERROR(ValidateCastFp8(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  return Finish(cuda::CastFp8(CallOf(args), target_), args.values.tensor, args.codes,
                args.codes_transposed, args.scale);
}

absl::Status CudaKernels::Fp8Gemm(const Fp8GemmArgs& args) {
  ZEROTH_RETURN_IF_ERROR(SupportsFp8());
  ZEROTH_RETURN_IF_ERROR(ValidateFp8Gemm(device_, args));
  ZEROTH_RETURN_IF_ERROR(stream_.status());
  Fp8GemmCall call;
  call.m = args.c.rows;
  call.n = args.c.cols;
  call.k = args.a.codes.dim(1);
  call.a = args.a.codes.raw_data();
  call.a_format = args.a.format;
  call.a_scale = args.a.scale.data<float>();
  call.b = args.b.codes.raw_data();
  call.b_format = args.b.format;
  call.b_scale = args.b.scale.data<float>();
  call.c_dtype = args.c.tensor.dtype();
  call.c = args.c.raw_data();
  call.ldc = args.c.stride;
  call.accumulate = args.accumulate;
  call.bias = DataOrNull(args.bias);
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, Blas());
  return Finish(cuda::Fp8Gemm(call, *blas, target_), args.a.codes, args.a.scale, args.b.codes,
                args.b.scale, args.c.tensor, args.bias);
}

namespace {

const KernelRegistration registration(
    "cuda",
    [](Device& device, Stream& stream,
       const KernelOptions& options) -> absl::StatusOr<std::unique_ptr<Kernels>> {
      return CudaKernels::Create(CudaDevice::From(device), CudaStream::From(stream), options);
    },
    {.tf32 = true, .cudnn = true, .slow_kernels = true});

}  // namespace
}  // namespace zeroth::cuda
