// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of a GPU's kernels share: tensors, floors, and times by CUDA events.

#ifndef ZEROTH_BENCHMARKS_CUDA_BENCH_H_
#define ZEROTH_BENCHMARKS_CUDA_BENCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// How products are computed.
enum class Precision : uint8_t { kBFloat16, kFloat32, kTf32, kFp8 };
inline constexpr size_t kPrecisions = 4;

// What an operation must do at least: floating-point operations of products, and bytes to read and
// write beside them. Its floor is the time of the former at the rate of a large square product plus
// that of the latter at the rate of a copy.
struct Work {
  double flops = 0;
  double bytes = 0;
  Precision precision = Precision::kBFloat16;
};

// The GPU of this process. One stream, one thread.
class CudaBench {
 public:
  // Opened at the first call. Fails where there is no GPU.
  static absl::StatusOr<CudaBench*> Get();

  Device& device() { return *device_; }
  // Their attention is our own.
  Kernels& kernels() { return *kernels_; }
  // Those whose attention is cuDNN's.
  Kernels& cudnn_kernels() { return *cudnn_kernels_; }
  // Those whose fp32 products are made in TF32.
  Kernels& tf32_kernels() { return *tf32_kernels_; }

  // Normally distributed. Zeros would not do: products of them draw less power and run faster.
  absl::StatusOr<Tensor> Values(const Shape& shape, DType dtype, float stddev = 1.0f);
  absl::StatusOr<Tensor> Zeros(const Shape& shape, DType dtype);
  // Uniform on [0, vocab).
  absl::StatusOr<Tensor> Tokens(const Shape& shape, int64_t vocab);
  // A cast of `values` [rows, cols] to e4m3 with room for its codes; `transposed` as they are or
  // the other way round.
  absl::StatusOr<CastFp8Args> Fp8Cast(const Tensor& values, bool transposed);

  // Runs `op` and what its floor is made of in turn, all enqueued at once, so that the device never
  // waits for the host and nothing starts from a warm cache.
  absl::Status Run(benchmark::State& state, const Work& work,
                   const std::function<absl::Status()>& op);

 private:
  // A large square product, or a large copy.
  struct Floor {
    double amount = 0;  // operations, or bytes
    std::function<absl::Status()> run;
  };

  absl::Status Open();
  absl::StatusOr<Floor*> ProductFloor(Precision precision);
  absl::StatusOr<std::function<absl::Status()>> SquareProduct(Precision precision, int64_t side);
  absl::StatusOr<Floor*> CopyFloor();

  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Kernels> tf32_kernels_;
  std::unique_ptr<Kernels> cudnn_kernels_;
  Tensor pattern_;  // of which all values are repetitions
  std::array<std::unique_ptr<Floor>, kPrecisions> products_;
  std::unique_ptr<Floor> copy_;
};

// The body of a benchmark whose work may fail.
void SkipOnError(benchmark::State& state, const absl::Status& status);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_CUDA_BENCH_H_
