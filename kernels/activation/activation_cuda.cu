// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <type_traits>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/activation/activation_device.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/map.h"

namespace zeroth::cuda {
namespace {

struct GeluForward {
  __device__ float operator()(float x) const { return GeluOf(x); }
};
struct GeluGradient {
  __device__ float operator()(float x, float dy) const { return dy * GeluSlope(x); }
};

// gate and up within the limit, and the terms of their derivatives.
struct Clamped {
  __device__ __forceinline__ Clamped(float raw_gate, float raw_up, float limit)
      : gate(raw_gate > limit ? limit : raw_gate),
        up(fabsf(raw_up) > limit ? copysignf(limit, raw_up) : raw_up),
        sigmoid(LogisticWithSlope(kClampedSwiGluFactor * gate)) {}
  __device__ __forceinline__ float Gated() const { return gate * sigmoid.value; }
  __device__ __forceinline__ float GateSlope() const {
    return sigmoid.slope == 0.0f
               ? sigmoid.value
               : __fmaf_rn(kClampedSwiGluFactor * gate, sigmoid.slope, sigmoid.value);
  }

  float gate;
  float up;
  LogisticValue sigmoid;
};

template <int N, bool kClamps, typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    SwiGluForward(int64_t rows, int64_t hidden, float limit, const T* gate_up, T* out) {
  const int64_t packs = hidden / N;
  for (const int64_t item : ItemsOfThread(rows * packs)) {
    const int64_t row = item / packs;
    const int64_t column = item % packs * N;
    float gate[N];
    float up[N];
    LoadPack<N>(gate_up + row * 2 * hidden + column, gate);
    LoadPack<N>(gate_up + row * 2 * hidden + hidden + column, up);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kClamps) {
        const Clamped within(gate[i], up[i], limit);
        gate[i] = within.Gated() * (within.up + 1.0f);
      } else {
        gate[i] = SiluOf(gate[i]) * up[i];
      }
    }
    StorePack<N>(gate, out + item * N);
  }
}

// Three packs and the derivatives of their activation take more registers than most kernels need.
constexpr int kSwiGluGradientBlocks = 5;

template <int N, bool kClamps, typename T>
__global__ void __launch_bounds__(kMapThreads, kSwiGluGradientBlocks)
    SwiGluGradient(int64_t rows, int64_t hidden, float limit, const T* gate_up, const T* dout,
                   T* dgate_up) {
  const int64_t packs = hidden / N;
  for (const int64_t item : ItemsOfThread(rows * packs)) {
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
      if constexpr (kClamps) {
        const Clamped within(gate[i], up[i], limit);
        gate[i] = gate[i] > limit ? 0.0f : dy[i] * (within.up + 1.0f) * within.GateSlope();
        up[i] = fabsf(up[i]) > limit ? 0.0f : dy[i] * within.Gated();
      } else {
        const float dgate = dy[i] * up[i] * SiluSlope(gate[i]);
        up[i] = dy[i] * SiluOf(gate[i]);
        gate[i] = dgate;
      }
    }
    StorePack<N>(gate, dgate_up + at);
    StorePack<N>(up, dgate_up + at + hidden);
  }
}

absl::Status Gelu(const GeluCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    if (call.dy == nullptr) {
      return Apply<T, T>(call.count, GeluForward(), call.out, call.x, kernels.target());
    }
    return Apply<T>(call.count, GeluGradient(), call.out, call.x, call.dy, kernels.target());
  });
}
const OnCuda<Gelu> gelu;

absl::Status SwiGlu(const SwiGluCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const int64_t items = call.rows * call.hidden;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    const auto* from = static_cast<const T*>(call.gate_up);
    const auto* dy = static_cast<const T*>(call.dout);
    auto* to = static_cast<T*>(call.to);
    const bool packed = ArePacked(from, dy, to) && call.hidden % kPackWidth<T> == 0;
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      const auto launch = [&](auto clamps) {
        if (dy == nullptr) {
          return ZEROTH_MAP((SwiGluForward<width(), clamps(), T>), items / width(), target,
                            call.rows, call.hidden, call.limit, from, to);
        }
        return ZEROTH_LAUNCH(
            (SwiGluGradient<width(), clamps(), T>),
            MapShape(items / width(), target.multiprocessors, kSwiGluGradientBlocks), target.stream,
            call.rows, call.hidden, call.limit, from, dy, to);
      };
      return call.limit > 0 ? launch(std::true_type()) : launch(std::false_type());
    });
  });
}
const OnCuda<SwiGlu> swiglu;

}  // namespace
}  // namespace zeroth::cuda
