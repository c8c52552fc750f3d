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

// Where ranks' elements are, in two forms. kLevels is the most that a tree over them has.
struct ListedRanks {
  static constexpr int kLevels = 7;
  const void* sources[kMostTreeRanks];
  void* destinations[kMostTreeRanks];
  int source_count;
  int destination_count;

  __device__ const void* source(int rank) const { return sources[rank]; }
  __device__ void* destination(int i) const { return destinations[i]; }
};

struct StridedRanks {
  static constexpr int kLevels = 21;
  const char* others;
  int64_t bytes_per_rank;
  int own;
  const void* own_elements;
  void* only_destination;
  int source_count;
  int destination_count;

  __device__ const void* source(int rank) const {
    if (rank == own) return own_elements;
    const int place = own >= 0 && rank > own ? rank - 1 : rank;
    return others + place * bytes_per_rank;
  }
  __device__ void* destination(int) const { return only_destination; }
};

template <typename Ranks>
struct Arguments {
  Ranks ranks;
  int64_t count;
  ReduceOp op;
  float factor;  // of kMean
  bool accumulate;
};

// Floats of every width are added up as float; integers as themselves.
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

// Leaves come in rank order. A stack holds the sums of complete subtrees, the largest first, as the
// digits of a binary counter; at the end what is left is added from the smallest up. That is the
// tree which splits n ranks at the largest power of two below n.
template <typename T, typename Result, bool kMaximum, typename Ranks>
__global__ void __launch_bounds__(kThreads) TreeReduceKernel(Arguments<Ranks> arguments) {
  using Sum = decltype(Widen(T()));
  const Ranks& ranks = arguments.ranks;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < arguments.count;
       at += step) {
    Sum stack[Ranks::kLevels];
    int height = 0;
    for (int rank = 0; rank < ranks.source_count; ++rank) {
      Sum sum = Widen(static_cast<const T*>(ranks.source(rank))[at]);
      for (int merged = rank; (merged & 1) != 0; merged >>= 1) {
        sum = Combine<T, kMaximum>(stack[--height], sum);
      }
      stack[height++] = sum;
    }
    Sum sum = stack[--height];
    while (height > 0) sum = Combine<T, kMaximum>(stack[--height], sum);
    if constexpr (std::is_same_v<Sum, float>) {
      if (arguments.op == ReduceOp::kMean) sum = __fmul_rn(sum, arguments.factor);
      if (arguments.accumulate) {
        sum = __fadd_rn(Widen(static_cast<const Result*>(ranks.destination(0))[at]), sum);
      }
    }
    const Result result = Narrow<Result>(sum);
    for (int i = 0; i < ranks.destination_count; ++i) {
      static_cast<Result*>(ranks.destination(i))[at] = result;
    }
  }
}

template <typename T, typename Result, typename Ranks>
absl::Status LaunchFor(const Arguments<Ranks>& arguments, int multiprocessors,
                       cudaStream_t stream) {
  const int64_t blocks = (arguments.count + kThreads - 1) / kThreads;
  // Traffic leaves most of the device to compute, and few blocks saturate its memory.
  const LaunchShape shape = {
      dim3(static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{multiprocessors} * 4))),
      dim3(kThreads)};
  if (arguments.op == ReduceOp::kMax) {
    return ZEROTH_LAUNCH((TreeReduceKernel<T, Result, true, Ranks>), shape, stream, arguments);
  }
  return ZEROTH_LAUNCH((TreeReduceKernel<T, Result, false, Ranks>), shape, stream, arguments);
}

template <typename T, typename Ranks>
absl::Status LaunchForFloat(const Arguments<Ranks>& arguments, DType result, int multiprocessors,
                            cudaStream_t stream) {
  if (result == DType::kFloat32) return LaunchFor<T, float>(arguments, multiprocessors, stream);
  return LaunchFor<T, T>(arguments, multiprocessors, stream);
}

template <typename Ranks>
absl::Status LaunchByType(DType dtype, DType result, const Arguments<Ranks>& arguments,
                          int multiprocessors, cudaStream_t stream) {
  if (arguments.count == 0) return absl::OkStatus();
  switch (dtype) {
    case DType::kFloat32:
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
  Arguments<ListedRanks> arguments = {};
  ListedRanks& ranks = arguments.ranks;
  std::copy(reduction.sources.begin(), reduction.sources.end(), ranks.sources);
  std::copy(reduction.destinations.begin(), reduction.destinations.end(), ranks.destinations);
  ranks.source_count = static_cast<int>(reduction.sources.size());
  ranks.destination_count = static_cast<int>(reduction.destinations.size());
  arguments.count = reduction.count;
  arguments.op = reduction.op;
  arguments.factor = 1.0f / static_cast<float>(ranks.source_count);
  arguments.accumulate = reduction.accumulate;
  return LaunchByType(reduction.dtype, reduction.result_dtype, arguments, multiprocessors, stream);
}

absl::Status TreeReduce(const StridedReduction& reduction, int multiprocessors,
                        cudaStream_t stream) {
  if (reduction.ranks > kMostStridedRanks) {
    return absl::UnimplementedError(
        absl::StrCat("a reduction over ", reduction.ranks, " ranks; at most ", kMostStridedRanks));
  }
  Arguments<StridedRanks> arguments = {};
  arguments.ranks.others = static_cast<const char*>(reduction.others);
  arguments.ranks.bytes_per_rank = reduction.bytes_per_rank;
  arguments.ranks.own = reduction.own;
  arguments.ranks.own_elements = reduction.own_elements;
  arguments.ranks.only_destination = reduction.destination;
  arguments.ranks.source_count = reduction.ranks;
  arguments.ranks.destination_count = 1;
  arguments.count = reduction.count;
  arguments.op = reduction.op;
  arguments.factor =
      1.0f / static_cast<float>(reduction.mean_of > 0 ? reduction.mean_of : reduction.ranks);
  arguments.accumulate = reduction.accumulate;
  return LaunchByType(reduction.dtype, reduction.result_dtype, arguments, multiprocessors, stream);
}

}  // namespace zeroth::cuda
