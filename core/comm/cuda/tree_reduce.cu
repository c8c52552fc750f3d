// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"

namespace zeroth::cuda {
namespace {

constexpr int kThreads = 256;
// Blocks per SM. With four packs of 16 bytes in flight per thread they saturate the memory, and
// leave most of the device to compute.
constexpr int kResidentBlocks = 2;

// The addresses of the ranks' elements, in two forms.
struct ListedRanks {
  const void* sources[kMostTreeRanks];
  void* destinations[kMostTreeRanks];
  int source_count;
  int destination_count;

  __host__ __device__ const void* source(int rank) const { return sources[rank]; }
  __host__ __device__ void* destination(int i) const { return destinations[i]; }
};

struct StridedRanks {
  const char* others;
  int64_t bytes_per_rank;
  int own;
  const void* own_elements;
  void* only_destination;
  int source_count;
  int destination_count;

  __host__ __device__ const void* source(int rank) const {
    if (rank == own) return own_elements;
    const int place = own >= 0 && rank > own ? rank - 1 : rank;
    return others + place * bytes_per_rank;
  }
  __host__ __device__ void* destination(int) const { return only_destination; }
};

template <typename Ranks>
struct Arguments {
  Ranks ranks;
  int64_t count;
  ReduceOp op;
  float factor;  // for kMean
  bool accumulate;
};

// Floats of every width are added as float, integers as unsigned integers.
__device__ __forceinline__ float Widen(float x) { return x; }
__device__ __forceinline__ float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float Widen(__half x) { return __half2float(x); }
__device__ __forceinline__ uint32_t Widen(int32_t x) { return static_cast<uint32_t>(x); }
__device__ __forceinline__ uint64_t Widen(int64_t x) { return static_cast<uint64_t>(x); }
__device__ __forceinline__ uint32_t Widen(uint8_t x) { return x; }

template <typename T, typename Sum>
__device__ __forceinline__ T Narrow(Sum x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return static_cast<T>(x);
  }
}

__device__ __forceinline__ float Plus(float a, float b) { return __fadd_rn(a, b); }
template <typename Integer>
__device__ __forceinline__ Integer Plus(Integer a, Integer b) {
  return a + b;  // unsigned: wraps around
}

__device__ __forceinline__ float Larger(float a, float b) {
  if (a != a) return a;
  if (b != b) return b;
  return a > b ? a : b;
}
template <typename T, typename Integer>
__device__ __forceinline__ Integer LargerAs(Integer a, Integer b) {
  return static_cast<T>(a) > static_cast<T>(b) ? a : b;
}

template <typename T, bool kMaximum, typename Sum>
__device__ __forceinline__ Sum Combine(Sum a, Sum b) {
  if constexpr (!kMaximum) {
    return Plus(a, b);
  } else if constexpr (std::is_same_v<Sum, float>) {
    return Larger(a, b);
  } else {
    return LargerAs<T>(a, b);
  }
}

// N neighbouring elements, which are moved at once.
template <typename T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};

template <typename T>
using SumOf = decltype(Widen(T()));

// The widened elements of a pack.
template <typename T, int N>
struct Sums {
  __device__ __forceinline__ void Set(const Pack<T, N>& pack) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = Widen(pack.at[i]);
  }
  // Adds the sum of the ranks before these.
  template <bool kMaximum>
  __device__ __forceinline__ void Join(const Sums& before) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = Combine<T, kMaximum>(before.at[i], at[i]);
  }

  SumOf<T> at[N];
};

// Adds the elements [at, at + N) of all ranks along the tree that splits n ranks at the largest
// power of two below n. Ranks are added in pairs, and the number of pairs so far is a binary
// counter: where it has a 1 at bit l, waiting[l] is the sum of a complete subtree of 2^(l + 1)
// ranks. Indices of `waiting` are compile-time constants, so it stays in registers. The next pair
// is loaded while one is added.
template <typename T, bool kMaximum, int kLevels, int N, typename Ranks>
__device__ __forceinline__ Sums<T, N> TreeSum(const Ranks& ranks, int64_t at) {
  const int count = ranks.source_count;
  const auto load = [&](int rank) {
    return *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(ranks.source(rank)) + at);
  };
  Sums<T, N> waiting[kLevels] = {};
  Pack<T, N> first = load(0);
  Pack<T, N> second = count > 1 ? load(1) : first;
  for (int rank = 0; rank + 1 < count; rank += 2) {
    Sums<T, N> left;
    Sums<T, N> sum;
    left.Set(first);
    sum.Set(second);
    if (rank + 2 < count) first = load(rank + 2);
    if (rank + 3 < count) second = load(rank + 3);
    sum.template Join<kMaximum>(left);
    // The loop has no early exit, which would prevent unrolling.
    bool is_carried = true;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if (is_carried && (rank >> (level + 1) & 1) != 0) {
        sum.template Join<kMaximum>(waiting[level]);
      } else if (is_carried) {
        waiting[level] = sum;
        is_carried = false;
      }
    }
  }
  // Adds the remaining sums, those of the fewest ranks first. If the number of ranks is odd, the
  // last rank is the smallest sum.
  Sums<T, N> total;
  total.Set(first);
  bool is_begun = count % 2 != 0;
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    const bool waits = (count >> (level + 1) & 1) != 0;
    if (waits && is_begun) {
      total.template Join<kMaximum>(waiting[level]);
    } else if (waits) {
      total = waiting[level];
      is_begun = true;
    }
  }
  return total;
}

