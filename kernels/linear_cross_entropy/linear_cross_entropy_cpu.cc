// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <type_traits>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_cross_entropy/linear_cross_entropy_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Returns the sum of e^(x - max). If `kKeeps`, x is replaced with e^(x - max).
template <bool kKeeps>
double RowExp(std::conditional_t<kKeeps, float, const float>* HWY_RESTRICT x, int64_t n,
              float max) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row_max = hn::Set(d, max);
  // Adds short float sums in double, so that the error does not grow with the vocabulary.
  constexpr int64_t kBlock = 1024;
  double total = 0.0;
  int64_t i = 0;
  const int64_t whole = n / lanes * lanes;
  while (i < whole) {
    const int64_t end = std::min(i + kBlock, whole);
    auto sum = hn::Zero(d);
    for (; i < end; i += lanes) {
      const auto e = Exp(d, hn::Sub(hn::LoadU(d, x + i), row_max));
      if constexpr (kKeeps) hn::StoreU(e, d, x + i);
      sum = hn::Add(sum, e);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    const auto e = hn::IfThenElseZero(hn::FirstN(d, rest),
                                      Exp(d, hn::Sub(LoadFirstElements(d, x + i, rest), row_max)));
    if constexpr (kKeeps) StoreFirstElements(e, d, x + i, rest);
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, e)));
  }
  return total;
}

// Writes the gradients of a row. `x` holds its exponentials, whose sum is `sum`.
template <typename T>
void GradientRow(float* x, int64_t n, int32_t target, double sum, float factor, T* to) {
  const float scale = static_cast<float>(factor / sum);
  const float at_target = x[target] * scale - factor;
  // `to` begins where x does, which is safe because an element of `to` is never wider than one of
  // x.
  Transform(
      static_cast<size_t>(n), to,
      [scale](auto d, auto v) HWY_ATTR { return hn::Mul(hn::Set(d, scale), v); },
      static_cast<const float*>(x));
  Convert(size_t{1}, to + target, &at_target);
}

void PartStatistics(const float* x, int64_t n, float& max, float& sum) {
  max = Largest(static_cast<size_t>(n), x);
  sum = static_cast<float>(RowExp<false>(x, n, max));
}

// Writes the gradients of the logits in `x`. If `cap` is above 0, `x` holds capped logits, and the
// gradients are those before the cap. `to` may begin where x does.
template <typename T>
void PartGradient(const float* x, int64_t n, int32_t target, float max, double sum, float factor,
                  float cap, T* to) {
  const float scale = static_cast<float>(factor / sum);
  const bool is_here = target >= 0 && target < n;
  const float at_target = is_here ? x[target] : 0.0f;
  const auto gradient = [scale, max](auto d, auto v) HWY_ATTR {
    return hn::Mul(hn::Set(d, scale), Exp(d, hn::Sub(v, hn::Set(d, max))));
  };
  if (cap > 0) {
    const auto capped = [scale, max, cap](auto d, auto v) HWY_ATTR {
      const auto e = Exp(d, hn::Sub(v, hn::Set(d, max)));
      return hn::Mul(hn::Mul(hn::Set(d, scale), e), SoftCapSlope(d, v, cap));
    };
    Transform(static_cast<size_t>(n), to, capped, x);
  } else {
    Transform(static_cast<size_t>(n), to, gradient, x);
  }
  if (!is_here) return;
  float e = 0.0f;
  Transform(size_t{1}, &e, gradient, &at_target);
  e -= factor;
  if (cap > 0) e *= 1.0f - at_target / cap * (at_target / cap);
  Convert(size_t{1}, to + target, &e);
}

