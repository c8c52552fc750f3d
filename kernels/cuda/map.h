// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels for elementwise operations. The bits of an element's result do not depend on its place.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// out[i] = f(in[i]...). An output may be an input, hence no __restrict__.
template <int N, typename F, typename Out, typename In>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Map1(int64_t count, F f, Out* out, const In* in) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = first * N; at + N <= count; at += step * N) {
    float x[N];
    LoadPack<N>(in + at, x);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = f(x[i]);
    StorePack<N>(x, out + at);
  }
  const int64_t rest = count / N * N + first;
  if (rest < count) out[rest] = FromFloat<Out>(f(ToFloat(in[rest])));
}

template <int N, typename F, typename Out, typename A, typename B>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Map2(int64_t count, F f, Out* out, const A* a, const B* b) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = first * N; at + N <= count; at += step * N) {
    float x[N];
    float y[N];
    LoadPack<N>(a + at, x);
    LoadPack<N>(b + at, y);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = f(x[i], y[i]);
    StorePack<N>(x, out + at);
  }
  const int64_t rest = count / N * N + first;
  if (rest < count) out[rest] = FromFloat<Out>(f(ToFloat(a[rest]), ToFloat(b[rest])));
}

// Enqueues out[i] = f(in[i]) for i in [0, count); both arrays are in device memory.
template <typename Out, typename In, typename F>
absl::Status Apply(int64_t count, F f, void* out, const void* in, const LaunchTarget& target) {
  auto* to = static_cast<Out*>(out);
  const auto* from = static_cast<const In*>(in);
  return DispatchWidth<kPackWidth<Out, In>>(ArePacked(to, from), [&](auto width) {
    return ZEROTH_MAP((Map1<width(), F, Out, In>), (count + width() - 1) / width(), target, count,
                      f, to, from);
  });
}

// Enqueues out[i] = f(a[i], b[i]) for i in [0, count).
template <typename T, typename F>
absl::Status Apply(int64_t count, F f, void* out, const void* a, const void* b,
                   const LaunchTarget& target) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  return DispatchWidth<kPackWidth<T>>(ArePacked(to, x, y), [&](auto width) {
    return ZEROTH_MAP((Map2<width(), F, T, T, T>), (count + width() - 1) / width(), target, count,
                      f, to, x, y);
  });
}

}  // namespace zeroth::cuda
