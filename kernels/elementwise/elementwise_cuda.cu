// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/map.h"
#include "zeroth/kernels/elementwise/elementwise.h"

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

absl::Status Add(const AddCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return Apply<T>(call.count, AddOf(), call.out, call.a, call.b, kernels.target());
  });
}
const OnCuda<Add> add;

absl::Status Scale(const ScaleCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return Apply<T, T>(call.count, ScaleOf{call.factor}, call.x, call.x, kernels.target());
  });
}
const OnCuda<Scale> scale;

absl::Status Lerp(const LerpCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return Apply<T>(call.count, LerpOf{call.weight}, call.x, call.x, call.target, kernels.target());
  });
}
const OnCuda<Lerp> lerp;

absl::Status Cast(const CastCall& call, CudaKernels& kernels) {
  if (call.from == call.to) {  // a copy preserves even the bits of NaN
    const size_t bytes = static_cast<size_t>(call.count) * SizeOf(call.from);
    if (bytes == 0) return absl::OkStatus();
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(call.dst, call.src, bytes, cudaMemcpyDeviceToDevice,
                                                kernels.target().stream));
    return absl::OkStatus();
  }
  return DispatchType(call.from, [&]<typename From>(TypeTag<From>) {
    return DispatchType(call.to, [&]<typename To>(TypeTag<To>) {
      return Apply<To, From>(call.count, Same(), call.dst, call.src, kernels.target());
    });
  });
}
const OnCuda<Cast> cast;

}  // namespace
}  // namespace zeroth::cuda
