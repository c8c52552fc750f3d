// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Splits a matmul into blocks of c, and makes the calls of single blocks.

#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// Returns true if op(a) op(b) passes through a bias, GELU or SiLU before it is stored.
inline bool HasEpilogue(const GemmCall& call) {
  return call.bias != nullptr || call.activation != Activation::kNone ||
         call.pre_activation != nullptr || call.gelu_input != nullptr;
}

struct GemmBlock {
  int64_t row;
  int64_t column;
  int64_t m;
  int64_t n;
};

// Calls body(block) for every block of c, column by column of blocks, until one fails.
template <typename Body>
absl::Status ForEachBlock(const GemmCall& call, int64_t max_m, int64_t max_n, const Body& body) {
  for (int64_t column = 0; column < call.n; column += max_n) {
    for (int64_t row = 0; row < call.m; row += max_m) {
      const absl::Status status = body(
          GemmBlock{row, column, std::min(max_m, call.m - row), std::min(max_n, call.n - column)});
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// Return the addresses of op(a)[row, k] and op(b)[k, column].
inline const void* ElementOfA(const GemmCall& call, int64_t row, int64_t k) {
  return Advance(call.a, call.transpose_a ? k * call.lda + row : row * call.lda + k, call.dtype);
}
inline const void* ElementOfB(const GemmCall& call, int64_t k, int64_t column) {
  return Advance(call.b, call.transpose_b ? column * call.ldb + k : k * call.ldb + column,
                 call.dtype);
}

// Returns `call`, epilogue included, for one block of c.
inline GemmCall BlockOf(const GemmCall& call, const GemmBlock& block) {
  GemmCall part = call;
  part.m = block.m;
  part.n = block.n;
  part.a = ElementOfA(call, block.row, 0);
  part.b = ElementOfB(call, 0, block.column);
  part.c = Advance(call.c, block.row * call.ldc + block.column, call.c_dtype);
  part.bias = Advance(call.bias, block.column, call.dtype);
  part.saved_ld = call.saved_ld > 0 ? call.saved_ld : call.n;
  const int64_t saved = block.row * part.saved_ld + block.column;
  part.pre_activation = Advance(call.pre_activation, saved, call.c_dtype);
  part.gelu_input = Advance(call.gelu_input, saved, call.c_dtype);
  return part;
}

// Returns the call that computes op(a) op(b) of one block without the epilogue, in fp32, into
// `product`, which is contiguous.
inline GemmCall MatmulOfBlock(const GemmCall& call, const GemmBlock& block, float* product) {
  GemmCall part;
  part.m = block.m;
  part.n = block.n;
  part.k = call.k;
  part.dtype = call.dtype;
  part.a = ElementOfA(call, block.row, 0);
  part.lda = call.lda;
  part.transpose_a = call.transpose_a;
  part.b = ElementOfB(call, 0, block.column);
  part.ldb = call.ldb;
  part.transpose_b = call.transpose_b;
  part.c = product;
  part.ldc = block.n;
  return part;
}

}  // namespace zeroth
