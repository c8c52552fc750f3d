// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <memory>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/data_error_report.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/radix_sort.h"
#include "zeroth/kernels/embedding/embedding.h"

namespace zeroth::cuda {
namespace {

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Lookup(int64_t places, int64_t seq, int64_t vocab, int64_t dim, const int32_t* tokens,
           const T* table, const T* positions, T* out, bool part, DataErrorWord* error) {
  const int64_t packs = dim / N;
  for (const int64_t item : ItemsOfThread(places * packs)) {
    const int64_t place = item / packs;
    const int64_t column = item % packs * N;
    const int32_t token = tokens[place];
    float value[N] = {};
    const bool is_elsewhere = part && token == vocab;
    if (!is_elsewhere && (token < 0 || token >= vocab)) {
      ReportDataError(error, DataErrorCode::kToken, token, place, seq, vocab);
    } else {
      if (!is_elsewhere) LoadPack<N>(table + token * dim + column, value);
      if (positions != nullptr) {
        float position[N];
        LoadPack<N>(positions + place % seq * dim + column, position);
#pragma unroll
        for (int i = 0; i < N; ++i) value[i] = __fadd_rn(value[i], position[i]);
      }
    }
    StorePack<N>(value, out + place * dim + column);
  }
}

__global__ void __launch_bounds__(kMapThreads)
    CheckTokens(int64_t places, int64_t seq, int64_t vocab, bool part, const int32_t* tokens,
                DataErrorWord* error) {
  const int64_t place = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= places) return;
  const int32_t token = tokens[place];
  if (token < 0 || token >= vocab + (part ? 1 : 0)) {
    ReportDataError(error, DataErrorCode::kBackwardToken, token, place, seq, vocab);
  }
}

__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    PrepareKeys(int64_t count, int64_t limit, const int32_t* tokens, int32_t* keys,
                int32_t* places) {
  for (const int64_t i : ItemsOfThread(count)) {
    const int32_t token = tokens[i];
    keys[i] = token >= 0 && token < limit ? token : 0;
    places[i] = static_cast<int32_t>(i);
  }
}

struct SortedPlaces {
  std::shared_ptr<Buffer> memory;
  const int32_t* tokens;  // sorted
  const int32_t* places;  // of these tokens; those of one token are in order
};

// Sorts the places [0, count) by their tokens. Tokens outside of [0, limit) count as 0.
absl::StatusOr<SortedPlaces> SortPlaces(int64_t count, int64_t limit, const int32_t* tokens,
                                        CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> memory,
                          kernels.Scratch(4 * static_cast<size_t>(count) * sizeof(int32_t)));
  int32_t* const keys = static_cast<int32_t*>(memory->data());
  int32_t* const places = keys + count;
  int32_t* const sorted_keys = places + count;
  int32_t* const sorted_places = sorted_keys + count;
  ZEROTH_RETURN_IF_ERROR(
      ZEROTH_MAP(PrepareKeys, count, target, count, limit, tokens, keys, places));
  ZEROTH_RETURN_IF_ERROR(
      SortByKey(count, limit, keys, places, sorted_keys, sorted_places, kernels));
  return SortedPlaces{std::move(memory), sorted_keys, sorted_places};
}

constexpr int kSumThreads = 512;

// Returns the end of the run of equal keys that begins at `first`.
__device__ int64_t EndOfRun(const int32_t* keys, int64_t first, int64_t places) {
  const int32_t token = keys[first];
  if (first + 1 == places || keys[first + 1] != token) return first + 1;
  int64_t inside = first + 1;
  int64_t beyond = places;
  while (beyond - inside > 1) {
    const int64_t middle = (inside + beyond) / 2;
    (keys[middle] == token ? inside : beyond) = middle;
  }
  return beyond;
}

