// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_forward_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/attention/attention_tiles-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// The running state of one query row. The softmax so far is exp(score - max) / (the sum of the
// lanes of `sums`).
struct RowState {
  HWY_ALIGN float sums[kWidthMultiple];
  float max;
};

// Replaces one row of scores with exponentials relative to the new running maximum. Entries from
// `valid` on become zeros, up to `vectors` whole vectors. Returns the factor by which earlier sums
// must be multiplied.
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

// Does the same for a row that sees only keys [first, end); its scores begin with key `key`.
template <class D>
HWY_INLINE float MaskedSoftmaxRow(D d, float* HWY_RESTRICT scores, int64_t key, int64_t first,
                                  int64_t end, int64_t seen, RowState& state) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t vectors = (seen + lanes - 1) / lanes;
  const int64_t hidden = std::clamp<int64_t>(first - key, 0, kKeyTile);
  const int64_t valid = std::min(std::clamp<int64_t>(end - key, 0, kKeyTile), seen);
  if (hidden >= valid) {  // there may be no maximum yet
    std::fill_n(scores, vectors * lanes, 0.0f);
    return 1.0f;
  }
  std::fill_n(scores, hidden, -std::numeric_limits<float>::infinity());
  return SoftmaxRow(d, scores, valid, vectors, state);
}

// Caps `rows` rows of scores, `vectors` vectors each.
HWY_NOINLINE void CapScores(float cap, int64_t rows, int64_t vectors, float* HWY_RESTRICT scores) {
  const TileTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, scores += kKeyTile) {
    for (int64_t v = 0; v < vectors; ++v) {
      hn::Store(SoftCap(d, hn::Load(d, scores + v * lanes), cap), d, scores + v * lanes);
    }
  }
}

// Computes query rows [begin, begin + rows) of one head against every key that they see. `q` and
// `o` are [kQueryTile, width]; `q` is scaled.
void ForwardBlock(const AttentionLayout& layout, const FirstKeys& first_keys, int64_t begin,
                  int64_t rows, const float* q, const float* k_t, const float* v, float* o,
                  RowState* states) {
  const TileTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width_vectors = layout.width / lanes;
  HWY_ALIGN float scores[kMicroRows * kKeyTile];
  float shrink[kMicroRows];
  std::fill_n(o, rows * layout.width, 0.0f);
  std::fill_n(states, rows, RowState{{}, -std::numeric_limits<float>::infinity()});
  const int64_t first_tile = first_keys.Of(begin) / kKeyTile * kKeyTile;
  for (int64_t key = first_tile; key < begin + rows; key += kKeyTile) {
    const float* k_tile = k_t + key * layout.width;
    const float* v_tile = v + key * layout.width;
    for (int64_t r = 0; r < rows; r += kMicroRows) {
      const int64_t count = std::min<int64_t>(kMicroRows, rows - r);
      const int64_t seen = std::min(kKeyTile, begin + r + count - key);  // by the last of the rows
      if (seen <= 0 || first_keys.Of(begin + r) >= key + kKeyTile) continue;
      const int64_t vectors = (seen + lanes - 1) / lanes;
      MicroGemm(d, count, {q + r * layout.width, layout.width, 1}, k_tile, kKeyTile, layout.dim,
                nullptr, scores, kKeyTile, vectors);
      if (layout.cap > 0) CapScores(layout.cap, count, vectors, scores);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = begin + r + i;
        shrink[i] = MaskedSoftmaxRow(d, scores + i * kKeyTile, key, first_keys.Of(row), row + 1,
                                     seen, states[r + i]);
      }
      MicroGemm(d, count, {scores, kKeyTile, 1}, v_tile, layout.width, seen, shrink,
                o + r * layout.width, layout.width, width_vectors);
    }
  }
}

// Computes one query head. `pack_keys` is false if `scratch` still holds this key head from the
// previous call.
template <typename T>
void ForwardHead(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                 float* scratch) {
  const TileTag d;
  const AttentionShape& shape = call.shape;
  const AttentionLayout layout(shape);
  const ForwardScratch at(layout, scratch);
  const FirstKeys first_keys(shape, call.starts, batch);
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
    ForwardBlock(layout, first_keys, begin, rows, at.q, at.k_t, at.v, at.o, states);
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

void ForwardHeadOfAny(const AttentionCall& call, int64_t batch, int64_t head, bool pack_keys,
                      float* scratch) {
  WithElementType(call.dtype, [&](auto element) HWY_ATTR {
    ForwardHead<decltype(element)>(call, batch, head, pack_keys, scratch);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(ForwardHeadOfAny);

absl::Status CheckStarts(const AttentionShape& shape, const int32_t* starts) {
  if (starts == nullptr) return absl::OkStatus();
  for (int64_t i = 0; i < shape.batch * shape.seq; ++i) {
    const int64_t place = i % shape.seq;
    const int64_t least = place == 0 ? 0 : starts[i - 1];
    if (starts[i] >= least && starts[i] <= place) continue;
    return InvalidArgument(
        "Attention: starts is ", starts[i], " at token ", place, " of sequence ", i / shape.seq,
        ", expected ", least, " to ", place,
        ": where the token's document begins, which no later token's comes before");
  }
  return absl::OkStatus();
}

absl::Status AttentionForward(const AttentionCall& call, CpuKernels& kernels) {
  const AttentionShape& shape = call.shape;
  ZEROTH_RETURN_IF_ERROR(CheckStarts(shape, call.starts));
  const AttentionTeam team(shape, shape.heads);
  if (team.threads() == 0) return absl::OkStatus();
  const int64_t floats = ForwardScratch::Floats(AttentionLayout(shape));
  ZEROTH_ASSIGN_OR_RETURN(float* scratch,
                          kernels.workspace().ReserveFloats(floats * team.threads()));
  const auto forward = HWY_DYNAMIC_DISPATCH(ForwardHeadOfAny);
  const int64_t group = shape.heads / shape.kv_heads;
  team.Run([&](int64_t thread, int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item % shape.heads;
      // Neighbouring heads of a group share the packed keys and values.
      const bool pack_keys = item == begin || head % group == 0;
      forward(call, item / shape.heads, head, pack_keys, scratch + thread * floats);
    }
  });
  return absl::OkStatus();
}

const OnCpu<AttentionForward> attention;

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
