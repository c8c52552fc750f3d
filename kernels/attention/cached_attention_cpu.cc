// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/cached_attention_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Computes one query against `count` keys of its head and their values, each of which is read once,
// in memory order. `scores` has room for `count` floats, `sum` for `dim`. Returns the log of the
// sum of exponentials.
template <typename T>
float QueryRow(const AttentionLayout& layout, const T* q, const T* keys, const T* values,
               int64_t stride, int64_t count, float* scores, float* sum, T* out) {
  const auto dim = static_cast<size_t>(layout.dim);
  for (int64_t key = 0; key < count; ++key) {
    scores[key] = layout.scale * Dot(dim, q, keys + key * stride);
  }
  const auto n = static_cast<size_t>(count);
  if (layout.cap > 0) {
    Transform(
        n, scores, [cap = layout.cap](auto d, auto x) HWY_ATTR { return SoftCap(d, x, cap); },
        scores);
  }
  const float max = *std::max_element(scores, scores + count);
  Transform(
      n, scores, [max](auto d, auto x) HWY_ATTR { return Exp(d, hn::Sub(x, hn::Set(d, max))); },
      scores);
  const float total = Sum(n, scores);
  std::fill_n(sum, layout.dim, 0.0f);
  for (int64_t key = 0; key < count; ++key) {
    const float weight = scores[key];
    Transform(
        dim, sum,
        [weight](auto d, auto acc, auto v)
            HWY_ATTR { return hn::MulAdd(hn::Set(d, weight), v, acc); },
        sum, values + key * stride);
  }
  const float inverse = 1.0f / total;
  Transform(
      dim, out, [inverse](auto d, auto x) HWY_ATTR { return hn::Mul(x, hn::Set(d, inverse)); },
      sum);
  return max + std::log(total);
}

// Computes all new queries of one head.
void QueriesOfHead(const CachedAttentionCall& call, int64_t head, float* scratch) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const AttentionShape& shape = call.shape;
    const AttentionLayout layout(shape);
    const int64_t stride = 2 * shape.kv_heads * layout.dim;
    const int64_t kv = head / (shape.heads / shape.kv_heads);
    const T* keys = static_cast<const T*>(call.cache) + kv * layout.dim;
    const T* values = keys + shape.kv_heads * layout.dim;
    for (int64_t query = 0; query < shape.seq; ++query) {
      const int64_t end = call.past + query + 1;
      const int64_t first = shape.window == 0 ? 0 : std::max<int64_t>(0, end - shape.window);
      const float lse = QueryRow(
          layout, static_cast<const T*>(call.qkv) + query * layout.packed + head * layout.dim,
          keys + first * stride, values + first * stride, stride, end - first, scratch,
          scratch + call.past + shape.seq,
          static_cast<T*>(call.out) + (query * shape.heads + head) * layout.dim);
      if (call.lse != nullptr) call.lse[head * shape.seq + query] = lse;
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(QueriesOfHead);

absl::Status Run(const CachedAttentionCall& call, CpuKernels& kernels) {
  const AttentionShape& shape = call.shape;
  if (IsEmpty(shape)) return absl::OkStatus();
  const AttentionLayout layout(shape);
  const int64_t row = 2 * shape.kv_heads * layout.dim;
  for (int64_t token = 0; token < shape.seq; ++token) {
    std::memcpy(Advance(call.cache, (call.past + token) * row, call.dtype),
                Advance(call.qkv, token * layout.packed + layout.keys_begin, call.dtype),
                static_cast<size_t>(row) * SizeOf(call.dtype));
  }
  // A prompt attends only to itself, which the tiled kernel of training computes faster.
  if (call.past == 0) {
    return AttentionForward({shape, call.dtype, call.qkv, nullptr, call.out, call.lse}, kernels);
  }
  const AttentionTeam team(shape, shape.heads);
  const int64_t floats = call.past + shape.seq + layout.width;
  ZEROTH_ASSIGN_OR_RETURN(float* scratch,
                          kernels.workspace().ReserveFloats(floats * team.threads()));
  const auto queries = HWY_DYNAMIC_DISPATCH(QueriesOfHead);
  team.Run([&](int64_t thread, int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) queries(call, head, scratch + thread * floats);
  });
  return absl::OkStatus();
}
const OnCpu<Run> cached_attention;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
