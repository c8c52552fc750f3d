// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/by_element_type.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/attention_layout.h"
#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/micro_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// dst[rows, width] = src[rows, dim] * factor, zeros in the columns from dim on.
template <typename T>
void CopyRows(const T* HWY_RESTRICT src, int64_t src_stride, int64_t rows, int64_t dim,
              float factor, float* HWY_RESTRICT dst, int64_t width) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r, src += src_stride, dst += width) {
    int64_t i = 0;
    for (; i + lanes <= dim; i += lanes)
      hn::Store(hn::Mul(scale, LoadElements(d, src + i)), d, dst + i);
    if (i < dim) {
      const size_t rest = static_cast<size_t>(dim - i);
      hn::Store(hn::Mul(scale, LoadFirstElements(d, src + i, rest)), d, dst + i);
      i += lanes;
    }
    for (; i < width; i += lanes) hn::Store(hn::Zero(d), d, dst + i);
  }
}

// The inverse: dst[rows, dim] = src[rows, width] * factor[row * factor_stride].
template <typename T>
void StoreRows(const float* HWY_RESTRICT src, int64_t width, int64_t rows, int64_t dim,
               const float* factor, int64_t factor_stride, T* HWY_RESTRICT dst,
               int64_t dst_stride) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, src += width, dst += dst_stride, factor += factor_stride) {
    const auto scale = hn::Set(d, *factor);
    int64_t i = 0;
    for (; i + lanes <= dim; i += lanes)
      StoreElements(hn::Mul(scale, hn::Load(d, src + i)), d, dst + i);
    if (i < dim) {
      const size_t rest = static_cast<size_t>(dim - i);
      StoreFirstElements(hn::Mul(scale, hn::Load(d, src + i)), d, dst + i, rest);
    }
  }
}

// dst[width][kKeyTile] = the transpose of src[kKeyTile][width], four by four where there are
// vectors.
void TransposeTile(const float* HWY_RESTRICT src, int64_t width, float* HWY_RESTRICT dst) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t key = 0; key < kKeyTile; ++key) {
    for (int64_t i = 0; i < width; ++i) dst[i * kKeyTile + key] = src[key * width + i];
  }
#else
  const hn::FixedTag<float, 4> d;
  for (int64_t key = 0; key < kKeyTile; key += 4) {
    for (int64_t i = 0; i < width; i += 4) {
      const float* from = src + key * width + i;
      float* to = dst + i * kKeyTile + key;
      const auto r0 = hn::Load(d, from);
      const auto r1 = hn::Load(d, from + width);
      const auto r2 = hn::Load(d, from + 2 * width);
      const auto r3 = hn::Load(d, from + 3 * width);
      const auto even_low = hn::InterleaveLower(d, r0, r2);
      const auto odd_low = hn::InterleaveLower(d, r1, r3);
      const auto even_high = hn::InterleaveUpper(d, r0, r2);
      const auto odd_high = hn::InterleaveUpper(d, r1, r3);
      hn::Store(hn::InterleaveLower(d, even_low, odd_low), d, to);
      hn::Store(hn::InterleaveUpper(d, even_low, odd_low), d, to + kKeyTile);
      hn::Store(hn::InterleaveLower(d, even_high, odd_high), d, to + 2 * kKeyTile);
      hn::Store(hn::InterleaveUpper(d, even_high, odd_high), d, to + 3 * kKeyTile);
    }
  }
#endif
}

// Copies a head's rows, zero-padded to whole tiles, into `rows_out`, and every tile's transpose
// into `transposed`; either may be null. `tile` holds [kKeyTile, width].
template <typename T>
void PackHead(const T* src, const AttentionLayout& layout, float* rows_out, float* transposed,
              float* tile) {
  for (int64_t key = 0; key < layout.seq; key += kKeyTile) {
    const int64_t rows = std::min(kKeyTile, layout.seq - key);
    float* to = rows_out != nullptr ? rows_out + key * layout.width : tile;
    CopyRows(src + key * layout.packed, layout.packed, rows, layout.dim, 1.0f, to, layout.width);
    std::fill(to + rows * layout.width, to + kKeyTile * layout.width, 0.0f);
    if (transposed != nullptr) TransposeTile(to, layout.width, transposed + key * layout.width);
  }
}

