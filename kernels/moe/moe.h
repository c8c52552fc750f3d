// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts (Shazeer et al., "Outrageously large neural networks", 2017): routing tokens
// to experts, grouping their rows by expert and combining the results, and matmuls of each expert's
// rows with its matrix.
//
// Each pair of a token and an expert is a row. Rows are grouped by expert: those of expert 0 come
// first, and each expert's are in the order of tokens. An expert has one row for each token routed
// to it, perhaps none, and nothing is padded. Rows are summed in order, on every device:
// deterministic.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// The experts that tokens are routed to. All int32.
struct Routing {
  Tensor experts;  // [tokens, top_k]: the largest logit first, of equal ones the lower number
                   // first, and NaNs last
  Tensor rows;     // [tokens, top_k]: the pair's row
  Tensor offsets;  // [experts + 1]: expert e has rows offsets[e] to offsets[e + 1]
};

// The scores of a token's experts: softmax(logits), or the sigmoid of each logit (DeepSeek-V3).
enum class ExpertScores : uint8_t { kSoftmax, kSigmoid };

// How scores become weights: divided by the sum over the chosen experts if `normalize`, then
// multiplied by `scale`.
struct RouteWeights {
  ExpertScores scores = ExpertScores::kSoftmax;
  bool normalize = true;
  float scale = 1;
};

// Routes each token to the top_k experts with the largest logits; with a bias, to those with the
// largest score plus bias, where the larger logit breaks ties. Weights are computed from the chosen
// experts' scores, without the bias.
struct RouteArgs {
  Tensor logits;  // [tokens, experts]
  RouteWeights how;
  Tensor bias;      // [experts], fp32, for kSigmoid; or undefined
  Tensor weights;   // [tokens, top_k], fp32, written; top_k is at most experts
  Routing routing;  // written
};
struct RouteBackwardArgs {
  Tensor logits;  // [tokens, experts]
  RouteWeights how;
  Tensor experts;   // [tokens, top_k]
  Tensor dweights;  // [tokens, top_k], fp32
  Tensor dlogits;   // [tokens, experts], as logits; overwritten
};

// The router z-loss (Zoph et al., "ST-MoE", 2022, equation 5) of each token, which keeps logits
// small: losses[t] = scale * z^2, with z = log of the sum of e^logits[t], and its gradient.
struct RouterZLossArgs {
  Tensor logits;  // [tokens, experts]
  float scale = 1;
  Tensor losses;   // [tokens], fp32, written; or undefined
  Tensor dlogits;  // [tokens, experts], as logits, written: 2 * scale * z * softmax; or undefined
};

// counts[s, e] = the number of tokens of sequence s that are routed to expert e, times `scale`. A
// sequence is `sequence` consecutive tokens.
struct CountExpertsArgs {
  Tensor experts;  // [tokens, top_k]
  int64_t sequence = 1;
  float scale = 1;
  Tensor counts;  // [tokens / sequence, experts], fp32, overwritten
};

// grouped[rows[t, k]] = tokens[t], times weights[t, k] if weights are defined.
struct ScatterArgs {
  Tensor tokens;   // [tokens, dim]
  Tensor rows;     // [tokens, top_k]
  Tensor weights;  // [tokens, top_k], fp32, or undefined
  Tensor grouped;  // [tokens * top_k, dim], overwritten
};
// tokens[t] = the sum over k, in order, of grouped[rows[t, k]], times weights[t, k] if weights are
// defined. It is the transpose of Scatter.
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

// c = a op(b[e]) + bias[e] for the rows of each expert e. Here and below, the matrices of all
// experts have the same row stride. With `first`, `b` and `biases` are those of b.size() experts
// from that one on: other rows of c stay as they are.
struct GroupedGemmArgs {
  Tensor offsets;         // [experts + 1], of all experts
  Matrix a;               // [rows, k]
  std::vector<Matrix> b;  // for each expert [k, n], or [n, k] if transpose_b; dtype of a
  bool transpose_b = false;
  Matrix c;                         // [rows, n], any element type
  bool accumulate = false;          // add to c; excludes biases
  std::vector<Tensor> biases = {};  // for each expert [n], dtype of a; or none
  std::optional<int64_t> first = std::nullopt;
};
// c[e] (+)= a^T b over the rows of each expert e; a^T b is zero if the expert has no rows.
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
// dbias[e] (+)= the sum of dy over the rows of each expert e; the sum is zero if it has none.
struct GroupedBiasGradientArgs {
  struct Output {
    Tensor dbias;  // [n], any element type
    bool accumulate = false;
  };
  Tensor offsets;  // [experts + 1]
  Matrix dy;       // [rows, n]
  std::vector<Output> outputs;
};

