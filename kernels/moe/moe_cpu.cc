// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/kernels/moe/offsets_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/moe/moe_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void LoadLogits(DType dtype, const void* logits, int64_t token, size_t experts, float* to) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    Convert(experts, to, static_cast<const T*>(logits) + token * static_cast<int64_t>(experts));
  });
}

void StoreLogits(DType dtype, const float* from, int64_t token, size_t experts, void* dlogits) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    Convert(experts, static_cast<T*>(dlogits) + token * static_cast<int64_t>(experts), from);
  });
}

// Scatters the rows of tokens [begin, end).
void ScatterRows(const ScatterCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t token = begin; token < end; ++token) {
      for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
        const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
        Transform(
            static_cast<size_t>(call.dim),
            static_cast<T*>(call.grouped) + call.rows[pair] * call.dim,
            [weight](auto d, auto x) HWY_ATTR { return hn::Mul(x, hn::Set(d, weight)); },
            static_cast<const T*>(call.from) + token * call.dim);
      }
    }
  });
}

// Columns that are summed at a time, in fp32.
constexpr int64_t kSumColumns = 256;

void CombineRows(const CombineCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    float sums[kSumColumns];
    for (int64_t token = begin; token < end; ++token) {
      for (int64_t column = 0; column < call.dim; column += kSumColumns) {
        const auto count = static_cast<size_t>(std::min(kSumColumns, call.dim - column));
        T* const to = static_cast<T*>(call.to) + token * call.dim + column;
        std::fill_n(sums, count, 0.0f);
        if (call.accumulate) Convert(count, sums, to);
        for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
          const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
          Transform(
              count, sums,
              [weight](auto d, auto sum, auto x)
                  HWY_ATTR { return hn::MulAdd(hn::Set(d, weight), x, sum); },
              sums, static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim + column);
        }
        Convert(count, to, sums);
      }
    }
  });
}

void DotRows(const RowDotsCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t token = begin; token < end; ++token) {
      for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
        call.dweights[pair] =
            Dot(static_cast<size_t>(call.dim), static_cast<const T*>(call.from) + token * call.dim,
                static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(LoadLogits);
HWY_EXPORT(StoreLogits);
HWY_EXPORT(ScatterRows);
HWY_EXPORT(CombineRows);
HWY_EXPORT(DotRows);

template <typename Call>
std::vector<float> LogitsOf(const Call& call, int64_t token) {
  std::vector<float> logits(static_cast<size_t>(call.experts));
  HWY_DYNAMIC_DISPATCH(LoadLogits)(call.dtype, call.logits, token, logits.size(), logits.data());
  return logits;
}

// Replaces a token's logits with the probabilities of its experts. Returns the log of the sum of
// e^logit.
float ToProbabilities(std::vector<float>& values) {
  float max = -std::numeric_limits<float>::infinity();
  for (const float value : values) max = std::max(max, value);
  float sum = 0.0f;
  for (float& value : values) sum += value = std::exp(value - max);
  for (float& value : values) value /= sum;
  return max + std::log(sum);
}

// Computed in double and rounded once, so that CPUs and GPUs get the same order of experts.
float Sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
}

// Writes the indices of the `top_k` largest keys in descending order. Ties are broken by the larger
// logit, then by the lower index. NaNs come last. Without a bias the keys are the logits and not
// the probabilities, since probabilities of different logits may be equal, or underflow to 0.
void Choose(absl::Span<const float> keys, absl::Span<const float> logits, int64_t top_k,
            int32_t* chosen) {
  const auto above = [&](int32_t a, int32_t b) {
    const float left = keys[static_cast<size_t>(a)];
    const float right = keys[static_cast<size_t>(b)];
    if (std::isnan(left) != std::isnan(right)) return std::isnan(right);
    if (left > right || left < right) return left > right;
    const float left_logit = logits[static_cast<size_t>(a)];
    const float right_logit = logits[static_cast<size_t>(b)];
    return left_logit > right_logit || (!(left_logit < right_logit) && a < b);
  };
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::partial_sort(order.begin(), order.begin() + top_k, order.end(), above);
  std::copy_n(order.begin(), top_k, chosen);
}

void RouteTokens(const RouteCall& call, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    std::vector<float> row = LogitsOf(call, token);
    int32_t* const chosen = call.chosen + token * call.top_k;
    const bool sigmoid = call.how.scores == ExpertScores::kSigmoid;
    std::vector<float> keys = row;
    for (size_t e = 0; call.bias != nullptr && e < keys.size(); ++e) {
      keys[e] = Sigmoid(row[e]) + call.bias[e];
    }
    Choose(keys, row, call.top_k, chosen);
    float sum = 0.0f;
    if (sigmoid) {
      for (float& value : row) value = Sigmoid(value);
      sum = kLeastScoreSum;
    } else {
      ToProbabilities(row);
    }
    for (int64_t k = 0; k < call.top_k; ++k) sum += row[static_cast<size_t>(chosen[k])];
    const float divisor = call.how.normalize ? sum : 1.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      call.weights[token * call.top_k + k] =
          row[static_cast<size_t>(chosen[k])] / divisor * call.how.scale;
    }
  }
}

