// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Times kernels on this process's GPU with CUDA events, next to their floors.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/kernel_bench.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The arithmetic of a GEMM.
enum class Precision : uint8_t { kBFloat16, kFloat32, kTf32, kFp8 };
inline constexpr size_t kPrecisions = 4;

// The least work of an operation: floating-point operations of GEMMs, and bytes to read and write.
// Its floor is the time of these operations at the rate of a large square GEMM, plus the time of
// these bytes at the rate of a large copy.
struct Work {
  double flops = 0;
  double bytes = 0;
  Precision precision = Precision::kBFloat16;
};

// The GPU of this process. Its kernels use our attention, not cuDNN's.
class CudaBench : public KernelBench {
 public:
  // Returns the bench, which the first call opens. Fails without a GPU.
  static absl::StatusOr<CudaBench*> Get();

  Kernels& cudnn_kernels() { return *cudnn_; }
  Kernels& KernelsFor(Precision precision) {
    return precision == Precision::kTf32 ? *tf32_ : kernels();
  }

  // Returns the arguments of a cast of `values` [rows, cols] to e4m3, with memory for its codes, or
  // for the transposed codes if `transposed`.
  absl::StatusOr<CastFp8Args> Fp8Cast(const Tensor& values, bool transposed);

  // Alternates `op` with the GEMM and the copy that set its floor. All calls are enqueued at once,
  // so that the device never waits for the host, and each starts with a cold cache.
  absl::Status Run(benchmark::State& state, const Work& work, const Op& op);

 private:
  // A large square GEMM or a large copy, whose measured rate sets floors.
  struct Floor {
    double amount = 0;  // operations, or bytes
    Op run;
  };

  absl::StatusOr<Floor*> GemmFloor(Precision precision);
  absl::StatusOr<Floor*> CopyFloor();

  std::unique_ptr<Kernels> cudnn_;
  std::unique_ptr<Kernels> tf32_;
  std::array<std::unique_ptr<Floor>, kPrecisions> gemms_;
  std::unique_ptr<Floor> copy_;
};

}  // namespace zeroth