namespace kernels {

// These expect the experts, offsets and rows that Route has written. A CPU checks their values, and
// returns InvalidArgument at once.
absl::Status Route(Kernels& kernels, const RouteArgs& args);
absl::Status RouteBackward(Kernels& kernels, const RouteBackwardArgs& args);
absl::Status RouterZLoss(Kernels& kernels, const RouterZLossArgs& args);
absl::Status CountExperts(Kernels& kernels, const CountExpertsArgs& args);
absl::Status Scatter(Kernels& kernels, const ScatterArgs& args);
absl::Status Combine(Kernels& kernels, const CombineArgs& args);
absl::Status RowDots(Kernels& kernels, const RowDotsArgs& args);
absl::Status GroupedGemm(Kernels& kernels, const GroupedGemmArgs& args);
absl::Status GroupedGradient(Kernels& kernels, const GroupedGradientArgs& args);
absl::Status GroupedBiasGradient(Kernels& kernels, const GroupedBiasGradientArgs& args);

}  // namespace kernels

// A sum of sigmoids that all underflow is 0; this is added to it, as by transformers.
inline constexpr float kLeastScoreSum = 1e-20f;

// The checked arguments. Route and RouteBackward share these fields.
struct RoutedCall {
  int64_t tokens = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  DType dtype = DType::kFloat32;  // of logits and dlogits
  RouteWeights how;
  const void* logits = nullptr;
};
struct RouteCall : RoutedCall {
  const float* bias = nullptr;  // or null
  float* weights = nullptr;
  int32_t* chosen = nullptr;
  int32_t* rows = nullptr;
  int32_t* offsets = nullptr;
};
struct RouteBackwardCall : RoutedCall {
  const int32_t* chosen = nullptr;
  const float* dweights = nullptr;
  void* dlogits = nullptr;
};
struct RouterZLossCall {
  int64_t tokens = 0;
  int64_t experts = 0;
  DType dtype = DType::kFloat32;  // of logits and dlogits
  float scale = 1;
  const void* logits = nullptr;
  float* losses = nullptr;  // or null
  void* dlogits = nullptr;  // or null
};
struct CountExpertsCall {
  int64_t sequences = 0;
  int64_t experts = 0;
  int64_t pairs = 0;  // pairs of a token and an expert in each sequence
  float scale = 1;
  const int32_t* chosen = nullptr;
  float* counts = nullptr;
};
// Scatter, Combine and RowDots share these fields.
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
// GroupedGemm and GroupedGradient share these fields.
struct GroupedCall {
  int64_t rows = 0;
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  DType c_dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  const void* a = nullptr;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
};
struct GroupedGemmCall : GroupedCall {
  int64_t k = 0;
  std::vector<const void*> b;
  bool transpose_b = false;
  void* c = nullptr;
  bool accumulate = false;
  std::vector<const void*> biases;  // or empty
  int64_t experts = 0;              // of the offsets
  int64_t first = 0;
};
struct GroupedGradientCall : GroupedCall {
  struct Output {
    void* c = nullptr;
    bool accumulate = false;
  };
  int64_t m = 0;
  const void* b = nullptr;
  std::vector<Output> c;
};
struct GroupedBiasGradientCall {
  struct Output {
    void* dbias = nullptr;
    bool accumulate = false;
  };
  int64_t rows = 0;
  int64_t n = 0;
  int64_t stride = 0;  // of dy's rows
  DType dtype = DType::kFloat32;
  DType grad_dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  const void* dy = nullptr;
  std::vector<Output> outputs;
};

}  // namespace zeroth
