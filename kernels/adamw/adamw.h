// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ADAMW_ADAMW_H_
#define ZEROTH_KERNELS_ADAMW_ADAMW_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Where AdamW adds eps. Libraries differ, and it shows wherever sqrt(v) is not far above eps.
enum class EpsMode : uint8_t {
  kAfterCorrection,   // sqrt(v / correction2) + eps: the paper's, and PyTorch's
  kBeforeCorrection,  // (sqrt(v) + eps) / sqrt(correction2): the form at the end of section 2 of
                      // "Adam" (2015)
};

// One AdamW step in place (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019):
//   g = grad * grad_scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   param -= lr * (m / correction1 / denominator + weight_decay * param), the denominator as
//   eps_mode says
// An element's result depends on that element alone and, where it is rounded stochastically, on its
// index in its parameter, but not on its place in the tensor, to the last bit: cutting a parameter
// into shards changes nothing. Moments below the smallest normal float become zero: subnormals,
// which rows without gradients would decay into and never leave, cost a hundred times a normal
// operation. The scalars are doubles so that 1 - beta keeps its digits; what is derived from them
// is rounded to fp32 once.
//
// Arithmetic is fp32. What is stored in fewer bits is rounded stochastically, up with the
// probability that makes the mean exact (Gupta et al., "Deep learning with limited numerical
// precision", 2015): to nearest, a moment that changes by less than half a step in each update
// would never change at all. The draws are those of rounding.h: a function of seed, step, stream
// and the element's index, hence the same on every rank, device and run.
struct AdamWArgs {
  Tensor param;    // [n] fp32 or bf16; grad, m and v have the same shape
  Tensor grad;     // [n] fp32, bf16 or fp16
  Tensor m;        // [n] fp32, bf16, or uint8: codes of moment_codes.h
  Tensor v;        // [n], of m's type
  Tensor m_scale;  // [ceil(n / kMomentBlock)] fp32 with uint8 moments, undefined otherwise: the
                   // scales of blocks of elements. Zeros are the scales of zeros.
  Tensor v_scale;  // the same
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double correction1 = 1;  // 1 - beta1^step
  double correction2 = 1;  // 1 - beta2^step
  double grad_scale = 1;   // known on the host: unscaling
  Tensor grad_factor;      // [1] fp32 or undefined: known on the device, multiplies grad_scale (in
                           // fp32): clipping, without the host waiting for the norm. NaN: nothing
                           // changes, a step to be skipped
  EpsMode eps_mode = EpsMode::kAfterCorrection;
  uint64_t seed = 0;          // of stochastic rounding, and so are the three below
  int64_t step = 0;           // two steps round by different draws
  uint64_t stream = 0;        // names the parameter, see HashName of philox.h
  int64_t first_element = 0;  // where the tensors start in their parameter, at least 0; a multiple
                              // of kMomentBlock with uint8 moments, as blocks are cut there
  // [kAdamWCoefficients] fp32 in device memory or undefined: if defined, what counts is what lies
  // there when the step runs, an AdamWCoefficients (below), and not the scalars
  // above, seed and step included: for a step that is recorded once and played with others. The
  // bits are the same.
  Tensor coefficients;
};
inline constexpr int64_t kAdamWCoefficients = 11;
// Neighbours that share one scale where moments are stored in 8 bits.
inline constexpr int64_t kMomentBlock = 128;

// An AdamW step's scalars as every implementation's loop uses them, each rounded to fp32 once:
//   g = grad * grad_scale
//   m = beta1 m + one_minus_beta1 g;  v = beta2 v + one_minus_beta2 g g
//   denominator = sqrt(v) * root_scale + eps;  param -= step * m / denominator + decay * param
// and the key of the step's stochastic rounding.
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

// A step of each of `ranges`, to the last bit what a call for each of them leaves: the multi-tensor
// apply of NVIDIA's Apex. A model has parameters by the hundred, most of them too small to fill a
// device, and each with a weight decay and draws of its own. Ranges may differ in everything and be
// empty; what one writes no other reads or writes. On a GPU those of the same types and grad_factor
// share launches; on a CPU all share one parallel loop. If one is refused the message says which,
// and nothing changes.
absl::Status AdamW(Kernels& kernels, absl::Span<const AdamWArgs> ranges);
inline absl::Status AdamW(Kernels& kernels, const AdamWArgs& args) {
  return AdamW(kernels, absl::MakeConstSpan(&args, 1));
}

}  // namespace kernels

// What devices compute.
struct AdamWRangeCall {
  int64_t count = 0;
  AdamWCoefficients coefficients = {};
  const AdamWCoefficients* on_device = nullptr;  // counts instead, or null
  const float* grad_factor = nullptr;            // one float, or null
  DType param_dtype = DType::kFloat32;
  DType grad_dtype = DType::kFloat32;
  DType moment_dtype = DType::kFloat32;
  void* param = nullptr;
  const void* grad = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* m_scale = nullptr;  // null unless moments are uint8
  float* v_scale = nullptr;
  uint64_t stream = 0;
  int64_t first_element = 0;
};
struct AdamWCall {
  std::vector<AdamWRangeCall> ranges;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ADAMW_ADAMW_H_
