// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_backward_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/attention/attention_tiles-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// delta[r] = dout[r] . out[r]. The rows of both are `stride` elements apart.
template <typename T>
void RowDots(const T* dout, const T* out, int64_t stride, int64_t rows, int64_t dim, float* delta) {
  const TileTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, dout += stride, out += stride) {
    auto sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + lanes <= dim; i += lanes)
      sum = hn::MulAdd(LoadElements(d, dout + i), LoadElements(d, out + i), sum);
    if (i < dim) {
      const size_t rest = static_cast<size_t>(dim - i);
      sum = hn::MulAdd(LoadFirstElements(d, dout + i, rest), LoadFirstElements(d, out + i, rest),
                       sum);
    }
    delta[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// Replaces the scores in `p` with probabilities, and the gradients of probabilities in `ds` with
// those of scores. Entries in [valid, kKeyTile) become zeros. If `kCaps`, the softmax is of capped
// scores, and the gradients are those of scores before the cap.
template <bool kCaps, class D>
HWY_INLINE void SoftmaxBackwardRow(D d, int64_t valid, float cap, float lse, float delta,
                                   float* HWY_RESTRICT p, float* HWY_RESTRICT ds) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row_lse = hn::Set(d, lse);
  const auto row_delta = hn::Set(d, delta);
  int64_t i = 0;
  for (; i < valid; i += lanes) {
    auto score = hn::Load(d, p + i);
    if constexpr (kCaps) score = SoftCap(d, score, cap);
    auto e = Exp(d, hn::Sub(score, row_lse));
    auto grad = hn::Mul(e, hn::Sub(hn::Load(d, ds + i), row_delta));
    if constexpr (kCaps) grad = hn::Mul(grad, SoftCapSlope(d, score, cap));
    if (i + lanes > valid) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(valid - i));
      e = hn::IfThenElseZero(mask, e);
      grad = hn::IfThenElseZero(mask, grad);
    }
    hn::Store(e, d, p + i);
    hn::Store(grad, d, ds + i);
  }
  for (; i < kKeyTile; i += lanes) {
    hn::Store(hn::Zero(d), d, p + i);
    hn::Store(hn::Zero(d), d, ds + i);
  }
}

// Processes the tile of keys [key, key + keys) and query rows [begin, begin + rows): adds to their
// dq, dk and dv.
void BackwardTile(const AttentionLayout& layout, const FirstKeys& first_keys,
                  const BackwardScratch& at, int64_t key, int64_t keys, int64_t begin, int64_t rows,
                  const float* lse) {
  const TileTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = layout.width;
  const int64_t width_vectors = width / lanes;
  constexpr float kAdd[kMicroRows] = {1, 1, 1, 1, 1, 1};
  for (int64_t r = 0; r < rows; r += kMicroRows) {
    const int64_t count = std::min<int64_t>(kMicroRows, rows - r);
    const int64_t seen = std::min(keys, begin + r + count - key);
    const int64_t vectors = (seen + lanes - 1) / lanes;
    const int64_t row = begin + r;
    float* p = at.p + r * kKeyTile;
    float* ds = at.ds + r * kKeyTile;
    MicroGemm(d, count, {at.q + row * width, width, 1}, at.k_t + key * width, kKeyTile, layout.dim,
              nullptr, p, kKeyTile, vectors);
    MicroGemm(d, count, {at.dout + row * width, width, 1}, at.v_t + key * width, kKeyTile,
              layout.dim, nullptr, ds, kKeyTile, vectors);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t valid = std::min(seen, row + i + 1 - key);
      if (layout.cap > 0) {
        SoftmaxBackwardRow<true>(d, valid, layout.cap, lse[row + i], at.delta[row + i],
                                 p + i * kKeyTile, ds + i * kKeyTile);
      } else {
        SoftmaxBackwardRow<false>(d, valid, layout.cap, lse[row + i], at.delta[row + i],
                                  p + i * kKeyTile, ds + i * kKeyTile);
      }
      const int64_t hidden = std::clamp<int64_t>(first_keys.Of(row + i) - key, 0, kKeyTile);
      std::fill_n(p + i * kKeyTile, hidden, 0.0f);
      std::fill_n(ds + i * kKeyTile, hidden, 0.0f);
    }
    MicroGemm(d, count, {ds, kKeyTile, 1}, at.k + key * width, width, seen, kAdd,
              at.dq + row * width, width, width_vectors);
  }
  for (int64_t c = 0; c < keys; c += kMicroRows) {
    const int64_t count = std::min<int64_t>(kMicroRows, keys - c);
    const int64_t first =
        std::max<int64_t>(0, key + c - begin);  // earlier rows see none of these keys
    if (first >= rows) break;
    MicroGemm(d, count, {at.p + first * kKeyTile + c, 1, kKeyTile},
              at.dout + (begin + first) * width, width, rows - first, kAdd,
              at.dv + (key + c) * width, width, width_vectors);
    MicroGemm(d, count, {at.ds + first * kKeyTile + c, 1, kKeyTile}, at.q + (begin + first) * width,
              width, rows - first, kAdd, at.dk + (key + c) * width, width, width_vectors);
  }
}

