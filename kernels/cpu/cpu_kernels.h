// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_CPU_KERNELS_H_
#define ZEROTH_KERNELS_CPU_CPU_KERNELS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/cpu/rope.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// The kernels of the CPU: checks a call, then enqueues the function of this folder that does the
// work. Registered for device type "cpu". The destructor waits for what is enqueued, because it
// uses this object's workspace.
class CpuKernels final : public Kernels {
 public:
  // Both must outlive this object.
  CpuKernels(Device& device, CpuStream& stream);
  ~CpuKernels() override;

  Stream& stream() override { return stream_; }

  absl::Status Gemm(const GemmArgs& args) override;
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
  absl::Status SupportsFp8() const override { return absl::OkStatus(); }
  absl::Status CastFp8(const CastFp8Args& args) override;
  absl::Status Fp8Gemm(const Fp8GemmArgs& args) override;

 private:
  Device& device_;
  CpuStream& stream_;
  // Of whatever runs now: work on one stream never overlaps.
  Workspace workspace_;
  Workspace gemm_workspace_;  // apart, because the fused loss calls products
  RopeTable rope_table_;
};

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_CPU_KERNELS_H_
