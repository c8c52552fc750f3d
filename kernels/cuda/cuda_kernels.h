// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_CUDA_KERNELS_H_
#define ZEROTH_KERNELS_CUDA_CUDA_KERNELS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/cuda/attention_choice.h"
#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/cudnn.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cuda {

// The kernels of a GPU: checks a call, then enqueues what the functions of this folder launch.
// Registered for device type "cuda".
class CudaKernels final : public Kernels {
 public:
  // Both outlive the result. Unimplemented for TF32 on a GPU before Ampere.
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(CudaDevice& device, CudaStream& stream,
                                                         const KernelOptions& options = {});

  Stream& stream() override { return stream_; }

  absl::Status Gemm(const GemmArgs& args) override;
  std::vector<std::string> SlowProducts() const override;
  absl::Status BiasGradient(const Matrix& dy, const Tensor& dbias, bool accumulate) override;
  absl::Status Embedding(const Tensor& tokens, const Tensor& table, const Tensor& positions,
                         const Tensor& out) override;
  absl::Status EmbeddingBackward(const Tensor& tokens, const Tensor& dout, const Tensor& dtable,
                                 bool accumulate) override;
  absl::Status PositionBackward(const Tensor& dout, const Tensor& dpositions,
                                bool accumulate) override;
  absl::Status LayerNorm(const LayerNormArgs& args) override;
  absl::Status LayerNormBackward(const LayerNormBackwardArgs& args) override;
  absl::Status RmsNorm(const RmsNormArgs& args) override;
  absl::Status RmsNormBackward(const RmsNormBackwardArgs& args) override;
  absl::Status Rope(const RopeArgs& args) override;
  absl::Status Attention(const AttentionArgs& args) override;
  absl::Status AttentionBackward(const AttentionBackwardArgs& args) override;
  absl::StatusOr<std::string> DescribeAttention(const AttentionShape& shape, DType dtype) override;
  absl::Status Gelu(const Tensor& x, const Tensor& y) override;
  absl::Status GeluBackward(const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  absl::Status SwiGlu(const Tensor& gate_up, const Tensor& out) override;
  absl::Status SwiGluBackward(const Tensor& gate_up, const Tensor& dout,
                              const Tensor& dgate_up) override;
  absl::Status Basic(const BasicArgs& args) override;
  absl::Status Add(const Tensor& a, const Tensor& b, const Tensor& out) override;
  absl::Status Scale(const Tensor& x, float factor) override;
  absl::Status Lerp(const Tensor& x, const Tensor& target, float weight) override;
  absl::Status Cast(const Tensor& src, const Tensor& dst) override;
  absl::Status Quantize(const QuantizeArgs& args) override;
  absl::Status Dequantize(const DequantizeArgs& args) override;
  absl::Status SumQuantized(const SumQuantizedArgs& args) override;
  absl::Status LinearCrossEntropy(const LinearCrossEntropyArgs& args) override;
  using Kernels::AdamW;
  absl::Status AdamW(absl::Span<const AdamWArgs> ranges) override;
  using Kernels::AddSquares;
  absl::Status AddSquares(absl::Span<const Tensor> xs, const Tensor& sum) override;
  absl::Status ClipFactor(const Tensor& sum, double scale, double max_norm,
                          const Tensor& norm_and_factor) override;
  absl::Status SupportsFp8() const override;
  absl::Status CastFp8(const CastFp8Args& args) override;
  absl::Status Fp8Gemm(const Fp8GemmArgs& args) override;

 private:
  CudaKernels(CudaDevice& device, CudaStream& stream, const KernelOptions& options);

  // Ends a call: an error fails the stream, and on side streams `tensors` and scratch are kept
  // until it has passed.
  template <typename... Tensors>
  absl::Status Finish(const absl::Status& launched, const Tensors&... tensors);
  // Scratch for what this call enqueues, which ends with Finish().
  absl::StatusOr<std::shared_ptr<Buffer>> Scratch(size_t bytes);
  // Made at the first product: streams that only round have no need of it.
  absl::StatusOr<CublasLt*> Blas();
  absl::Status PrepareRopeTable(const RopeArgs& args);
  // Enqueues attention by cuDNN and returns true, or returns false if our own kernels compute it.
  absl::StatusOr<bool> AttendByCudnn(const CudnnAttentionKey& key, CudnnAttentionPointers pointers);

  CudaDevice& device_;
  CudaStream& stream_;
  const CublasLtOptions blas_options_;
  const LaunchTarget target_;
  std::unique_ptr<CublasLt> blas_;
  AttentionChoice attention_;
  std::shared_ptr<Buffer> scratch_;  // of this call, on side streams
  std::shared_ptr<Buffer> rope_table_;
  int64_t rope_seq_ = 0;
  int64_t rope_head_dim_ = 0;
  float rope_theta_ = 0;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_CUDA_KERNELS_H_
