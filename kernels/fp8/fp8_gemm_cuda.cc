// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/fp8/fp8_gemm_cuda.h"

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/gemm/plain_gemm.h"

namespace zeroth::cuda {
namespace {

// Handles depth 0, which cuBLASLt does not accept: c becomes the bias, or stays as it is.
absl::Status ZeroDepthGemm(const Fp8GemmCall& call, const LaunchTarget& target) {
  GemmCall empty;
  empty.m = call.m;
  empty.n = call.n;
  empty.dtype = call.c_dtype;
  empty.c_dtype = call.c_dtype;
  empty.c = call.c;
  empty.ldc = call.ldc;
  empty.accumulate = call.accumulate;
  empty.bias = call.bias;
  return PlainGemm(empty, target);
}

}  // namespace

MatmulKey KeyOf(const Fp8GemmCall& call) {
  MatmulKey key = KeyOfRowMajor(call);
  key.dtype = call.c_dtype;
  key.fp8 = true;
  key.first_format = call.b_format;
  key.second_format = call.a_format;
  key.transpose_first = true;
  key.first_ld = call.k;
  key.second_ld = call.k;
  key.aux_alignment = AlignmentOf(nullptr);
  if (call.bias != nullptr) key.epilogue = Epilogue::kBias;
  return key;
}

absl::Status Fp8Gemm(const Fp8GemmCall& call, CublasLt& blas, const LaunchTarget& target) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return ZeroDepthGemm(call, target);
  const MatmulPointers pointers = {.first = call.b,
                                   .second = call.a,
                                   .c = call.c,
                                   .bias = call.bias,
                                   .first_scale = call.b_scale,
                                   .second_scale = call.a_scale};
  ZEROTH_ASSIGN_OR_RETURN(const bool multiplied, blas.Multiply(KeyOf(call), pointers));
  if (multiplied) return absl::OkStatus();
  return Unimplemented("Fp8Gemm: cuBLASLt has no algorithm for [", call.m, ", ", call.k, "] x [",
                       call.k, ", ", call.n, "] of 8-bit floats into ", DTypeName(call.c_dtype),
                       " on this GPU; multiply this layer in bf16");
}

namespace {

absl::Status SupportsFp8(Kernels& kernels, const SupportsFp8Call&, CallTensors) {
  constexpr int kLeastFp8Capability = 89;
  const int capability = static_cast<CudaKernels&>(kernels).properties().compute_capability;
  if (capability >= kLeastFp8Capability) return absl::OkStatus();
  return Unimplemented(kernels.device().name(), " has compute capability ", capability / 10, ".",
                       capability % 10, ", and fp8 matmuls need 8.9 (Ada), 9.0 (Hopper) or later");
}
const KernelTable<SupportsFp8Call>::Registration supports_fp8("cuda", SupportsFp8);

absl::Status RunFp8Gemm(const Fp8GemmCall& call, CudaKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, kernels.Blas());
  return Fp8Gemm(call, *blas, kernels.target());
}
const OnCuda<RunFp8Gemm> fp8_gemm;

}  // namespace
}  // namespace zeroth::cuda