// Running state of one query row: the softmax so far is exp(score - max) / (sum over lanes of
// sums).
struct RowState {
  HWY_ALIGN float sums[kWidthMultiple];
  float max;
};

// Turns one row of scores into exponentials below the new running maximum; entries from `valid` on
// become zeros, up to `vectors` whole vectors. Returns the factor by which what was accumulated
// before shrinks.
template <class D>
HWY_INLINE float SoftmaxRow(D d, float* HWY_RESTRICT scores, int64_t valid, int64_t vectors,
                            RowState& state) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = valid / lanes;
  const V old_max = hn::Set(d, state.max);
  V max = old_max;
  for (int64_t v = 0; v < whole; ++v) max = hn::Max(max, hn::Load(d, scores + v * lanes));
  if (whole < vectors) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(valid - whole * lanes));
    const V low = hn::Set(d, -std::numeric_limits<float>::infinity());
    const V last = hn::IfThenElse(mask, hn::Load(d, scores + whole * lanes), low);
    hn::Store(last, d, scores + whole * lanes);
    max = hn::Max(max, last);
    for (int64_t v = whole + 1; v < vectors; ++v) hn::Store(low, d, scores + v * lanes);
  }
  max = hn::MaxOfLanes(d, max);
  const V shrink = Exp(d, hn::Sub(old_max, max));
  V sum = hn::Mul(shrink, hn::Load(d, state.sums));
  for (int64_t v = 0; v < vectors; ++v) {
    const V e = Exp(d, hn::Sub(hn::Load(d, scores + v * lanes), max));
    hn::Store(e, d, scores + v * lanes);
    sum = hn::Add(sum, e);
  }
  hn::Store(sum, d, state.sums);
  state.max = hn::GetLane(max);
  return hn::GetLane(shrink);
}

// One block of query rows [begin, begin + rows) of one head against every key it may see. `q` and
// `o` hold [kQueryTile, width]; `q` is scaled.
void ForwardBlock(const AttentionLayout& layout, int64_t begin, int64_t rows, const float* q,
                  const float* k_t, const float* v, float* o, RowState* states) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width_vectors = layout.width / lanes;
  HWY_ALIGN float scores[kMicroRows * kKeyTile];
  float shrink[kMicroRows];
  std::fill_n(o, rows * layout.width, 0.0f);
  std::fill_n(states, rows, RowState{{}, -std::numeric_limits<float>::infinity()});
  for (int64_t key = 0; key < begin + rows; key += kKeyTile) {
    const float* k_tile = k_t + key * layout.width;
    const float* v_tile = v + key * layout.width;
    for (int64_t r = 0; r < rows; r += kMicroRows) {
      const int64_t count = std::min<int64_t>(kMicroRows, rows - r);
      const int64_t seen =
          std::min(kKeyTile, begin + r + count - key);  // by the last of these rows
      if (seen <= 0) continue;
      const int64_t vectors = (seen + lanes - 1) / lanes;
      MicroGemm(d, count, {q + r * layout.width, layout.width, 1}, k_tile, kKeyTile, layout.dim,
                nullptr, scores, kKeyTile, vectors);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t valid = std::clamp<int64_t>(begin + r + i + 1 - key, 0, kKeyTile);
        shrink[i] =
            SoftmaxRow(d, scores + i * kKeyTile, std::min(valid, seen), vectors, states[r + i]);
      }
      MicroGemm(d, count, {scores, kKeyTile, 1}, v_tile, layout.width, seen, shrink,
                o + r * layout.width, layout.width, width_vectors);
    }
  }
}