absl::Status Route(const RouteCall& call, CpuKernels&) {
  ZEROTH_RETURN_IF_ERROR(ForRows(call.tokens, 4 * call.experts, call, RouteTokens));
  // A counting sort, which keeps the order of tokens.
  std::fill_n(call.offsets, call.experts + 1, 0);
  const int64_t pairs = call.tokens * call.top_k;
  for (int64_t pair = 0; pair < pairs; ++pair) ++call.offsets[call.chosen[pair] + 1];
  for (int64_t e = 0; e < call.experts; ++e) call.offsets[e + 1] += call.offsets[e];
  std::vector<int32_t> next(call.offsets, call.offsets + call.experts);
  for (int64_t pair = 0; pair < pairs; ++pair) call.rows[pair] = next[call.chosen[pair]]++;
  return absl::OkStatus();
}
const OnCpu<Route> route;

// The scores of experts are independent of each other, so that only the chosen have a gradient.
void SigmoidBackward(const RouteBackwardCall& call, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const std::vector<float> row = LogitsOf(call, token);
    const int32_t* const chosen = call.chosen + token * call.top_k;
    const float* const dweights = call.dweights + token * call.top_k;
    float sum = kLeastScoreSum;
    float mean = 0.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float score = Sigmoid(row[static_cast<size_t>(chosen[k])]);
      sum += score;
      mean += score * dweights[k];
    }
    const float divisor = call.how.normalize ? sum : 1.0f;
    mean = call.how.normalize ? mean / divisor : 0.0f;
    std::vector<float> gradient(row.size());
    for (int64_t k = 0; k < call.top_k; ++k) {
      const auto e = static_cast<size_t>(chosen[k]);
      const float slope = Sigmoid(row[e]) * Sigmoid(-row[e]) / divisor * call.how.scale;
      gradient[e] = slope * (dweights[k] - mean);
    }
    HWY_DYNAMIC_DISPATCH(StoreLogits)
    (call.dtype, gradient.data(), token, gradient.size(), call.dlogits);
  }
}

void SoftmaxBackward(const RouteBackwardCall& call, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    std::vector<float> row = LogitsOf(call, token);
    ToProbabilities(row);
    const int32_t* const chosen = call.chosen + token * call.top_k;
    const float* const dweights = call.dweights + token * call.top_k;
    float sum = 0.0f;
    float mean = 0.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      sum += row[static_cast<size_t>(chosen[k])];
      mean += row[static_cast<size_t>(chosen[k])] * dweights[k];
    }
    // Normalised weights are a softmax over the chosen experts alone. The logits of other experts
    // do not affect them.
    const float divisor = call.how.normalize ? sum : 1.0f;
    std::vector<float> weights = call.how.normalize ? std::vector<float>(row.size()) : row;
    std::vector<float> gradient(row.size());
    for (int64_t k = 0; k < call.top_k; ++k) {
      const auto e = static_cast<size_t>(chosen[k]);
      weights[e] = row[e] / divisor;
      gradient[e] = dweights[k];
    }
    for (size_t e = 0; e < row.size(); ++e) {
      row[e] = weights[e] * (gradient[e] - mean / divisor) * call.how.scale;
    }
    HWY_DYNAMIC_DISPATCH(StoreLogits)(call.dtype, row.data(), token, row.size(), call.dlogits);
  }
}

absl::Status RouteBackward(const RouteBackwardCall& call, CpuKernels&) {
  const bool sigmoid = call.how.scores == ExpertScores::kSigmoid;
  return ForRows(call.tokens, 4 * call.experts, call, sigmoid ? SigmoidBackward : SoftmaxBackward);
}
const OnCpu<RouteBackward> route_backward;

void ZLossOfTokens(const RouterZLossCall& call, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    std::vector<float> row = LogitsOf(call, token);
    const float z = ToProbabilities(row);
    if (call.losses != nullptr) call.losses[token] = call.scale * z * z;
    if (call.dlogits == nullptr) continue;
    const float slope = 2 * call.scale * z;
    for (float& p : row) p *= slope;
    HWY_DYNAMIC_DISPATCH(StoreLogits)(call.dtype, row.data(), token, row.size(), call.dlogits);
  }
}

absl::Status RouterZLoss(const RouterZLossCall& call, CpuKernels&) {
  return ForRows(call.tokens, 4 * call.experts, call, ZLossOfTokens);
}
const OnCpu<RouterZLoss> router_z_loss;

