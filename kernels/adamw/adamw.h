// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The place where AdamW adds eps. Libraries differ, which matters if sqrt(v) is not far above eps.
enum class EpsMode : uint8_t {
  kAfterCorrection,   // sqrt(v / correction2) + eps: as in the paper and in PyTorch
  kBeforeCorrection,  // (sqrt(v) + eps) / sqrt(correction2): the form at the end of section 2 of
                      // "Adam" (2015)
};

// One AdamW step in place (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019):
//   g = grad * grad_scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   param -= lr * (m / correction1 / denominator + weight_decay * param), the denominator as
//   eps_mode says
// The bits of an element's result depend on that element and, if it is rounded stochastically, on
// its index in the parameter. They do not depend on its place in the tensor, so that sharding a
// parameter changes nothing. Moments below the smallest normal float become zero. Rows without
// gradients would otherwise decay into subnormals and stay there, and a subnormal costs a hundred
// times a normal operation. The scalars are doubles so that 1 - beta keeps its digits; values
// derived from them are rounded to fp32 once.
//
// Arithmetic is fp32. Values that are stored in fewer bits are rounded stochastically, up with the
// probability that makes the mean exact (Gupta et al., "Deep learning with limited numerical
// precision", 2015). If they were rounded to nearest, a moment that changes by less than half a
// step in each update would never change. The draws are those of rounding.h: a function of seed,
// step, stream and the element's index, hence the same on every rank, device and run.
struct AdamWArgs {
  Tensor param;    // [n] fp32 or bf16; grad, m and v have the same shape
  Tensor grad;     // [n] fp32, bf16 or fp16
  Tensor m;        // [n] fp32, bf16, or uint8 codes as in moment_codes.h
  Tensor v;        // [n], of m's type
  Tensor m_scale;  // [ceil(n / kMomentBlock)] fp32 with uint8 moments, undefined otherwise: the
                   // scale of each block of elements. Scale 0 makes all elements zero.
  Tensor v_scale;  // the same
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double correction1 = 1;  // 1 - beta1^step
  double correction2 = 1;  // 1 - beta2^step
  double grad_scale = 1;   // from the host, to undo loss scaling
  // [1] fp32 or undefined: a factor on the device that multiplies grad_scale, in fp32. It clips
  // without the host waiting for the norm. NaN skips the step: nothing changes.
  Tensor grad_factor;
  EpsMode eps_mode = EpsMode::kAfterCorrection;
  uint64_t seed = 0;    // this and the next three decide how values are rounded stochastically
  int64_t step = 0;     // each step draws anew
  uint64_t stream = 0;  // identifies the parameter, see HashName of philox.h
  // The index in the parameter of the tensors' first element, at least 0. With uint8 moments it is
  // a multiple of kMomentBlock, because blocks begin there.
  int64_t first_element = 0;
  // [kAdamWCoefficients] fp32 in device memory, or undefined. If defined, it holds an
  // AdamWCoefficients, which replaces the scalars above, seed and step included. The device reads
  // it when the step runs, so that a recorded step can be launched again with other values. The
  // bits are the same.
  Tensor coefficients;
};
inline constexpr int64_t kAdamWCoefficients = 11;
// Number of neighbouring elements that share one scale if moments are stored in 8 bits.
inline constexpr int64_t kMomentBlock = 128;

// The scalars of a step in the form that the inner loops use, each rounded to fp32 once:
//   g = grad * grad_scale
//   m = beta1 m + one_minus_beta1 g;  v = beta2 v + one_minus_beta2 g g
//   denominator = sqrt(v) * root_scale + eps;  param -= step * m / denominator + decay * param
// Includes the key of the step's stochastic rounding.
struct AdamWCoefficients {
  float grad_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float root_scale;
  float eps;
  float step;
  float decay;
  RoundingKey rounding;
};
static_assert(sizeof(AdamWCoefficients) == kAdamWCoefficients * sizeof(float));
AdamWCoefficients DeriveAdamWCoefficients(const AdamWArgs& args);

namespace kernels {

// Performs a step on each of `ranges`, with the same bits as one call for each of them. It is the
// multi-tensor apply of NVIDIA's Apex: a model has hundreds of parameters, most of them too small
// to fill a device. Ranges may differ in every argument and may be empty, but must not overlap. On
// a GPU, ranges of the same types and grad_factor share launches; on a CPU, all ranges share one
// parallel loop. If a range is invalid, the message names it, and nothing changes.
absl::Status AdamW(Kernels& kernels, absl::Span<const AdamWArgs> ranges);
inline absl::Status AdamW(Kernels& kernels, const AdamWArgs& args) {
  return AdamW(kernels, absl::MakeConstSpan(&args, 1));
}

}  // namespace kernels

// The checked arguments.
struct AdamWArrays {
  int64_t count = 0;
  void* param = nullptr;
  const void* grad = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* m_scale = nullptr;  // null unless moments are uint8
  float* v_scale = nullptr;
  uint64_t stream = 0;
  int64_t first_element = 0;
  const AdamWCoefficients* on_device = nullptr;  // replaces those from the host, or null
};
struct AdamWTypes {
  DType param = DType::kFloat32;
  DType grad = DType::kFloat32;
  DType moment = DType::kFloat32;

  bool operator==(const AdamWTypes&) const = default;
};
struct AdamWRangeCall : AdamWArrays {
  AdamWTypes types;
  AdamWCoefficients coefficients = {};
  const float* grad_factor = nullptr;  // one float, or null
};
struct AdamWCall {
  std::vector<AdamWRangeCall> ranges;
};

}  // namespace zeroth
