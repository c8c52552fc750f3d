// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ADAMW_H_
#define ZEROTH_KERNELS_CPU_ADAMW_H_

#include <cstdint>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw_coefficients.h"

namespace zeroth::cpu {

// One of the ranges of a step: as AdamWArgs, its types checked.
struct AdamWCall {
  int64_t count = 0;
  AdamWCoefficients coefficients;
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

// One step of every range, in place, in one pass over memory and one parallel loop, whose pieces
// are of one size however ranges differ in theirs.
void AdamW(absl::Span<const AdamWCall> calls);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ADAMW_H_
