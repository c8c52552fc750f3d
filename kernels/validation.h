// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The checks of shapes, dtypes and devices that every implementation of Kernels makes first, so
// that all of them refuse the same calls in the same words: "Gemm: c is [2, 3], expected [2, 4]".

#ifndef ZEROTH_KERNELS_VALIDATION_H_
#define ZEROTH_KERNELS_VALIDATION_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// OK, or InvalidArgument naming the operation and the field. Tensors must be on `device`, the
// kernels' own. Values of tokens and targets lie on the device and are left to the kernels.
absl::Status ValidateGemm(const Device& device, const GemmArgs& args);
absl::Status ValidateBiasGradient(const Device& device, const Matrix& dy, const Tensor& dbias);
absl::Status ValidateEmbedding(const Device& device, const Tensor& tokens, const Tensor& table,
                               const Tensor& positions, const Tensor& out);
absl::Status ValidateEmbeddingBackward(const Device& device, const Tensor& tokens,
                                       const Tensor& dout, const Tensor& dtable);
absl::Status ValidatePositionBackward(const Device& device, const Tensor& dout,
                                      const Tensor& dpositions);
absl::Status ValidateLayerNorm(const Device& device, const LayerNormArgs& args);
absl::Status ValidateLayerNormBackward(const Device& device, const LayerNormBackwardArgs& args);
absl::Status ValidateRmsNorm(const Device& device, const RmsNormArgs& args);
absl::Status ValidateRmsNormBackward(const Device& device, const RmsNormBackwardArgs& args);
absl::Status ValidateRope(const Device& device, const RopeArgs& args);
absl::Status ValidateAttention(const Device& device, const AttentionArgs& args);
absl::Status ValidateAttentionBackward(const Device& device, const AttentionBackwardArgs& args);
absl::Status ValidateGelu(const Device& device, const Tensor& x, const Tensor& y);
absl::Status ValidateGeluBackward(const Device& device, const Tensor& x, const Tensor& dy,
                                  const Tensor& dx);
absl::Status ValidateSwiGlu(const Device& device, const Tensor& gate_up, const Tensor& out);
absl::Status ValidateSwiGluBackward(const Device& device, const Tensor& gate_up, const Tensor& dout,
                                    const Tensor& dgate_up);
absl::Status ValidateBasic(const Device& device, const BasicArgs& args);
absl::Status ValidateAdd(const Device& device, const Tensor& a, const Tensor& b, const Tensor& out);
absl::Status ValidateScale(const Device& device, const Tensor& x);
absl::Status ValidateLerp(const Device& device, const Tensor& x, const Tensor& target);
absl::Status ValidateCast(const Device& device, const Tensor& src, const Tensor& dst);
absl::Status ValidateQuantize(const Device& device, const QuantizeArgs& args);
absl::Status ValidateDequantize(const Device& device, const DequantizeArgs& args);
absl::Status ValidateSumQuantized(const Device& device, const SumQuantizedArgs& args);
absl::Status ValidateLinearCrossEntropy(const Device& device, const LinearCrossEntropyArgs& args);
absl::Status ValidateAdamW(const Device& device, absl::Span<const AdamWArgs> ranges);
absl::Status ValidateAddSquares(const Device& device, absl::Span<const Tensor> xs,
                                const Tensor& sum);
absl::Status ValidateClipFactor(const Device& device, const Tensor& sum, double scale,
                                double max_norm, const Tensor& norm_and_factor);
absl::Status ValidateCastFp8(const Device& device, const CastFp8Args& args);
absl::Status ValidateFp8Gemm(const Device& device, const Fp8GemmArgs& args);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_VALIDATION_H_
