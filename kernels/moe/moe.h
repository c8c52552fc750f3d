// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts (Shazeer et al., "Outrageously large neural networks", 2017): which tokens go
// to which experts, their way there and back, and products of each expert's tokens with its matrix.
//
// Pairs of a token and an expert are rows, grouped by experts: those of expert 0 first, each
// expert's in the order of tokens. So an expert has as many rows as tokens, none perhaps, and
// nothing is padded. Everything adds up in one order, whatever the device.

#ifndef ZEROTH_KERNELS_MOE_MOE_H_
#define ZEROTH_KERNELS_MOE_MOE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// Where tokens go. All int32.
struct Routing {
  Tensor experts;  // [tokens, top_k]: the most probable first; of two alike the lower number
  Tensor rows;     // [tokens, top_k]: the pair's row
  Tensor offsets;  // [experts + 1]: expert e has rows offsets[e] to offsets[e + 1]
};

// A token's weights are the probabilities softmax(logits) of its experts, or these divided by their
// sum.
struct RouteArgs {
  Tensor logits;  // [tokens, experts]
  bool normalize = true;
  Tensor weights;   // [tokens, top_k], fp32, written; top_k is at most experts
  Routing routing;  // written
};
struct RouteBackwardArgs {
  Tensor logits;  // [tokens, experts]
  bool normalize = true;
  Tensor experts;   // [tokens, top_k]
  Tensor dweights;  // [tokens, top_k], fp32
  Tensor dlogits;   // [tokens, experts], as logits; overwritten
};

// counts[s, e] = how many tokens of sequence s have expert e, times `scale`. A sequence is
// `sequence` tokens that follow each other.
struct CountExpertsArgs {
  Tensor experts;  // [tokens, top_k]
  int64_t sequence = 1;
  float scale = 1;
  Tensor counts;  // [tokens / sequence, experts], fp32, overwritten
};

// grouped[rows[t, k]] = tokens[t], times weights[t, k] if there are any.
struct ScatterArgs {
  Tensor tokens;   // [tokens, dim]
  Tensor rows;     // [tokens, top_k]
  Tensor weights;  // [tokens, top_k], fp32, or undefined
  Tensor grouped;  // [tokens * top_k, dim], overwritten
};
// tokens[t] = sum over k, in order, of grouped[rows[t, k]], times weights[t, k] if there are any:
// the transpose of Scatter.
struct CombineArgs {
  Tensor grouped;           // [tokens * top_k, dim]
  Tensor rows;              // [tokens, top_k]
  Tensor weights;           // [tokens, top_k], fp32, or undefined
  Tensor tokens;            // [tokens, dim], written
  bool accumulate = false;  // add to tokens
};
// dweights[t, k] = tokens[t] . grouped[rows[t, k]]: the gradient of Combine's weights.
struct RowDotsArgs {
  Tensor tokens;    // [tokens, dim]
  Tensor grouped;   // [tokens * top_k, dim]
  Tensor rows;      // [tokens, top_k]
  Tensor dweights;  // [tokens, top_k], fp32, overwritten
};

// c = a op(b[e]) for the rows of each expert e. Matrices of experts, here and below, have rows that
// are equally far apart.
struct GroupedGemmArgs {
  Tensor offsets;         // [experts + 1]
  Matrix a;               // [rows, k]
  std::vector<Matrix> b;  // of each expert [k, n], or [n, k] if transpose_b; as a
  bool transpose_b = false;
  Matrix c;                 // [rows, n], any element type
  bool accumulate = false;  // add to c
};
// c[e] (+)= a^T b over the rows of each expert e; zeros where it has none.
struct GroupedGradientArgs {
  struct Output {
    Matrix matrix;  // [m, n], any element type
    bool accumulate = false;
  };
  Tensor offsets;  // [experts + 1]
  Matrix a;        // [rows, m]
  Matrix b;        // [rows, n], as a
  std::vector<Output> c;
};

namespace kernels {

// InvalidArgument, on a CPU at once, for experts, offsets and rows that Route has not written.
absl::Status Route(Kernels& kernels, const RouteArgs& args);
absl::Status RouteBackward(Kernels& kernels, const RouteBackwardArgs& args);
absl::Status CountExperts(Kernels& kernels, const CountExpertsArgs& args);
absl::Status Scatter(Kernels& kernels, const ScatterArgs& args);
absl::Status Combine(Kernels& kernels, const CombineArgs& args);
absl::Status RowDots(Kernels& kernels, const RowDotsArgs& args);
absl::Status GroupedGemm(Kernels& kernels, const GroupedGemmArgs& args);
absl::Status GroupedGradient(Kernels& kernels, const GroupedGradientArgs& args);

}  // namespace kernels

// What devices compute.
struct RouteCall {
  int64_t tokens = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  DType dtype = DType::kFloat32;  // of logits and dlogits
  bool normalize = true;
  const void* logits = nullptr;
  float* weights = nullptr;
  int32_t* chosen = nullptr;
  int32_t* rows = nullptr;
  int32_t* offsets = nullptr;
};
struct RouteBackwardCall {
  int64_t tokens = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  DType dtype = DType::kFloat32;
  bool normalize = true;
  const void* logits = nullptr;
  const int32_t* chosen = nullptr;
  const float* dweights = nullptr;
  void* dlogits = nullptr;
};
struct CountExpertsCall {
  int64_t sequences = 0;
  int64_t experts = 0;
  int64_t pairs = 0;  // of a token and an expert, in each sequence
  float scale = 1;
  const int32_t* chosen = nullptr;
  float* counts = nullptr;
};
// Of Scatter, Combine and RowDots; what is written is not const there.
struct RowsCall {
  int64_t tokens = 0;
  int64_t top_k = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const int32_t* rows = nullptr;
};
struct ScatterCall : RowsCall {
  const void* from = nullptr;
  const float* weights = nullptr;  // or null
  void* grouped = nullptr;
};
struct CombineCall : RowsCall {
  const void* grouped = nullptr;
  const float* weights = nullptr;  // or null
  void* to = nullptr;
  bool accumulate = false;
};
struct RowDotsCall : RowsCall {
  const void* from = nullptr;
  const void* grouped = nullptr;
  float* dweights = nullptr;
};
struct GroupedGemmCall {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;
  DType c_dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  const void* a = nullptr;
  int64_t lda = 0;
  std::vector<const void*> b;
  int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};
struct GroupedGradientCall {
  struct Output {
    void* c = nullptr;
    bool accumulate = false;
  };
  int64_t rows = 0;
  int64_t m = 0;
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  DType c_dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* b = nullptr;
  int64_t ldb = 0;
  std::vector<Output> c;
  int64_t ldc = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_MOE_MOE_H_