absl::Status CountExperts(const CountExpertsCall& call, CpuKernels&) {
  std::vector<int64_t> counts(static_cast<size_t>(call.experts));
  for (int64_t sequence = 0; sequence < call.sequences; ++sequence) {
    std::fill(counts.begin(), counts.end(), 0);
    for (int64_t pair = sequence * call.pairs; pair < (sequence + 1) * call.pairs; ++pair) {
      if (call.chosen[pair] < 0 || call.chosen[pair] >= call.experts) {
        return InvalidArgument("mixture of experts: experts is ", call.chosen[pair], " at ", pair,
                               ", expected 0 to ", call.experts - 1);
      }
      ++counts[static_cast<size_t>(call.chosen[pair])];
    }
    for (size_t e = 0; e < counts.size(); ++e) {
      call.counts[static_cast<size_t>(sequence * call.experts) + e] =
          static_cast<float>(counts[e]) * call.scale;
    }
  }
  return absl::OkStatus();
}
const OnCpu<CountExperts> count_experts;

// Checks the values of `rows`, since the inner loops do not.
absl::Status CheckRows(const RowsCall& call) {
  const int64_t pairs = call.tokens * call.top_k;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    if (call.rows[pair] >= 0 && call.rows[pair] < pairs) continue;
    return InvalidArgument("mixture of experts: rows is ", call.rows[pair], " at ", pair,
                           ", expected 0 to ", pairs - 1);
  }
  return absl::OkStatus();
}

template <typename Call>
absl::Status ForTokens(const Call& call, void (*piece)(const Call&, int64_t, int64_t)) {
  ZEROTH_RETURN_IF_ERROR(CheckRows(call));
  return ForRows(call.tokens, call.dim * call.top_k, call, piece);
}

absl::Status Scatter(const ScatterCall& call, CpuKernels&) {
  return ForTokens(call, HWY_DYNAMIC_DISPATCH(ScatterRows));
}
const OnCpu<Scatter> scatter;

absl::Status Combine(const CombineCall& call, CpuKernels&) {
  return ForTokens(call, HWY_DYNAMIC_DISPATCH(CombineRows));
}
const OnCpu<Combine> combine;

absl::Status RowDots(const RowDotsCall& call, CpuKernels&) {
  return ForTokens(call, HWY_DYNAMIC_DISPATCH(DotRows));
}
const OnCpu<RowDots> row_dots;

// Returns the matmul of expert e with the fields set that both kinds of matmuls share.
GemmCall MatmulOfExpert(const GroupedCall& call, size_t e) {
  GemmCall matmul;
  matmul.n = call.n;
  matmul.dtype = call.dtype;
  matmul.c_dtype = call.c_dtype;
  matmul.a = Advance(call.a, call.offsets[e] * call.lda, call.dtype);
  matmul.lda = call.lda;
  matmul.ldb = call.ldb;
  matmul.ldc = call.ldc;
  return matmul;
}

absl::Status GroupedGemm(const GroupedGemmCall& call, CpuKernels& kernels) {
  ZEROTH_RETURN_IF_ERROR(CheckOffsets(call.offsets, static_cast<size_t>(call.experts), call.rows));
  for (size_t i = 0; i < call.b.size(); ++i) {
    const size_t e = static_cast<size_t>(call.first) + i;
    GemmCall matmul = MatmulOfExpert(call, e);
    matmul.m = call.offsets[e + 1] - call.offsets[e];
    matmul.k = call.k;
    matmul.b = call.b[i];
    matmul.transpose_b = call.transpose_b;
    matmul.c = Advance(call.c, call.offsets[e] * call.ldc, call.c_dtype);
    matmul.accumulate = call.accumulate;
    if (!call.biases.empty()) matmul.bias = call.biases[i];
    ZEROTH_RETURN_IF_ERROR(Gemm(matmul, kernels));
  }
  return absl::OkStatus();
}
const OnCpu<GroupedGemm> grouped_gemm;

absl::Status GroupedGradient(const GroupedGradientCall& call, CpuKernels& kernels) {
  ZEROTH_RETURN_IF_ERROR(CheckOffsets(call.offsets, call.c.size(), call.rows));
  for (size_t e = 0; e < call.c.size(); ++e) {
    GemmCall matmul = MatmulOfExpert(call, e);
    matmul.m = call.m;
    matmul.k = call.offsets[e + 1] - call.offsets[e];
    matmul.transpose_a = true;
    matmul.b = Advance(call.b, call.offsets[e] * call.ldb, call.dtype);
    matmul.c = call.c[e].c;
    matmul.accumulate = call.c[e].accumulate;
    ZEROTH_RETURN_IF_ERROR(Gemm(matmul, kernels));
  }
  return absl::OkStatus();
}
const OnCpu<GroupedGradient> grouped_gradient;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
