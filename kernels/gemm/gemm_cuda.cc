// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/gemm_cuda.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"

namespace zeroth::cuda {
namespace {

// Number of multiplications that a plain kernel does in less than about 20 microseconds. Smaller
// matmuls need no permission.
constexpr int64_t kSmallMatmul = int64_t{1} << 23;
// Matmuls reach full speed from this number of rows on, and in multiples of it.
constexpr int64_t kRowStep = 128;

const void* AuxOf(const GemmCall& call) {
  return call.gelu_input != nullptr ? call.gelu_input : call.pre_activation;
}

// Returns true if cuBLASLt documents the epilogue, or if there is none. It has no SiLU, and
// requires a bias of c's type and auxiliary rows of a multiple of 8 elements.
bool IsEpilogueOfBlas(const GemmCall& call) {
  return call.activation != Activation::kSilu &&
         (call.bias == nullptr || call.dtype == call.c_dtype) &&
         (AuxOf(call) == nullptr || call.n % 8 == 0);
}

absl::StatusOr<bool> MultiplyByBlas(const GemmCall& call, CublasLt& blas) {
  return blas.Multiply(
      KeyOf(call, blas.allow_tf32()),
      {.first = call.b, .second = call.a, .c = call.c, .bias = call.bias, .aux = AuxOf(call)});
}

// Computes a matmul for which cuBLASLt has no algorithm.
absl::Status FallbackMatmul(const GemmCall& call, CublasLt& blas, const LaunchTarget& target) {
  if (call.m * call.n * call.k >= kSmallMatmul) {
    ZEROTH_RETURN_IF_ERROR(blas.AllowSlowMatmul(
        absl::StrCat("[", call.m, ", ", call.k, "]", call.transpose_a ? " transposed" : "", " x [",
                     call.k, ", ", call.n, "]", call.transpose_b ? " transposed" : "", " in ",
                     DTypeName(call.dtype), " into ", DTypeName(call.c_dtype))));
  }
  return PlainGemm(call, target);
}

// Multiplies by cuBLASLt and applies our own epilogue, in chunks of rows. Returns false, without
// writing to c, if cuBLASLt has no algorithm without the epilogue either.
absl::StatusOr<bool> MultiplyInStages(const GemmCall& call, CublasLt& blas,
                                      const LaunchTarget& target) {
  const int64_t step = StagedRows(call);
  if (step == 0) return false;
  ZEROTH_ASSIGN_OR_RETURN(float* const staging, blas.Staging());
  for (int64_t begin = 0; begin < call.m; begin += step) {
    const int64_t rows = std::min(step, call.m - begin);
    const GemmCall product = MatmulOfBlock(call, {begin, 0, rows, call.n}, staging);
    ZEROTH_ASSIGN_OR_RETURN(const bool multiplied, MultiplyByBlas(product, blas));
    if (!multiplied && begin == 0) return false;
    // The last chunk may have so few rows that only the others have an algorithm.
    if (!multiplied) ZEROTH_RETURN_IF_ERROR(FallbackMatmul(product, blas, target));
    ZEROTH_RETURN_IF_ERROR(ApplyEpilogue(call, begin, rows, staging, target));
  }
  return true;
}

}  // namespace

MatmulKey KeyOf(const GemmCall& call, bool allow_tf32) {
  MatmulKey key = KeyOfRowMajor(call);
  key.dtype = call.dtype;
  key.transpose_first = call.transpose_b;
  key.transpose_second = call.transpose_a;
  key.first_ld = call.ldb;
  key.second_ld = call.lda;
  key.allow_tf32 = allow_tf32;
  key.aux_alignment = AlignmentOf(AuxOf(call));
  if (call.gelu_input != nullptr) {
    key.epilogue = Epilogue::kGeluBackward;
  } else if (call.activation == Activation::kGelu) {
    key.epilogue = call.pre_activation == nullptr
                       ? (call.bias == nullptr ? Epilogue::kGelu : Epilogue::kBiasGelu)
                       : (call.bias == nullptr ? Epilogue::kGeluAux : Epilogue::kBiasGeluAux);
  } else if (call.bias != nullptr) {
    key.epilogue = Epilogue::kBias;
  }
  return key;
}

int64_t StagedRows(const GemmCall& call) {
  const int64_t fitting =
      static_cast<int64_t>(CublasLt::kStagingBytes / sizeof(float)) / std::max<int64_t>(call.n, 1);
  return call.m <= fitting ? call.m : fitting / kRowStep * kRowStep;
}

absl::Status Gemm(const GemmCall& call, CublasLt& blas, const LaunchTarget& target) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return PlainGemm(call, target);  // cuBLASLt does not accept depth 0
  if (IsEpilogueOfBlas(call)) {
    ZEROTH_ASSIGN_OR_RETURN(const bool multiplied, MultiplyByBlas(call, blas));
    if (multiplied) return absl::OkStatus();
  }
  if (HasEpilogue(call)) {
    ZEROTH_ASSIGN_OR_RETURN(const bool multiplied, MultiplyInStages(call, blas, target));
    if (multiplied) return absl::OkStatus();
  }
  return FallbackMatmul(call, blas, target);
}

