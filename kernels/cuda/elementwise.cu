// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/activation.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/elementwise.h"

namespace zeroth::cuda {
namespace {

struct AddOf {
  __device__ float operator()(float a, float b) const { return __fadd_rn(a, b); }
};
struct ScaleOf {
  float factor;
  __device__ float operator()(float x) const { return __fmul_rn(x, factor); }
};
struct LerpOf {
  float weight;
  __device__ float operator()(float x, float to) const {
    return __fadd_rn(x, __fmul_rn(weight, __fsub_rn(to, x)));
  }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct GeluForward {
  __device__ float operator()(float x) const { return GeluOf(x); }
};
struct GeluGradient {
  __device__ float operator()(float x, float dy) const { return dy * GeluSlope(x); }
};

// out[i] = f(in[i]...). Outputs may be inputs, hence no __restrict__.
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

template <typename F, typename Out, typename In>
absl::Status Apply(int64_t count, F f, void* out, const void* in, const LaunchTarget& target) {
  auto* to = static_cast<Out*>(out);
  const auto* from = static_cast<const In*>(in);
  constexpr int kWidth = kPackWidth<Out, In>;
  if (ArePacked(to, from)) {
    return ZEROTH_LAUNCH((Map1<kWidth, F, Out, In>),
                         MapShape((count + kWidth - 1) / kWidth, target.multiprocessors),
                         target.stream, count, f, to, from);
  }
  return ZEROTH_LAUNCH((Map1<1, F, Out, In>), MapShape(count, target.multiprocessors),
                       target.stream, count, f, to, from);
}

template <typename F, typename T>
absl::Status Apply(int64_t count, F f, void* out, const void* a, const void* b,
                   const LaunchTarget& target) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  constexpr int kWidth = kPackWidth<T>;
  if (ArePacked(to, x, y)) {
    return ZEROTH_LAUNCH((Map2<kWidth, F, T, T, T>),
                         MapShape((count + kWidth - 1) / kWidth, target.multiprocessors),
                         target.stream, count, f, to, x, y);
  }
  return ZEROTH_LAUNCH((Map2<1, F, T, T, T>), MapShape(count, target.multiprocessors),
                       target.stream, count, f, to, x, y);
}

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    SwiGluForward(int64_t rows, int64_t hidden, const T* gate_up, T* out) {
  const int64_t packs = hidden / N;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < rows * packs;
       item += step) {
    const int64_t row = item / packs;
    const int64_t column = item % packs * N;
    float gate[N];
    float up[N];
    LoadPack<N>(gate_up + row * 2 * hidden + column, gate);
    LoadPack<N>(gate_up + row * 2 * hidden + hidden + column, up);
#pragma unroll
    for (int i = 0; i < N; ++i) gate[i] = SiluOf(gate[i]) * up[i];
    StorePack<N>(gate, out + row * hidden + column);
  }
}

// Three packs at work and the derivatives of their activation take more registers than most.
constexpr int kSwiGluGradientBlocks = 5;

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads, kSwiGluGradientBlocks)
    SwiGluGradient(int64_t rows, int64_t hidden, const T* gate_up, const T* dout, T* dgate_up) {
  const int64_t packs = hidden / N;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < rows * packs;
       item += step) {
    const int64_t row = item / packs;
    const int64_t column = item % packs * N;
    const int64_t at = row * 2 * hidden + column;
    float gate[N];
    float up[N];
    float dy[N];
    LoadPack<N>(gate_up + at, gate);
    LoadPack<N>(gate_up + at + hidden, up);
    LoadPack<N>(dout + row * hidden + column, dy);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float dgate = dy[i] * up[i] * SiluSlope(gate[i]);
      up[i] = dy[i] * SiluOf(gate[i]);
      gate[i] = dgate;
    }
    StorePack<N>(gate, dgate_up + at);
    StorePack<N>(up, dgate_up + at + hidden);
  }
}

}  // namespace

absl::Status Add(int64_t count, DType dtype, const void* a, const void* b, void* out,
                 const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    return Apply<AddOf, typename decltype(tag)::type>(count, AddOf(), out, a, b, target);
  });
}

absl::Status Scale(int64_t count, DType dtype, void* x, float factor, const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Apply<ScaleOf, T, T>(count, ScaleOf{factor}, x, x, target);
  });
}

absl::Status Lerp(int64_t count, DType dtype, void* x, const void* to, float weight,
                  const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    return Apply<LerpOf, typename decltype(tag)::type>(count, LerpOf{weight}, x, x, to, target);
  });
}

absl::Status Cast(int64_t count, const void* src, DType src_dtype, void* dst, DType dst_dtype,
                  const LaunchTarget& target) {
  if (src_dtype == dst_dtype) {  // a copy, to the last bit of a NaN
    const size_t bytes = static_cast<size_t>(count) * SizeOf(src_dtype);
    if (bytes == 0) return absl::OkStatus();
    ZEROTH_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, target.stream));
    return absl::OkStatus();
  }
  return DispatchType(src_dtype, [&](auto from) {
    return DispatchType(dst_dtype, [&](auto to) {
      return Apply<Same, typename decltype(to)::type, typename decltype(from)::type>(
          count, Same(), dst, src, target);
    });
  });
}

absl::Status Gelu(int64_t count, DType dtype, const void* x, void* y, const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Apply<GeluForward, T, T>(count, GeluForward(), y, x, target);
  });
}

absl::Status GeluBackward(int64_t count, DType dtype, const void* x, const void* dy, void* dx,
                          const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    return Apply<GeluGradient, typename decltype(tag)::type>(count, GeluGradient(), dx, x, dy,
                                                             target);
  });
}

absl::Status SwiGlu(int64_t rows, int64_t hidden, DType dtype, const void* gate_up, void* out,
                    const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWidth = kPackWidth<T>;
    const auto* from = static_cast<const T*>(gate_up);
    auto* to = static_cast<T*>(out);
    if (ArePacked(from, to) && hidden % kWidth == 0) {
      return ZEROTH_LAUNCH((SwiGluForward<kWidth, T>),
                           MapShape(rows * hidden / kWidth, target.multiprocessors), target.stream,
                           rows, hidden, from, to);
    }
    return ZEROTH_LAUNCH((SwiGluForward<1, T>), MapShape(rows * hidden, target.multiprocessors),
                         target.stream, rows, hidden, from, to);
  });
}

absl::Status SwiGluBackward(int64_t rows, int64_t hidden, DType dtype, const void* gate_up,
                            const void* dout, void* dgate_up, const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWidth = kPackWidth<T>;
    const auto* from = static_cast<const T*>(gate_up);
    const auto* dy = static_cast<const T*>(dout);
    auto* to = static_cast<T*>(dgate_up);
    if (ArePacked(from, dy, to) && hidden % kWidth == 0) {
      return ZEROTH_LAUNCH(
          (SwiGluGradient<kWidth, T>),
          MapShape(rows * hidden / kWidth, target.multiprocessors, kSwiGluGradientBlocks),
          target.stream, rows, hidden, from, dy, to);
    }
    return ZEROTH_LAUNCH((SwiGluGradient<1, T>),
                         MapShape(rows * hidden, target.multiprocessors, kSwiGluGradientBlocks),
                         target.stream, rows, hidden, from, dy, to);
  });
}

}  // namespace zeroth::cuda
