// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// fp32 and bf16 matrix products on the CPU, by oneDNN.

#ifndef ZEROTH_KERNELS_GEMM_GEMM_CPU_H_
#define ZEROTH_KERNELS_GEMM_GEMM_CPU_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// Done on return, on omp_get_max_threads() threads. The caller has checked shapes, strides and
// dtypes; with call.any_team c's bits do not depend on how many threads those are. Internal carries
// the error of oneDNN, and `workspace` may refuse. Calls on different threads share nothing that
// changes, given a workspace each.
absl::Status Gemm(const GemmCall& call, Workspace& workspace);

// What it is made of.

// c = op(a) op(b), or c += op(a) op(b) if call.accumulate: all fp32, k > 0; the rest of the call is
// not looked at. On omp_get_max_threads() threads. Internal carries the error of oneDNN.
absl::Status Sgemm(const GemmCall& call);

enum class Bf16Products {
  kNative,   // by the CPU's own bf16 instructions
  kWidened,  // in fp32, each operand widened first
};

// True where oneDNN multiplies bf16 operands of this depth (k) with instructions for bf16.
bool HasNativeBf16Products(int64_t depth);

// What this CPU does faster. It is read from what the CPU says of itself and not measured, so that
// every rank and every run on a kind of CPU adds in one order.
Bf16Products FastestBf16Products(int64_t depth);

// Gemm() of bf16 operands by oneDNN's matmul primitive. Where c is a sum, with or without a bias,
// oneDNN writes it; otherwise blocks of columns pass through the workspace as fp32. Prepared
// products are kept per thread and found again by their sizes. call.dtype is bf16, m, n and k are
// positive; Internal where oneDNN has no implementation, which HasNativeBf16Products(k) tells.
absl::Status Bf16Matmul(const GemmCall& call, Workspace& workspace);

// to[rows, cols] (contiguous) = from[rows, cols] of `dtype`, whose rows are `ld` elements apart;
// exact.
void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to);

// Gemm() of bf16 or fp16 operands in fp32 instructions, for CPUs whose own are missing or slower:
// blocks of the operands are widened into the workspace, at most 12 MiB of it, and multiplied
// there. call.dtype is bf16 or fp16, m, n and k are positive.
absl::Status WidenedGemm(const GemmCall& call, Workspace& workspace);

// Stores `product` [m, n], fp32 with rows `ld` elements apart, as c: adds the bias and applies the
// activation, or adds the product to c, and rounds once. Reads neither a nor b; `product` may be c
// itself. An element's result depends on that element alone. On omp_get_max_threads() threads.
void FinishProduct(const GemmCall& call, const float* product, int64_t ld);

// A product of the call's kind on one thread.
using OneThreadProduct = absl::FunctionRef<absl::Status(const GemmCall&, Workspace&)>;

// The product with the same bits on any number of threads. oneDNN divides work by how many threads
// there are, for small c and many terms the terms too, which then add up in another order. Here c
// is cut into tiles, at places that its sizes alone decide, and each tile is one thread's
// `product`; m, n and k are above 0. Each tile packs what it multiplies by itself, and a product of
// a single tile has one thread. The error of one of them, if any fails.
absl::Status TeamGemm(const GemmCall& call, Workspace& workspace, OneThreadProduct product);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_GEMM_CPU_H_