template <typename T, typename Result, bool kMaximum, int kLevels, int N, typename Ranks>
__device__ __forceinline__ void ReduceAt(const Arguments<Ranks>& arguments, int64_t at) {
  const Ranks& ranks = arguments.ranks;
  Sums<T, N> sum = TreeSum<T, kMaximum, kLevels, N>(ranks, at);
  const auto destination = [&](int i) {
    return reinterpret_cast<Pack<Result, N>*>(static_cast<Result*>(ranks.destination(i)) + at);
  };
  if constexpr (std::is_same_v<SumOf<T>, float>) {
    if (arguments.op == ReduceOp::kMean) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum.at[i] = __fmul_rn(sum.at[i], arguments.factor);
    }
    if (arguments.accumulate) {
      const Pack<Result, N> before = *destination(0);
#pragma unroll
      for (int i = 0; i < N; ++i) sum.at[i] = __fadd_rn(Widen(before.at[i]), sum.at[i]);
    }
  }
  Pack<Result, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.at[i] = Narrow<Result>(sum.at[i]);
  for (int i = 0; i < ranks.destination_count; ++i) *destination(i) = result;
}

template <typename T, typename Result, bool kMaximum, int kLevels, int N, typename Ranks>
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    TreeReduceKernel(const __grid_constant__ Arguments<Ranks> arguments) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t count = arguments.count;
  for (int64_t at = first * N; at + N <= count; at += step * N) {
    ReduceAt<T, Result, kMaximum, kLevels, N>(arguments, at);
  }
  const int64_t rest = count / N * N + first;
  if (N > 1 && rest < count) ReduceAt<T, Result, kMaximum, kLevels, 1>(arguments, rest);
}

// The levels of a tree over up to 31 ranks, over up to 2047, and over the most ranks.
constexpr int kFewLevels = 4;
constexpr int kManyLevels = 10;
template <typename Ranks>
constexpr int kMostLevels = std::is_same_v<Ranks, ListedRanks> ? 6 : 20;
static_assert(kMostTreeRanks < 1 << (kMostLevels<ListedRanks> + 1));
static_assert(kMostStridedRanks < 1 << (kMostLevels<StridedRanks> + 1));

bool IsAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// True if every rank's elements can be moved 16 bytes at a time.
template <typename Ranks>
bool ArePacked(const Ranks& ranks) {
  for (int i = 0; i < ranks.destination_count; ++i) {
    if (!IsAligned(ranks.destination(i))) return false;
  }
  for (int rank = 0; rank < ranks.source_count; ++rank) {
    if (!IsAligned(ranks.source(rank))) return false;
  }
  return true;
}

template <typename T, typename Result, bool kMaximum, int kLevels, int N, typename Ranks>
absl::Status Enqueue(const Arguments<Ranks>& arguments, int multiprocessors, cudaStream_t stream) {
  const int64_t blocks = (arguments.count + kThreads * N - 1) / (kThreads * N);
  const int64_t at_once = int64_t{multiprocessors} * kResidentBlocks;
  const LaunchShape shape = {dim3(static_cast<unsigned>(std::min(blocks, at_once))),
                             dim3(kThreads)};
  return ZEROTH_LAUNCH((TreeReduceKernel<T, Result, kMaximum, kLevels, N, Ranks>), shape, stream,
                       arguments);
}

