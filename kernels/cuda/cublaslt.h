// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A wrapper of cuBLASLt for column-major matmuls, which plans each kind of matmul once.

#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cuda {

// The epilogue that cuBLASLt applies to a matmul's result before it stores it. The bias has one
// element for each row.
enum class Epilogue : uint8_t {
  kNone,
  kBias,
  kGelu,
  kBiasGelu,
  kGeluAux,  // also stores the argument of the GELU
  kBiasGeluAux,
  kGeluBackward,  // times gelu'(aux)
};

// Everything that determines how a matmul is computed; matmuls with equal keys share a plan. A bias
// has the type of the operands, aux that of c. Matrices are column-major: c [rows, columns] = first
// [rows, depth] * second [depth, columns].
struct MatmulKey {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  DType dtype = DType::kFloat32;
  DType c_dtype = DType::kFloat32;
  // If true, the operands are 8-bit floats of these formats, each with a scale, and `dtype` is that
  // of the bias.
  bool fp8 = false;
  Fp8Format first_format = Fp8Format::kE4M3;
  Fp8Format second_format = Fp8Format::kE4M3;
  bool transpose_first = false;
  bool transpose_second = false;
  int64_t first_ld = 0;
  int64_t second_ld = 0;
  int64_t c_ld = 0;
  bool accumulate = false;
  bool allow_tf32 = false;
  uint32_t first_alignment = 0;
  uint32_t second_alignment = 0;
  uint32_t c_alignment = 0;
  uint32_t bias_alignment = 0;  // of the epilogue's operands; AlignmentOf(nullptr) without them
  uint32_t aux_alignment = 0;
  Epilogue epilogue = Epilogue::kNone;

  auto operator<=>(const MatmulKey&) const = default;
};

// Returns the largest power of two up to 16 that divides the address. No algorithm needs more. If
// cuBLASLt knew a larger alignment, it could choose different algorithms for the same matmul in two
// buffers, with different last bits. Strategies that keep parameters in different buffers would
// then no longer agree.
uint32_t AlignmentOf(const void* pointer);

// Returns the key of a row-major matmul c [m, n] = a b; the caller adds the fields that only some
// calls have. A row-major matrix read by columns is its transpose, so that swapping the operands
// suffices: c^T = b^T a^T.
template <typename Call>
MatmulKey KeyOfRowMajor(const Call& call) {
  MatmulKey key;
  key.rows = call.n;
  key.columns = call.m;
  key.depth = call.k;
  key.c_dtype = call.c_dtype;
  key.c_ld = call.ldc;
  key.accumulate = call.accumulate;
  key.first_alignment = AlignmentOf(call.b);
  key.second_alignment = AlignmentOf(call.a);
  key.c_alignment = AlignmentOf(call.c);
  key.bias_alignment = AlignmentOf(call.bias);
  return key;
}

struct MatmulPointers {
  const void* first = nullptr;
  const void* second = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  // [rows, columns], contiguous. The Aux epilogues write it, kGeluBackward reads it.
  const void* aux = nullptr;
  // For 8-bit floats: the scale of each operand, in device memory.
  const float* first_scale = nullptr;
  const float* second_scale = nullptr;
};

// A handle of the library with its workspace and plans, for one stream. Not thread-safe.
class CublasLt {
 public:
  // NVIDIA's advice for Hopper; no algorithm gets faster with more.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  // Memory for the results that our own epilogue reads; small enough to stay in the L2 cache.
  static constexpr size_t kStagingBytes = size_t{16} << 20;
  static constexpr size_t kMostPlans = 1024;

  // `stream` and `allocator` must outlive the result.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Create(cudaStream_t stream, Allocator& allocator,
                                                          const KernelOptions& options = {});
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Returns true if fp32 matmuls may round their inputs to 10 bits of mantissa.
  bool allow_tf32() const { return options_.fp32_precision == Fp32Precision::kTf32; }

  // Enqueues a matmul and returns true, or returns false if cuBLASLt has no algorithm for it. The
  // first matmul of each key asks the library for an algorithm. Algorithms that split the depth are
  // accepted only if they add the parts in fp32, in workspace, because others round each part to
  // c's type.
  absl::StatusOr<bool> Multiply(const MatmulKey& key, const MatmulPointers& pointers);

  // Checks whether a plain kernel, which is about a hundred times slower, may compute a matmul that
  // has no algorithm. If so, records `matmul` in slow_matmuls(); otherwise Unimplemented names
  // it.
  absl::Status AllowSlowMatmul(const std::string& matmul);
  const std::set<std::string>& slow_matmuls() const { return slow_matmuls_; }

  // Returns kStagingBytes of memory, allocated at the first call, for the next work on the stream.
  absl::StatusOr<float*> Staging();

  // The number of plans that exist, and the number that were ever made.
  size_t plan_count() const { return plans_.size(); }
  int64_t plans_made() const { return plans_made_; }

 private:
  struct Plan;
  // The most recently used plan comes first.
  using PlanList = std::list<std::pair<MatmulKey, std::unique_ptr<Plan>>>;

  CublasLt(cudaStream_t stream, Allocator& allocator, const KernelOptions& options);
  absl::StatusOr<Plan*> FindPlan(const MatmulKey& key);
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const MatmulKey& key);
  // Asks the library for the algorithm of a plan, whose descriptors are complete.
  absl::Status AskForAlgorithm(const MatmulKey& key, Plan& plan);

  const cudaStream_t stream_;
  Allocator& allocator_;
  const KernelOptions options_;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<Buffer> workspace_;
  std::shared_ptr<Buffer> staging_;
  PlanList recent_;
  std::map<MatmulKey, PlanList::iterator> plans_;
  int64_t plans_made_ = 0;
  std::set<std::string> slow_matmuls_;
};

}  // namespace zeroth::cuda
