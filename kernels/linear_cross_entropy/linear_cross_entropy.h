// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fuses the output projection, softmax cross-entropy and their gradients in one pass over chunks of
// rows.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Computes the mean cross-entropy of softmax(logits) against targets, and its gradients. The logits
// are hidden weight^T, capped if logit_cap is above 0. It works on chunks of rows, so that the
// logits of at most one chunk exist at a time; the chunk's gradients are computed together with its
// loss (as in the Liger kernels, Hsu et al., 2024). Chunks depend on shapes alone and are added in
// order: deterministic.
struct LinearCrossEntropyArgs {
  Tensor hidden;   // [rows, dim]
  Tensor weight;   // [vocab, dim]
  Tensor targets;  // [rows] int32; rows with -100 do not count; other values outside [0, vocab) are
                   // InvalidArgument
  Tensor loss;     // [1] fp32, overwritten; 0 if no target counts
  Tensor divisor;  // [1] fp32, above 0: the sum over rows is divided by it. Undefined: by the
                   // number of targets that count; with row_weights, by 1
  Tensor row_weights;  // [rows] fp32: multiply the rows' losses and gradients. Undefined: all 1
  Tensor row_losses;  // [rows] fp32, overwritten with -log softmax(logits)[target] of each row, not
                      // weighted, or 0 if its target does not count. Undefined: not wanted
  Tensor dhidden;     // [rows, dim], overwritten; undefined for the loss alone
  Tensor dweight;     // [vocab, dim]; undefined for the loss alone or when frozen
  bool accumulate_dweight = false;
  float grad_scale = 1.0f;  // gradients are those of grad_scale * loss
  // Above 0: a logit x becomes logit_cap * tanh(x / logit_cap), as in Gemma 2; 0: no cap.
  float logit_cap = 0.0f;
};

namespace kernels {

absl::Status LinearCrossEntropy(Kernels& kernels, const LinearCrossEntropyArgs& args);

}  // namespace kernels

// The checked arguments. All matrices are contiguous and row-major. A dweight that is not fp32 is
// rounded once: the sum of several chunks is kept in fp32 until then.
struct LinearCrossEntropyCall {
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t vocab = 0;
  DType dtype = DType::kFloat32;       // of hidden, weight and dhidden
  DType grad_dtype = DType::kFloat32;  // of dweight
  const void* hidden = nullptr;        // [rows, dim]
  const void* weight = nullptr;        // [vocab, dim]
  const int32_t* targets = nullptr;    // [rows]
  float* loss = nullptr;               // [1]
  const float* divisor = nullptr;      // [1], or null
  const float* row_weights = nullptr;  // [rows], or null
  float* row_losses = nullptr;         // [rows], or null
  void* dhidden = nullptr;             // [rows, dim], or null
  void* dweight = nullptr;             // [vocab, dim], or null
  bool accumulate_dweight = false;
  float grad_scale = 1.0f;
  float logit_cap = 0.0f;
};

}  // namespace zeroth