// `pack_keys` is false when `scratch` still holds this key head from the call before.
template <typename T>
void ForwardHead(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                 float* scratch) {
  const hn::ScalableTag<float> d;
  const AttentionShape& shape = call.shape;
  const AttentionLayout layout(shape);
  const ForwardScratch at(layout, scratch);
  const T* tokens = static_cast<const T*>(call.qkv) + batch * layout.seq * layout.packed;
  T* out = static_cast<T*>(call.out);
  if (pack_keys) {
    const int64_t kv = head / (shape.heads / shape.kv_heads);
    PackHead(tokens + layout.KeyColumn(kv), layout, nullptr, at.k_t, at.tile);
    PackHead(tokens + layout.ValueColumn(kv), layout, at.v, nullptr, at.tile);
  }
  RowState states[kQueryTile];
  float sums[kQueryTile];
  float inverse[kQueryTile];
  for (int64_t begin = 0; begin < layout.seq; begin += kQueryTile) {
    const int64_t rows = std::min(kQueryTile, layout.seq - begin);
    CopyRows(tokens + begin * layout.packed + head * layout.dim, layout.packed, rows, layout.dim,
             layout.scale, at.q, layout.width);
    ForwardBlock(layout, begin, rows, at.q, at.k_t, at.v, at.o, states);
    for (int64_t r = 0; r < rows; ++r) {
      sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, states[r].sums)));
      inverse[r] = 1.0f / sums[r];
    }
    StoreRows(at.o, layout.width, rows, layout.dim, inverse, 1,
              out + ((batch * layout.seq + begin) * shape.heads + head) * layout.dim,
              shape.heads * layout.dim);
    if (call.lse == nullptr) continue;
    float* row_lse = call.lse + (batch * shape.heads + head) * layout.seq + begin;
    for (int64_t r = 0; r < rows; ++r) row_lse[r] = states[r].max + std::log(sums[r]);
  }
}

// delta[r] = dout[r] . out[r], both with rows `stride` apart.
template <typename T>
void RowDots(const T* dout, const T* out, int64_t stride, int64_t rows, int64_t dim, float* delta) {
  const hn::ScalableTag<float> d;
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

// p: scores in, probabilities out. ds: gradients of the probabilities in, of the scores out.
// Entries from `valid` on become zeros, up to kKeyTile.
template <class D>
HWY_INLINE void SoftmaxBackwardRow(D d, int64_t valid, float lse, float delta,
                                   float* HWY_RESTRICT p, float* HWY_RESTRICT ds) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row_lse = hn::Set(d, lse);
  const auto row_delta = hn::Set(d, delta);
  int64_t i = 0;
  for (; i < valid; i += lanes) {
    auto e = Exp(d, hn::Sub(hn::Load(d, p + i), row_lse));
    auto grad = hn::Mul(e, hn::Sub(hn::Load(d, ds + i), row_delta));
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

// The tile of keys [key, key + keys) against query rows [begin, begin + rows): adds to dq, dk and
// dv of those rows.
void BackwardTile(const AttentionLayout& layout, const BackwardScratch& at, int64_t key,
                  int64_t keys, int64_t begin, int64_t rows, const float* lse) {
  const hn::ScalableTag<float> d;
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
      SoftmaxBackwardRow(d, std::min(seen, row + i + 1 - key), lse[row + i], at.delta[row + i],
                         p + i * kKeyTile, ds + i * kKeyTile);
    }
    MicroGemm(d, count, {ds, kKeyTile, 1}, at.k + key * width, width, seen, kAdd,
              at.dq + row * width, width, width_vectors);
  }
  for (int64_t c = 0; c < keys; c += kMicroRows) {
    const int64_t count = std::min<int64_t>(kMicroRows, keys - c);
    const int64_t first =
        std::max<int64_t>(0, key + c - begin);  // earlier rows do not see these keys
    if (first >= rows) break;
    MicroGemm(d, count, {at.p + first * kKeyTile + c, 1, kKeyTile},
              at.dout + (begin + first) * width, width, rows - first, kAdd,
              at.dv + (key + c) * width, width, width_vectors);
    MicroGemm(d, count, {at.ds + first * kKeyTile + c, 1, kKeyTile}, at.q + (begin + first) * width,
              width, rows - first, kAdd, at.dk + (key + c) * width, width, width_vectors);
  }
}