// Each sorted place has a block, but only that of a token's first place works. Its threads form
// groups, each of which adds every n-th row of the token, n being the number of groups. Then the
// groups' sums are added in order. Without groups, a single thread for each column would read all
// rows of a token one after the other, and the most frequent token of a text has a twentieth of all
// places.
template <int N, typename T, typename G>
__global__ void __launch_bounds__(kSumThreads)
    SumPlaces(int64_t places, int64_t rows, int64_t dim, const int32_t* keys, const int32_t* order,
              const T* dout, bool accumulate, G* dtable) {
  ZEROTH_SHARED(float, shared, [kSumThreads * N]);
  const int64_t first = blockIdx.x;
  const int32_t token = keys[first];
  if (token == rows || (first > 0 && keys[first - 1] == token)) return;
  const int64_t last = EndOfRun(keys, first, places);
  const int64_t packs = dim / N;
  const int width = static_cast<int>(packs < kSumThreads ? packs : kSumThreads);
  const int groups = kSumThreads / width;
  const int group = static_cast<int>(threadIdx.x) / width;
  const int place_in_group = static_cast<int>(threadIdx.x) % width;
  for (int64_t begin = 0; begin < packs; begin += width) {
    const int64_t column = (begin + place_in_group) * N;
    const bool has_column = group < groups && column < dim;
    float sum[N] = {};
    if (has_column) {
#pragma unroll 2
      for (int64_t i = first + group; i < last; i += groups) {
        float row[N];
        LoadPack<N>(dout + order[i] * dim + column, row);
#pragma unroll
        for (int n = 0; n < N; ++n) sum[n] = __fadd_rn(sum[n], row[n]);
      }
    }
    if (last - first > 1) {
#pragma unroll
      for (int n = 0; n < N; ++n) shared[threadIdx.x * N + n] = sum[n];
      __syncthreads();
      for (int other = 1; group == 0 && other < groups; ++other) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
          sum[n] = __fadd_rn(sum[n], shared[(other * width + place_in_group) * N + n]);
        }
      }
      __syncthreads();
    }
    if (group > 0 || !has_column) continue;
    G* const out = dtable + token * dim + column;
    if (accumulate) {
      float old[N];
      LoadPack<N>(out, old);
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = __fadd_rn(old[n], sum[n]);
    }
    StorePack<N>(sum, out);
  }
}

template <typename T, typename G>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    SumBatch(int64_t batch, int64_t seq, int64_t max_seq, int64_t dim, const T* dout,
             bool accumulate, G* dpositions) {
  for (const int64_t item : ItemsOfThread(max_seq * dim)) {
    float sum = accumulate ? ToFloat(dpositions[item]) : 0.0f;
    if (item < seq * dim) {
      for (int64_t b = 0; b < batch; ++b) {
        sum = __fadd_rn(sum, ToFloat(dout[b * seq * dim + item]));
      }
    }
    dpositions[item] = FromFloat<G>(sum);
  }
}

absl::Status Embedding(const EmbeddingCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    const auto* table = static_cast<const T*>(call.table);
    const auto* positions = static_cast<const T*>(call.positions);
    auto* out = static_cast<T*>(call.out);
    const int64_t places = call.batch * call.seq;
    const bool packed = call.dim % kPackWidth<T> == 0 && ArePacked(table, positions, out);
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      return ZEROTH_MAP((Lookup<width(), T>), places * call.dim / width(), target, places, call.seq,
                        call.vocab, call.dim, call.tokens, table, positions, out, call.part,
                        kernels.data_error());
    });
  });
}
const OnCuda<Embedding> embedding;

// Sorts places by token. One block then adds the rows of each token.
absl::Status EmbeddingBackward(const EmbeddingBackwardCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const int64_t places = call.batch * call.seq;
  const size_t bytes = static_cast<size_t>(call.rows * call.dim) * SizeOf(call.grad_dtype);
  if (!call.accumulate && bytes > 0) {
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(call.gradient, 0, bytes, target.stream));
  }
  if (places == 0 || call.dim == 0 || call.rows == 0) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(CheckTokens, ThreadPerItemShape(places), target.stream,
                                       places, call.seq, call.rows, call.part, call.tokens,
                                       kernels.data_error()));
  ZEROTH_ASSIGN_OR_RETURN(
      const SortedPlaces sorted,
      SortPlaces(places, call.rows + (call.part ? 1 : 0), call.tokens, kernels));
  return DispatchPair(
      call.dtype, call.grad_dtype, [&]<typename T, typename G>(TypeTag<T>, TypeTag<G>) {
        const auto* dout = static_cast<const T*>(call.dout);
        auto* gradient = static_cast<G*>(call.gradient);
        const bool packed = call.dim % kPackWidth<T> == 0 && ArePacked(dout, gradient);
        return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
          return ZEROTH_LAUNCH((SumPlaces<width(), T, G>), Blocks(places, kSumThreads),
                               target.stream, places, call.rows, call.dim, sorted.tokens,
                               sorted.places, dout, call.accumulate, gradient);
        });
      });
}
const OnCuda<EmbeddingBackward> embedding_backward;

absl::Status PositionBackward(const PositionBackwardCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  return DispatchPair(
      call.dtype, call.grad_dtype, [&]<typename T, typename G>(TypeTag<T>, TypeTag<G>) {
        return ZEROTH_MAP((SumBatch<T, G>), call.rows * call.dim, target, call.batch, call.seq,
                          call.rows, call.dim, static_cast<const T*>(call.dout), call.accumulate,
                          static_cast<G*>(call.gradient));
      });
}
const OnCuda<PositionBackward> position_backward;

}  // namespace
}  // namespace zeroth::cuda