// Processes all query heads that read key head `kv`, in order, so that the sums in dk and dv have a
// fixed order.
template <typename T>
void BackwardGroup(const AttentionBackwardCall& call, int64_t batch, int64_t kv, float* scratch) {
  const AttentionShape& shape = call.shape;
  const AttentionLayout layout(shape);
  const BackwardScratch at(layout, scratch);
  const FirstKeys first_keys(shape, call.starts, batch);
  const int64_t seq = layout.seq;
  const T* tokens = static_cast<const T*>(call.qkv) + batch * seq * layout.packed;
  T* dtokens = static_cast<T*>(call.dqkv) + batch * seq * layout.packed;
  const int64_t out_stride = shape.heads * layout.dim;
  const float one = 1.0f;
  PackHead(tokens + layout.KeyColumn(kv), layout, at.k, at.k_t, nullptr);
  PackHead(tokens + layout.ValueColumn(kv), layout, nullptr, at.v_t, at.p);
  std::fill_n(at.dk, seq * layout.width, 0.0f);
  std::fill_n(at.dv, seq * layout.width, 0.0f);
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
    const int64_t out_offset = batch * seq * out_stride + head * layout.dim;
    const T* dout = static_cast<const T*>(call.dout) + out_offset;
    const T* out = static_cast<const T*>(call.out) + out_offset;
    CopyRows(tokens + head * layout.dim, layout.packed, seq, layout.dim, layout.scale, at.q,
             layout.width);
    CopyRows(dout, out_stride, seq, layout.dim, 1.0f, at.dout, layout.width);
    RowDots(dout, out, out_stride, seq, layout.dim, at.delta);
    std::fill_n(at.dq, seq * layout.width, 0.0f);
    const float* head_lse = call.lse + (batch * shape.heads + head) * seq;
    for (int64_t key = 0; key < seq; key += kKeyTile) {
      const int64_t keys = std::min(kKeyTile, seq - key);
      for (int64_t begin = key / kQueryTile * kQueryTile; begin < seq; begin += kQueryTile) {
        int64_t rows = std::min(kQueryTile, seq - begin);
        while (rows > 0 && first_keys.Of(begin + rows - 1) >= key + keys) --rows;
        if (rows == 0) break;  // later queries see none of these keys either
        BackwardTile(layout, first_keys, at, key, keys, begin, rows, head_lse);
      }
    }
    StoreRows(at.dq, layout.width, seq, layout.dim, &layout.scale, 0, dtokens + head * layout.dim,
              layout.packed);
  }
  StoreRows(at.dk, layout.width, seq, layout.dim, &one, 0, dtokens + layout.KeyColumn(kv),
            layout.packed);
  StoreRows(at.dv, layout.width, seq, layout.dim, &one, 0, dtokens + layout.ValueColumn(kv),
            layout.packed);
}

void BackwardGroupOfAny(const AttentionBackwardCall& call, int64_t batch, int64_t kv,
                        float* scratch) {
  WithElementType(call.dtype, [&](auto element) HWY_ATTR {
    BackwardGroup<decltype(element)>(call, batch, kv, scratch);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(BackwardGroupOfAny);

absl::Status AttentionBackward(const AttentionBackwardCall& call, CpuKernels& kernels) {
  const AttentionShape& shape = call.shape;
  ZEROTH_RETURN_IF_ERROR(CheckStarts(shape, call.starts));
  const AttentionTeam team(shape, shape.kv_heads);
  if (team.threads() == 0) return absl::OkStatus();
  const int64_t floats = BackwardScratch::Floats(AttentionLayout(shape));
  ZEROTH_ASSIGN_OR_RETURN(float* scratch,
                          kernels.workspace().ReserveFloats(floats * team.threads()));
  const auto backward = HWY_DYNAMIC_DISPATCH(BackwardGroupOfAny);
  team.Run([&](int64_t thread, int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      backward(call, item / shape.kv_heads, item % shape.kv_heads, scratch + thread * floats);
    }
  });
  return absl::OkStatus();
}

const OnCpu<AttentionBackward> attention_backward;

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