template <typename T, typename Result, typename Ranks>
absl::Status LaunchFor(const Arguments<Ranks>& arguments, int multiprocessors,
                       cudaStream_t stream) {
  constexpr int kMost = kMostLevels<Ranks>;
  if (arguments.op == ReduceOp::kMax) {
    return Enqueue<T, Result, true, kMost, 1>(arguments, multiprocessors, stream);
  }
  // Sums of floats get the fast kernels, because most reductions are of gradients.
  if constexpr (std::is_same_v<SumOf<T>, float>) {
    constexpr int kWidth = 16 / sizeof(T);
    constexpr int kLevels = std::min(kManyLevels, kMost);
    constexpr int kWidthOfMany = 4;  // the most that fits into registers
    const int ranks = arguments.ranks.source_count;
    const bool packed = ArePacked(arguments.ranks);
    if (packed && ranks < 2 << kFewLevels) {
      return Enqueue<T, Result, false, kFewLevels, kWidth>(arguments, multiprocessors, stream);
    }
    if (packed && ranks < 2 << kLevels) {
      return Enqueue<T, Result, false, kLevels, kWidthOfMany>(arguments, multiprocessors, stream);
    }
  }
  return Enqueue<T, Result, false, kMost, 1>(arguments, multiprocessors, stream);
}

template <typename T, typename Ranks>
absl::Status LaunchForFloat(const Arguments<Ranks>& arguments, DType result, int multiprocessors,
                            cudaStream_t stream) {
  if (result == DType::kFloat32) return LaunchFor<T, float>(arguments, multiprocessors, stream);
  return LaunchFor<T, T>(arguments, multiprocessors, stream);
}

// `mean_of`: the number that kMean divides by.
template <typename Reduction, typename Ranks>
absl::Status LaunchByType(const Reduction& reduction, const Ranks& ranks, int mean_of,
                          int multiprocessors, cudaStream_t stream) {
  if (reduction.count == 0) return absl::OkStatus();
  const Arguments<Ranks> arguments = {ranks, reduction.count, reduction.op,
                                      1.0f / static_cast<float>(mean_of), reduction.accumulate};
  const DType result = reduction.result_dtype;
  switch (reduction.dtype) {
    case DType::kFloat32:
      if (result == DType::kBFloat16) {
        return LaunchFor<float, __nv_bfloat16>(arguments, multiprocessors, stream);
      }
      if (result == DType::kFloat16) {
        return LaunchFor<float, __half>(arguments, multiprocessors, stream);
      }
      return LaunchFor<float, float>(arguments, multiprocessors, stream);
    case DType::kBFloat16:
      return LaunchForFloat<__nv_bfloat16>(arguments, result, multiprocessors, stream);
    case DType::kFloat16:
      return LaunchForFloat<__half>(arguments, result, multiprocessors, stream);
    case DType::kInt32:
      return LaunchFor<int32_t, int32_t>(arguments, multiprocessors, stream);
    case DType::kInt64:
      return LaunchFor<int64_t, int64_t>(arguments, multiprocessors, stream);
    case DType::kUInt8:
      return LaunchFor<uint8_t, uint8_t>(arguments, multiprocessors, stream);
  }
  return absl::InternalError("a reduction of an unknown dtype");
}

}  // namespace

absl::Status TreeReduce(const HostReduction& reduction, int multiprocessors, cudaStream_t stream) {
  const size_t most = kMostTreeRanks;
  if (reduction.sources.size() > most || reduction.destinations.size() > most) {
    return absl::UnimplementedError(absl::StrCat("a reduction over ", reduction.sources.size(),
                                                 " ranks in one GPU's memory; at most ", most));
  }
  ListedRanks ranks = {};
  std::copy(reduction.sources.begin(), reduction.sources.end(), ranks.sources);
  std::copy(reduction.destinations.begin(), reduction.destinations.end(), ranks.destinations);
  ranks.source_count = static_cast<int>(reduction.sources.size());
  ranks.destination_count = static_cast<int>(reduction.destinations.size());
  return LaunchByType(reduction, ranks,
                      reduction.mean_of > 0 ? reduction.mean_of : ranks.source_count,
                      multiprocessors, stream);
}

absl::Status TreeReduce(const StridedReduction& reduction, int multiprocessors,
                        cudaStream_t stream) {
  if (reduction.ranks > kMostStridedRanks) {
    return absl::UnimplementedError(
        absl::StrCat("a reduction over ", reduction.ranks, " ranks; at most ", kMostStridedRanks));
  }
  StridedRanks ranks = {};
  ranks.others = static_cast<const char*>(reduction.others);
  ranks.bytes_per_rank = reduction.bytes_per_rank;
  ranks.own = reduction.own;
  ranks.own_elements = reduction.own_elements;
  ranks.only_destination = reduction.destination;
  ranks.source_count = reduction.ranks;
  ranks.destination_count = 1;
  return LaunchByType(reduction, ranks, reduction.mean_of > 0 ? reduction.mean_of : reduction.ranks,
                      multiprocessors, stream);
}

}  // namespace zeroth::cuda
