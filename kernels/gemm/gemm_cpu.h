// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// fp32 and bf16 matmuls on the CPU, by oneDNN.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// Computes the matmul before it returns, on omp_get_max_threads() threads, with scratch memory of
// the kernels' gemm_workspace(). The caller has checked shapes, strides and dtypes. If the kernels
// are any_team(), the bits of c do not depend on the number of threads. Fails with Internal and
// oneDNN's error, or if the workspace cannot be allocated.
absl::Status Gemm(const GemmCall& call, CpuKernels& kernels);

// The parts of Gemm:

// Computes the matmul and lets oneDNN divide the work among threads. Thread-safe if each thread has
// its own workspace.
absl::Status OneDnnGemm(const GemmCall& call, Workspace& workspace);

// c = op(a) op(b), or c += op(a) op(b) if call.accumulate: all fp32, k > 0. Ignores the rest of the
// call. On omp_get_max_threads() threads. Fails with Internal and oneDNN's error.
absl::Status Sgemm(const GemmCall& call);

// Returns true if oneDNN multiplies bf16 operands of this depth (k) with bf16 instructions.
bool HasNativeBf16Matmul(int64_t depth);

// Returns true if OneDnnGemm multiplies operands of this type in fp32, each widened first, which is
// faster for bf16 on some CPUs. It follows from the CPU's features and is not measured, so that all
// ranks and runs on one kind of CPU add in the same order.
bool WidensOperands(DType dtype, int64_t depth);

// Implements OneDnnGemm() for bf16 operands by oneDNN's matmul primitive. oneDNN writes c itself
// unless there is an activation, pre_activation or gelu_input; then blocks of columns pass through
// the workspace as fp32. Each thread caches prepared matmuls by size. call.dtype is bf16; m, n and
// k are positive. Fails with Internal if oneDNN has no implementation (HasNativeBf16Matmul(k) is
// false).
absl::Status Bf16Matmul(const GemmCall& call, Workspace& workspace);

// Returns the workspace that oneDNN needs for Bf16Matmul on this CPU with `threads` threads; 0 for
// a call that it refuses.
int64_t Bf16WorkspaceBytes(const GemmCall& call, int threads);

// to[rows, cols] (contiguous) = from[rows, cols] of `dtype`, whose rows are `ld` elements apart.
// The conversion is exact.
void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to);

// Implements OneDnnGemm() for operands that are widened: converts blocks of them to fp32 in the
// workspace (WidenedFloats(call), at most 12 MiB) and multiplies these. call.dtype is bf16 or fp16;
// m, n and k are positive.
absl::Status WidenedGemm(const GemmCall& call, Workspace& workspace);
int64_t WidenedFloats(const GemmCall& call);

// Finishes and stores `product` [m, n], fp32 with rows `ld` elements apart, as c: applies bias,
// activation, pre_activation and gelu_input, or adds to c, as GemmArgs says, and rounds once. Reads
// neither a nor b; `product` may be c itself. An element's result depends on that element alone.
// Runs on omp_get_max_threads() threads.
void ApplyEpilogue(const GemmCall& call, const float* product, int64_t ld);

// Computes the matmul with the same bits on any number of threads. oneDNN divides work by the
// number of threads, and for small c and large k it divides the terms, too, which changes the order
// of additions. Here c is divided into tiles by its sizes alone, and one thread computes each tile
// by OneDnnGemm(). Each tile packs its operands itself, and a matmul with a single tile uses one
// thread. Returns the error of a tile, if any fails.
absl::Status TeamGemm(const GemmCall& call, Workspace& workspace);

}  // namespace zeroth::cpu