// Processes one row in three passes, during which it stays in the L2 cache. Returns its loss, and
// writes its gradients in type `gradients`, if there is one.
double RowLoss(float* x, int64_t n, int32_t target, std::optional<DType> gradients, float factor,
               float cap) {
  return WithElementType(gradients.value_or(DType::kFloat32), [&]<typename T>(T) HWY_ATTR {
    T* to = reinterpret_cast<T*>(x);
    if (target == kIgnoredTarget) {
      if (gradients.has_value()) std::fill_n(to, n, T{});
      return 0.0;
    }
    if (cap > 0) {
      Transform(
          static_cast<size_t>(n), x, [cap](auto d, auto v) HWY_ATTR { return SoftCap(d, v, cap); },
          static_cast<const float*>(x));
    }
    const float max = Largest(static_cast<size_t>(n), x);
    const double logit = static_cast<double>(x[target]) - static_cast<double>(max);
    if (cap > 0) {  // its gradients need the logits
      const double sum = RowExp<false>(x, n, max);
      if (gradients.has_value()) PartGradient(x, n, target, max, sum, factor, cap, to);
      return std::log(sum) - logit;
    }
    const double sum = RowExp<true>(x, n, max);
    if (gradients.has_value()) GradientRow(x, n, target, sum, factor, to);
    return std::log(sum) - logit;
  });
}

void PartGradientRow(const float* x, int64_t n, int32_t target, float max, double sum, float factor,
                     float cap, DType dtype, void* to) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    if (target == kIgnoredTarget) {
      std::fill_n(static_cast<T*>(to), n, T{});
    } else {
      PartGradient(x, n, target, max, sum, factor, cap, static_cast<T*>(to));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(RowLoss);
HWY_EXPORT(PartStatistics);
HWY_EXPORT(PartGradientRow);

void SoftmaxPart(const float* x, int64_t n, float& max, float& sum) {
  HWY_DYNAMIC_DISPATCH(PartStatistics)(x, n, max, sum);
}

SoftmaxSum CombineSoftmaxParts(const float* values, int64_t parts, int64_t stride) {
  SoftmaxSum all;
  all.max = values[0];
  for (int64_t part = 1; part < parts; ++part) {
    const float max = values[part * stride];
    if (!(max <= all.max)) all.max = max;  // NaN stays NaN
  }
  for (int64_t part = 0; part < parts; ++part) {
    const float* const of_part = values + part * stride;
    const double below = static_cast<double>(of_part[0]) - static_cast<double>(all.max);
    all.sum += static_cast<double>(of_part[1]) * std::exp(below);
  }
  return all;
}

void SoftmaxGradientRow(const float* x, int64_t n, int32_t target, float max, double sum,
                        float factor, float cap, DType dtype, void* to) {
  HWY_DYNAMIC_DISPATCH(PartGradientRow)(x, n, target, max, sum, factor, cap, dtype, to);
}

void SoftmaxCrossEntropy(int64_t rows, int64_t vocab, float* logits, const int32_t* targets,
                         std::optional<DType> gradients, float factor, float cap, double& loss,
                         RowValues values) {
  const auto row_loss = HWY_DYNAMIC_DISPATCH(RowLoss);
  // Keeps the losses of a block of rows and then adds them in order, so that the sum does not
  // depend on the number of threads.
  constexpr int64_t kBlock = 64;
  double losses[kBlock];
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t count = std::min(kBlock, rows - begin);
    const RowValues block = values.From(begin);
    const auto weight = [&](int64_t r) { return block.weights == nullptr ? 1 : block.weights[r]; };
    ParallelFor(count, 1, [&](int64_t r, int64_t, int64_t) {
      losses[r] = row_loss(logits + (begin + r) * vocab, vocab, targets[begin + r], gradients,
                           factor * weight(r), cap);
      if (block.losses != nullptr) block.losses[r] = static_cast<float>(losses[r]);
    });
    for (int64_t r = 0; r < count; ++r) loss += losses[r] * static_cast<double>(weight(r));
  }
}

