// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/host_reduce.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/container/inlined_vector.h"

#include "zeroth/core/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/comm/host_reduce.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

#include "zeroth/core/base/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth {
namespace HWY_NAMESPACE {

// 8 KiB of float32: the blocks of a tree over eight ranks and one block of each source fit in L1.
constexpr size_t kBlock = 2048;

struct Sum {
  template <class V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Max {
  // A comparison with NaN is false and selects b, so only a NaN in a has to be checked.
  template <class V>
  static HWY_INLINE V Combine(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};

// Reduces one vector of kCount <= 4 ranks along the tree, in registers.
template <int kCount, class Op, class Source, class D>
HWY_INLINE hn::Vec<D> LeafTree(D d, const Source* const* sources, size_t at) {
  if constexpr (kCount == 1) {
    return LoadElements(d, sources[0] + at);
  } else {
    constexpr int kLeft = kCount == 2 ? 1 : 2;
    return Op::Combine(LeafTree<kLeft, Op>(d, sources, at),
                       LeafTree<kCount - kLeft, Op>(d, sources + kLeft, at));
  }
}

template <int kCount, class Op, class Source, class D>
HWY_INLINE size_t LeafRange(D d, const Source* const* sources, size_t begin, size_t count,
                            float* out) {
  // Copied to local variables: the stores below may alias anything, so the compiler would load
  // pointers in memory again for every vector.
  const Source* local[kCount];
  std::copy(sources, sources + kCount, local);
  const size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= count; begin += lanes) {
    hn::StoreU(LeafTree<kCount, Op>(d, local, begin), d, out + begin);
  }
  return begin;
}

// The last elements use the same code with vectors of one lane, so no element's bits depend on its
// position.
template <int kCount, class Op, class Source>
HWY_INLINE void LeafBlock(const Source* const* sources, size_t count, float* out) {
  const size_t done = LeafRange<kCount, Op>(hn::ScalableTag<float>(), sources, 0, count, out);
  LeafRange<kCount, Op>(hn::CappedTag<float, 1>(), sources, done, count, out);
}

// Reduces `ranks` sources along the tree into `out`. Writes `out` only after it has read every
// source, because `out` may be one of them. `scratch` has two blocks for each level above the
// leaves.
template <class Op, class Source>
void TreeBlock(const Source* const* sources, int ranks, size_t count, float* out, float* scratch) {
  switch (ranks) {
    case 1:
      return LeafBlock<1, Op>(sources, count, out);
    case 2:
      return LeafBlock<2, Op>(sources, count, out);
    case 3:
      return LeafBlock<3, Op>(sources, count, out);
    case 4:
      return LeafBlock<4, Op>(sources, count, out);
  }
  int left_ranks = 4;
  while (2 * left_ranks < ranks) left_ranks *= 2;
  float* const left = scratch;
  float* const right = scratch + kBlock;
  TreeBlock<Op>(sources, left_ranks, count, left, scratch + 2 * kBlock);
  TreeBlock<Op>(sources + left_ranks, ranks - left_ranks, count, right, scratch + 2 * kBlock);
  const float* const halves[] = {left, right};
  LeafBlock<2, Op>(halves, count, out);
}

size_t ScratchBlocks(int ranks) {
  size_t blocks = 0;
  for (int reach = 4; reach < ranks; reach *= 2) blocks += 2;
  return blocks;
}

template <class Result, class D>
HWY_INLINE size_t FinishRange(D d, const float* values, size_t begin, size_t count, float scale,
                              bool accumulate, Result* out) {
  const auto factor = hn::Set(d, scale);
  const size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= count; begin += lanes) {
    auto value = hn::Mul(hn::LoadU(d, values + begin), factor);
    if (accumulate) value = hn::Add(LoadElements(d, out + begin), value);
    StoreElements(value, d, out + begin);
  }
  return begin;
}

template <class Op, class Source, class Result>
void ReduceTyped(const HostReduction& r) {
  const int ranks = static_cast<int>(r.sources.size());
  const int divisor = r.mean_of > 0 ? r.mean_of : ranks;
  const float scale = r.op == ReduceOp::kMean ? 1.0f / static_cast<float>(divisor) : 1.0f;
  const bool direct = std::is_same_v<Result, float> && r.op != ReduceOp::kMean && !r.accumulate;
  const auto scratch = hwy::AllocateAligned<float>((ScratchBlocks(ranks) + 1) * kBlock);
  float* const values = scratch.get();
  auto* const result = static_cast<Result*>(r.destinations[0]);
  auto sources = hwy::AllocateAligned<const Source*>(r.sources.size());

  const auto total = static_cast<size_t>(r.count);
  for (size_t begin = 0; begin < total; begin += kBlock) {
    const size_t count = std::min(kBlock, total - begin);
    for (int i = 0; i < ranks; ++i) {
      sources[static_cast<size_t>(i)] =
          static_cast<const Source*>(r.sources[static_cast<size_t>(i)]) + begin;
    }
    Result* const out = result + begin;
    float* const reduced = direct ? reinterpret_cast<float*>(out) : values;
    TreeBlock<Op>(sources.get(), ranks, count, reduced, scratch.get() + kBlock);
    if (!direct) {
      const size_t done =
          FinishRange(hn::ScalableTag<float>(), values, 0, count, scale, r.accumulate, out);
      FinishRange(hn::CappedTag<float, 1>(), values, done, count, scale, r.accumulate, out);
    }
    // Copied while the block is still in the cache.
    for (void* other : r.destinations.subspan(1)) {
      std::memcpy(static_cast<Result*>(other) + begin, out, count * sizeof(Result));
    }
  }
}

template <class Source, class Result>
void ReduceWithOp(const HostReduction& r) {
  if (r.op == ReduceOp::kMax) {
    ReduceTyped<Max, Source, Result>(r);
  } else {
    ReduceTyped<Sum, Source, Result>(r);
  }
}

void ReduceFloating(const HostReduction& r) {
  const bool widen = r.result_dtype == DType::kFloat32;
  if (r.dtype == DType::kFloat32) {
    if (widen) return ReduceWithOp<float, float>(r);
    r.result_dtype == DType::kBFloat16 ? ReduceWithOp<float, BFloat16>(r)
                                       : ReduceWithOp<float, Float16>(r);
  } else if (r.dtype == DType::kBFloat16) {
    widen ? ReduceWithOp<BFloat16, float>(r) : ReduceWithOp<BFloat16, BFloat16>(r);
  } else {
    widen ? ReduceWithOp<Float16, float>(r) : ReduceWithOp<Float16, Float16>(r);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth {
namespace {

HWY_EXPORT(ReduceFloating);

template <class T>
void ReduceIntegers(const HostReduction& r) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps around where the signed sum would be undefined
  constexpr size_t kIntegerBlock = 1024;
  T block[kIntegerBlock];
  const auto total = static_cast<size_t>(r.count);
  for (size_t begin = 0; begin < total; begin += kIntegerBlock) {
    const size_t count = std::min(kIntegerBlock, total - begin);
    std::memcpy(block, static_cast<const T*>(r.sources[0]) + begin, count * sizeof(T));
    for (const void* other : r.sources.subspan(1)) {
      const T* const source = static_cast<const T*>(other) + begin;
      if (r.op == ReduceOp::kMax) {
        for (size_t i = 0; i < count; ++i) block[i] = std::max(block[i], source[i]);
      } else {
        for (size_t i = 0; i < count; ++i) {
          block[i] = static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(block[i]) +
                                                          static_cast<Unsigned>(source[i])));
        }
      }
    }
    for (void* destination : r.destinations) {
      std::memcpy(static_cast<T*>(destination) + begin, block, count * sizeof(T));
    }
  }
}

}  // namespace

void ReduceOnHost(const HostReduction& r) {
  const bool floating = IsFloatingPoint(r.dtype);
  ZEROTH_CHECK(!r.sources.empty() && !r.destinations.empty());
  ZEROTH_CHECK(r.result_dtype == r.dtype ||
               (floating && IsFloatingPoint(r.result_dtype) &&
                (r.dtype == DType::kFloat32 || r.result_dtype == DType::kFloat32)));
  ZEROTH_CHECK(floating || r.op != ReduceOp::kMean);
  ZEROTH_CHECK(!r.accumulate || (r.result_dtype == DType::kFloat32 && r.op != ReduceOp::kMax &&
                                 r.destinations.size() == 1));
  if (r.count == 0) return;
  switch (r.dtype) {
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
      HWY_DYNAMIC_DISPATCH(ReduceFloating)(r);
      break;
    case DType::kInt32:
      ReduceIntegers<int32_t>(r);
      break;
    case DType::kInt64:
      ReduceIntegers<int64_t>(r);
      break;
    case DType::kUInt8:
      ReduceIntegers<uint8_t>(r);
      break;
  }
}

void ReduceOnHost(const StridedReduction& r) {
  absl::InlinedVector<const void*, 16> sources;
  const char* next = static_cast<const char*>(r.others);
  for (int rank = 0; rank < r.ranks; ++rank) {
    if (rank == r.own) {
      sources.push_back(r.own_elements);
    } else {
      sources.push_back(next);
      next += r.bytes_per_rank;
    }
  }
  ReduceOnHost(HostReduction{sources, absl::MakeConstSpan(&r.destination, 1), r.count, r.dtype,
                             r.result_dtype, r.op, r.accumulate, r.mean_of});
}

}  // namespace zeroth
#endif  // HWY_ONCE
