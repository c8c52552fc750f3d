// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/data_error_report.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/embedding/radix_sort.h"

namespace zeroth::cuda {
namespace {

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Lookup(int64_t places, int64_t seq, int64_t vocab, int64_t dim, const int32_t* tokens,
           const T* table, const T* positions, T* out, DataErrorWord* error) {
  const int64_t packs = dim / N;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < places * packs;
       item += step) {
    const int64_t place = item / packs;
    const int64_t column = item % packs * N;
    const int32_t token = tokens[place];
    float value[N] = {};
    if (token < 0 || token >= vocab) {
      ReportDataError(error, DataErrorCode::kToken, token, place, seq, vocab);
    } else {
      LoadPack<N>(table + token * dim + column, value);
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
    CheckTokens(int64_t places, int64_t seq, int64_t vocab, const int32_t* tokens,
                DataErrorWord* error) {
  const int64_t place = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= places) return;
  const int32_t token = tokens[place];
  if (token < 0 || token >= vocab) {
    ReportDataError(error, DataErrorCode::kBackwardToken, token, place, seq, vocab);
  }
}

// A block for every sorted place; those that are not the first of their token have nothing to do.
template <typename T, typename G>
__global__ void __launch_bounds__(kMapThreads)
    SumPlaces(int64_t places, int64_t dim, const int32_t* keys, const int32_t* order, const T* dout,
              bool accumulate, G* dtable) {
  const int64_t first = blockIdx.x;
  const int32_t token = keys[first];
  if (first > 0 && keys[first - 1] == token) return;
  int64_t last = first + 1;
  while (last < places && keys[last] == token) ++last;
  for (int64_t column = threadIdx.x; column < dim; column += blockDim.x) {
    G* const out = dtable + token * dim + column;
    float sum = accumulate ? ToFloat(*out) : 0.0f;
    for (int64_t i = first; i < last; ++i) {
      sum = __fadd_rn(sum, ToFloat(dout[order[i] * dim + column]));
    }
    *out = FromFloat<G>(sum);
  }
}

template <typename T, typename G>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    SumBatch(int64_t batch, int64_t seq, int64_t max_seq, int64_t dim, const T* dout,
             bool accumulate, G* dpositions) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < max_seq * dim;
       item += step) {
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
  return DispatchType(call.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* table = static_cast<const T*>(call.table);
    const auto* positions = static_cast<const T*>(call.positions);
    auto* out = static_cast<T*>(call.out);
    const int64_t places = call.batch * call.seq;
    const bool packed = call.dim % kPackWidth<T> == 0 && ArePacked(table, positions, out);
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      return ZEROTH_MAP((Lookup<width(), T>), places * call.dim / width(), target, places, call.seq,
                        call.vocab, call.dim, call.tokens, table, positions, out,
                        kernels.data_error());
    });
  });
}
const OnCuda<Embedding> embedding;

// Places are sorted by token, and each token's are added up by one block.
absl::Status EmbeddingBackward(const EmbeddingBackwardCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const int64_t places = call.batch * call.seq;
  const size_t bytes = static_cast<size_t>(call.rows * call.dim) * SizeOf(call.grad_dtype);
  if (!call.accumulate && bytes > 0) {
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(call.gradient, 0, bytes, target.stream));
  }
  if (places == 0 || call.dim == 0 || call.rows == 0) return absl::OkStatus();
  const LaunchShape all = {dim3(static_cast<unsigned>((places + kMapThreads - 1) / kMapThreads)),
                           dim3(kMapThreads)};
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(CheckTokens, all, target.stream, places, call.seq, call.rows,
                                       call.tokens, kernels.data_error()));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      kernels.Scratch(static_cast<size_t>(places + SortScratch(places)) * sizeof(int32_t)));
  int32_t* const order = static_cast<int32_t*>(scratch->data());
  const int32_t* keys = nullptr;
  ZEROTH_RETURN_IF_ERROR(
      SortPlaces(places, call.rows, call.tokens, order, &keys, order + places, target));
  return DispatchPair(call.dtype, call.grad_dtype, [&](auto tag, auto grad_tag) {
    using T = typename decltype(tag)::type;
    using G = typename decltype(grad_tag)::type;
    const LaunchShape shape = {dim3(static_cast<unsigned>(places)), dim3(kMapThreads)};
    return ZEROTH_LAUNCH((SumPlaces<T, G>), shape, target.stream, places, call.dim, keys, order,
                         static_cast<const T*>(call.dout), call.accumulate,
                         static_cast<G*>(call.gradient));
  });
}
const OnCuda<EmbeddingBackward> embedding_backward;

absl::Status PositionBackward(const PositionBackwardCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  return DispatchPair(call.dtype, call.grad_dtype, [&](auto tag, auto grad_tag) {
    using T = typename decltype(tag)::type;
    using G = typename decltype(grad_tag)::type;
    return ZEROTH_MAP((SumBatch<T, G>), call.rows * call.dim, target, call.batch, call.seq,
                      call.rows, call.dim, static_cast<const T*>(call.dout), call.accumulate,
                      static_cast<G*>(call.gradient));
  });
}
const OnCuda<PositionBackward> position_backward;

}  // namespace
}  // namespace zeroth::cuda