// Every query head that reads key head `kv`, in order, so that their sums into dk and dv have one
// order.
template <typename T>
void BackwardGroup(const AttentionBackwardCall& call, int64_t batch, int64_t kv, float* scratch) {
  const AttentionShape& shape = call.shape;
  const AttentionLayout layout(shape);
  const BackwardScratch at(layout, scratch);
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
      for (int64_t begin = key / kQueryTile * kQueryTile; begin < seq; begin += kQueryTile) {
        BackwardTile(layout, at, key, std::min(kKeyTile, seq - key), begin,
                     std::min(kQueryTile, seq - begin), head_lse);
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

// HWY_EXPORT takes the name of a function.
void ForwardHeadF32(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                    float* scratch) {
  ForwardHead<float>(call, batch, head, pack_keys, scratch);
}
void ForwardHeadBF16(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                     float* scratch) {
  ForwardHead<BFloat16>(call, batch, head, pack_keys, scratch);
}
void ForwardHeadF16(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                    float* scratch) {
  ForwardHead<Float16>(call, batch, head, pack_keys, scratch);
}
void BackwardGroupF32(const AttentionBackwardCall& call, int64_t batch, int64_t kv,
                      float* scratch) {
  BackwardGroup<float>(call, batch, kv, scratch);
}
void BackwardGroupBF16(const AttentionBackwardCall& call, int64_t batch, int64_t kv,
                       float* scratch) {
  BackwardGroup<BFloat16>(call, batch, kv, scratch);
}
void BackwardGroupF16(const AttentionBackwardCall& call, int64_t batch, int64_t kv,
                      float* scratch) {
  BackwardGroup<Float16>(call, batch, kv, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(ForwardHeadF32);
HWY_EXPORT(ForwardHeadBF16);
HWY_EXPORT(ForwardHeadF16);
HWY_EXPORT(BackwardGroupF32);
HWY_EXPORT(BackwardGroupBF16);
HWY_EXPORT(BackwardGroupF16);

bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}

// Work items [begin, end) of one thread: an even, contiguous cut, the same in every run.
struct ItemRange {
  int64_t begin;
  int64_t end;
};

ItemRange RangeOf(int64_t items, int thread, int threads) {
  return {items * thread / threads, items * (thread + 1) / threads};
}

int Team(int64_t items) {
  return static_cast<int>(std::min<int64_t>(items, omp_get_max_threads()));
}

}  // namespace

absl::Status AttentionForward(const AttentionCall& call, Workspace& workspace) {
  const AttentionShape& shape = call.shape;
  if (IsEmpty(shape)) return absl::OkStatus();
  const int64_t items = shape.batch * shape.heads;
  const int threads = Team(items);
  const int64_t floats = ForwardScratch::Floats(AttentionLayout(shape));
  ZEROTH_ASSIGN_OR_RETURN(float* scratch, workspace.ReserveFloats(floats * threads));
  const auto forward =
      ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(ForwardHeadF32),
                    HWY_DYNAMIC_DISPATCH(ForwardHeadBF16), HWY_DYNAMIC_DISPATCH(ForwardHeadF16));
  const int64_t group = shape.heads / shape.kv_heads;
  const auto run = [&](int thread) {
    const ItemRange range = RangeOf(items, thread, threads);
    for (int64_t item = range.begin; item < range.end; ++item) {
      const int64_t head = item % shape.heads;
      // Neighbouring heads of one group share what is packed.
      const bool pack_keys = item == range.begin || head % group == 0;
      forward(call, item / shape.heads, head, pack_keys, scratch + thread * floats);
    }
  };
  if (threads == 1) {
    run(0);
    return absl::OkStatus();
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int thread = 0; thread < threads; ++thread) run(thread);
  return absl::OkStatus();
}

absl::Status AttentionBackward(const AttentionBackwardCall& call, Workspace& workspace) {
  const AttentionShape& shape = call.shape;
  if (IsEmpty(shape)) return absl::OkStatus();
  const int64_t items = shape.batch * shape.kv_heads;
  const int threads = Team(items);
  const int64_t floats = BackwardScratch::Floats(AttentionLayout(shape));
  ZEROTH_ASSIGN_OR_RETURN(float* scratch, workspace.ReserveFloats(floats * threads));
  const auto backward = ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(BackwardGroupF32),
                                      HWY_DYNAMIC_DISPATCH(BackwardGroupBF16),
                                      HWY_DYNAMIC_DISPATCH(BackwardGroupF16));
  const auto run = [&](int thread) {
    const ItemRange range = RangeOf(items, thread, threads);
    for (int64_t item = range.begin; item < range.end; ++item) {
      backward(call, item / shape.kv_heads, item % shape.kv_heads, scratch + thread * floats);
    }
  };
  if (threads == 1) {
    run(0);
    return absl::OkStatus();
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int thread = 0; thread < threads; ++thread) run(thread);
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
