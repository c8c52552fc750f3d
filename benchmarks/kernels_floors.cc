// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/kernels_floors.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// The floors may use the widest vectors that the machine has, as the kernels do.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ZEROTH_WIDEST_VECTORS __attribute__((target_clones("arch=x86-64-v4,avx2,default")))
#else
#define ZEROTH_WIDEST_VECTORS
#endif

ZEROTH_WIDEST_VECTORS void Triad(int64_t n, const float* __restrict a, const float* __restrict b,
                                 float* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + 3.0f * b[i];
}

ZEROTH_WIDEST_VECTORS void NegateInPlace(int64_t n, float* x) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
}

ZEROTH_WIDEST_VECTORS float PlainSumOfSquares(int64_t n, const float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

template <typename Body>
double Seconds(const Body& body) {
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs op and floor in turn, so that both meet the machine in the same mood.
absl::Status Compare(benchmark::State& state, int64_t bytes, const Op& op,
                     const std::function<void()>& floor) {
  ZEROTH_RETURN_IF_ERROR(op());  // touches memory, sizes the workspace
  floor();
  double best = std::numeric_limits<double>::infinity();
  double best_floor = best;
  absl::Status status;
  for (auto _ : state) {
    best_floor = std::min(best_floor, Seconds(floor));
    const double seconds = Seconds([&] { status = op(); });
    ZEROTH_RETURN_IF_ERROR(status);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best * 1e-9;
  state.counters["floor_GB/s"] = static_cast<double>(bytes) / best_floor * 1e-9;
  state.counters["ratio_to_floor"] = best_floor / best;
  return absl::OkStatus();
}

absl::Status RunCase(benchmark::State& state, const Case& test) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::Create(test.dtype));
  const int64_t rows = (state.range(0) << 20) / (test.bytes_per_element * kDim);
  const int64_t bytes = rows * kDim * test.bytes_per_element;
  ZEROTH_ASSIGN_OR_RETURN(const Op op, test.prepare(*bench, rows));
  if (test.floor == Floor::kSumOfSquares) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x,
                            bench->Floats({bytes / static_cast<int64_t>(sizeof(float))}));
    return Compare(state, bytes, op, [x] {
      benchmark::DoNotOptimize(PlainSumOfSquares(x.numel(), x.data<float>()));
    });
  }
  if (test.floor == Floor::kInPlace) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x,
                            bench->Floats({bytes / static_cast<int64_t>(2 * sizeof(float))}));
    return Compare(state, bytes, op, [x] {
      NegateInPlace(x.numel(), x.data<float>());
      benchmark::ClobberMemory();
    });
  }
  const int64_t count = bytes / static_cast<int64_t>(3 * sizeof(float));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, bench->Floats({count}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, bench->Floats({count}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor out, bench->Floats({count}));
  return Compare(state, bytes, op, [a, b, out, count] {
    Triad(count, a.data<float>(), b.data<float>(), out.data<float>());
    benchmark::ClobberMemory();
  });
}

void RunBenchmark(benchmark::State& state, const Case* test) {
  const absl::Status status = RunCase(state, *test);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bench>> Bench::Create(DType dtype) {
  auto bench = std::make_unique<Bench>();
  bench->dtype_ = dtype;
  ZEROTH_ASSIGN_OR_RETURN(bench->device_, DeviceRegistry::Create("cpu", DeviceOptions{}));
  bench->device_->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(
      bench->kernels_, KernelRegistry::Create(*bench->device_, bench->device_->compute_stream()));
  return bench;
}

absl::StatusOr<Tensor> Bench::Values(const Shape& shape) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor floats, Floats(shape));
  if (dtype_ == DType::kFloat32) return floats;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tensor,
                          Tensor::Empty(*device_, shape, dtype_, MemoryCategory::kActivations));
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(*kernels_, floats, tensor));
  return tensor;
}

absl::StatusOr<Tensor> Bench::Floats(const Shape& shape) {
  ZEROTH_ASSIGN_OR_RETURN(
      Tensor tensor, Tensor::Empty(*device_, shape, DType::kFloat32, MemoryCategory::kActivations));
  float* data = tensor.data<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const uint32_t draw = Draw();
    const float magnitude = static_cast<float>(draw & 0xfffffu) * 0x1p-19f + 0x1p-10f;
    data[i] = (draw & 0x80000000u) != 0 ? -magnitude : magnitude;
  }
  return tensor;
}

absl::StatusOr<Tensor> Bench::Zeros(const Shape& shape, DType dtype) {
  return Tensor::Zeros(*device_, shape, dtype, MemoryCategory::kActivations);
}

absl::StatusOr<Tensor> Bench::Tokens(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int32_t& value : values) value = static_cast<int32_t>(Draw() % kVocab);
  return Tensor::FromHost<int32_t>(*device_, Shape({1, count}), values,
                                   MemoryCategory::kActivations);
}

bool RegisterCases(std::vector<Case> cases) {
  // Benchmarks outlive their registration.
  for (const Case& test : *new std::vector<Case>(std::move(cases))) {
    const std::string name = std::string("BM_") + test.name;
    benchmark::RegisterBenchmark(name.c_str(), RunBenchmark, &test)
        ->ArgName("MiB")
        ->Arg(12)
        ->Arg(768)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}

}  // namespace zeroth