namespace {

// Returns the number of rows that count. InvalidArgument for a target that is not a token.
absl::StatusOr<int64_t> CountTargets(const LinearCrossEntropyCall& call) {
  int64_t counted = 0;
  for (int64_t row = 0; row < call.rows; ++row) {
    const int32_t target = call.targets[row];
    if (target == kIgnoredTarget) continue;
    if (target < 0 || target >= call.vocab) {
      return InvalidArgument("LinearCrossEntropy: targets[", row, "] is ", target,
                             "; expected a token in [0, ", call.vocab, ") or ", kIgnoredTarget,
                             " to leave the row out");
    }
    ++counted;
  }
  return counted;
}

// Rounds the sum of all chunks to dweight, once.
void StoreWeightSum(const LinearCrossEntropyCall& call, const float* weight_sum) {
  ApplyEpilogue({.m = call.vocab,
                 .n = call.dim,
                 .c_dtype = call.grad_dtype,
                 .c = call.dweight,
                 .ldc = call.dim,
                 .accumulate = call.accumulate_dweight},
                weight_sum, call.dim);
}

// Writes loss 0 and zero gradients, since no row counts. Zero has all bits zero in every type.
void WriteZeros(const LinearCrossEntropyCall& call) {
  *call.loss = 0.0f;
  if (call.row_losses != nullptr) std::fill_n(call.row_losses, call.rows, 0.0f);
  const size_t hidden = static_cast<size_t>(call.rows * call.dim);
  const size_t weight = static_cast<size_t>(call.vocab * call.dim);
  if (call.dhidden != nullptr) std::memset(call.dhidden, 0, hidden * SizeOf(call.dtype));
  if (call.dweight != nullptr && !call.accumulate_dweight)
    std::memset(call.dweight, 0, weight * SizeOf(call.grad_dtype));
}

// Returns the scratch floats for the sum of dweight: none if it is fp32 or if one chunk has all
// rows.
int64_t WeightSumFloats(const LinearCrossEntropyCall& call, int64_t chunk_rows) {
  const bool apart =
      call.dweight != nullptr && call.grad_dtype != DType::kFloat32 && chunk_rows < call.rows;
  return apart ? call.vocab * call.dim : 0;
}

}  // namespace

int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab) {
  if (rows <= 0 || vocab <= 0) return 0;
  const int64_t bytes_per_row = vocab * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max(kMinChunkRows, kChunkBytes / bytes_per_row);
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, CpuKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(const int64_t counted, CountTargets(call));
  if (counted == 0) {
    WriteZeros(call);
    return absl::OkStatus();
  }
  const int64_t chunk_rows = LinearCrossEntropyChunkRows(call.rows, call.vocab);
  const int64_t weight_sum_floats = WeightSumFloats(call, chunk_rows);
  ZEROTH_ASSIGN_OR_RETURN(float* scratch, kernels.workspace().ReserveFloats(
                                              chunk_rows * call.vocab + weight_sum_floats));
  float* const weight_sum = weight_sum_floats > 0 ? scratch : nullptr;
  float* const logits = scratch + weight_sum_floats;
  std::optional<DType> gradients;
  if (call.dhidden != nullptr || call.dweight != nullptr) gradients = call.dtype;
  double divisor = call.row_weights != nullptr ? 1.0 : static_cast<double>(counted);
  if (call.divisor != nullptr) divisor = static_cast<double>(*call.divisor);
  const double mean = 1.0 / divisor;
  const float factor = static_cast<float>(call.grad_scale * mean);
  double loss = 0.0;
  for (int64_t begin = 0; begin < call.rows; begin += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, call.rows - begin);
    const LossChunk chunk{call, call.weight, logits, call.vocab, weight_sum, begin, rows};
    ZEROTH_RETURN_IF_ERROR(Gemm(chunk.Logits(), kernels));
    SoftmaxCrossEntropy(rows, call.vocab, logits, call.targets + begin, gradients, factor,
                        call.logit_cap, loss,
                        RowValues{call.row_weights, call.row_losses}.From(begin));
    if (call.dhidden != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.HiddenGradient(), kernels));
    }
    if (call.dweight != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.WeightGradient(), kernels));
    }
  }
  if (weight_sum != nullptr) StoreWeightSum(call, weight_sum);
  *call.loss = static_cast<float>(loss * mean);
  return absl::OkStatus();
}

const OnCpu<LinearCrossEntropy> linear_cross_entropy;

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