namespace {

// Returns the smallest distance between rows of `columns` elements that keeps them on 16 bytes.
int64_t AlignedStride(int64_t columns, DType dtype) {
  const auto elements = int64_t{16} / static_cast<int64_t>(SizeOf(dtype));
  return (columns + elements - 1) / elements * elements;
}

// Computes a matmul whose bits depend on its sizes and types alone. cuBLASLt chooses among its
// algorithms by strides and alignments too, which change with the number of tensor ranks: a piece
// of the depth may have rows of 514 bytes on one rank and of 256 bytes on two. So every matrix has
// the stride of AlignedStride, or is copied to scratch memory that has it. pre_activation and
// gelu_input are separate tensors, with the same stride and alignment on every rank.
absl::Status GemmOfAnyLayout(const GemmCall& call, CublasLt& blas, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  if (call.m == 0 || call.n == 0 || call.k == 0) return Gemm(call, blas, target);
  GemmCall aligned = call;
  std::vector<std::shared_ptr<Buffer>> copies;  // until all work is enqueued
  const auto align = [&](int64_t rows, int64_t columns, DType dtype, bool is_read, auto*& data,
                         int64_t& ld) -> absl::Status {
    const int64_t stride = AlignedStride(columns, dtype);
    if (rows == 1) ld = stride;  // a single row has no other to be distant from
    if (AlignmentOf(data) == 16 && ld == stride) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> copy,
                            kernels.Scratch(static_cast<size_t>(rows * stride) * SizeOf(dtype)));
    if (is_read) {
      ZEROTH_RETURN_IF_ERROR(
          CopyRows(rows, columns, dtype, data, ld, copy->data(), stride, target));
    }
    copies.push_back(copy);
    data = copy->data();
    ld = stride;
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(align(call.transpose_a ? call.k : call.m,
                               call.transpose_a ? call.m : call.k, call.dtype, true, aligned.a,
                               aligned.lda));
  ZEROTH_RETURN_IF_ERROR(align(call.transpose_b ? call.n : call.k,
                               call.transpose_b ? call.k : call.n, call.dtype, true, aligned.b,
                               aligned.ldb));
  int64_t bias_ld = call.n;
  ZEROTH_RETURN_IF_ERROR(align(1, call.n, call.dtype, true, aligned.bias, bias_ld));
  ZEROTH_RETURN_IF_ERROR(
      align(call.m, call.n, call.c_dtype, call.accumulate, aligned.c, aligned.ldc));
  ZEROTH_RETURN_IF_ERROR(Gemm(aligned, blas, target));
  if (aligned.c == call.c) return absl::OkStatus();
  return CopyRows(call.m, call.n, call.c_dtype, aligned.c, aligned.ldc, call.c, call.ldc, target);
}

absl::Status RunGemm(const GemmCall& call, CudaKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, kernels.Blas());
  if (kernels.device().options().bits_of_any_team) return GemmOfAnyLayout(call, *blas, kernels);
  return Gemm(call, *blas, kernels.target());
}
const OnCuda<RunGemm> gemm;

absl::Status BiasGradient(const BiasGradientCall& call, CudaKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      kernels.Scratch(static_cast<size_t>(RowPieces(call.rows) * call.cols) * sizeof(float)));
  return ColumnSum(call.rows, call.cols, call.stride, call.dtype, call.dy, call.accumulate,
                   call.grad_dtype, call.dbias, static_cast<float*>(scratch->data()),
                   kernels.target());
}
const OnCuda<BiasGradient> bias_gradient;

}  // namespace
}  // namespace zeroth::cuda
