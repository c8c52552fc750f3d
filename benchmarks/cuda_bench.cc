// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/cuda_bench.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {
namespace {

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp32 = DType::kFloat32;
constexpr int64_t kCopyBytes = int64_t{512} << 20;  // far beyond any cache

// Measures times between marks on a stream. cudaEventElapsedTime between neighbouring marks has a
// resolution of half a microsecond; times since a common origin would not, because they are floats.
class Marks {
 public:
  explicit Marks(cudaStream_t stream) : stream_(stream) {}
  ~Marks() {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  absl::Status Mark() {
    cudaEvent_t event;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDefault));
    events_.push_back(event);
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventRecord(event, stream_));
    return absl::OkStatus();
  }

  // Waits for the mark after mark `i`, and returns the seconds between them.
  absl::StatusOr<double> SecondsAfter(size_t i) {
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(events_[i + 1]));
    float milliseconds = 0;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  const cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace

absl::StatusOr<CudaBench*> CudaBench::Get() {
  static const absl::StatusOr<CudaBench*> bench = []() -> absl::StatusOr<CudaBench*> {
    auto opened = std::make_unique<CudaBench>();
    ZEROTH_RETURN_IF_ERROR(
        opened->Open("cuda", KernelOptions{.attention = AttentionBackend::kFlash}));
    for (const auto& [kernels, options] :
         {std::pair(&opened->cudnn_, KernelOptions{.attention = AttentionBackend::kCudnn}),
          std::pair(&opened->tf32_, KernelOptions{.fp32_precision = Fp32Precision::kTf32})}) {
      Device& device = opened->device();
      ZEROTH_ASSIGN_OR_RETURN(*kernels,
                              KernelRegistry::Create(device, device.compute_stream(), options));
    }
    // Never destroyed, because CUDA is gone when static objects are destroyed.
    return opened.release();
  }();
  return bench;
}

absl::StatusOr<CastFp8Args> CudaBench::Fp8Cast(const Tensor& values, bool transposed) {
  CastFp8Args cast;
  cast.values = values;
  const int64_t rows = cast.values.rows;
  const int64_t cols = cast.values.cols;
  if (transposed) {
    ZEROTH_ASSIGN_OR_RETURN(cast.codes_transposed,
                            Zeros(Shape({cols, PaddedFp8Depth(rows)}), DType::kUInt8));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(cast.codes, Zeros(Shape({rows, cols}), DType::kUInt8));
  }
  ZEROTH_ASSIGN_OR_RETURN(cast.scale, Zeros(Shape({2}), kFp32));
  return cast;
}

absl::StatusOr<CudaBench::Floor*> CudaBench::GemmFloor(Precision precision) {
  std::unique_ptr<Floor>& floor = gemms_[static_cast<size_t>(precision)];
  if (floor != nullptr) return floor.get();
  // fp32 GEMMs are an order of magnitude slower than the others.
  const int64_t side = precision == Precision::kFloat32 ? 4096 : 8192;
  const bool low = precision == Precision::kBFloat16 || precision == Precision::kFp8;
  const DType dtype = low ? kBf16 : kFp32;
  const Shape shape({side, side});
  auto made = std::make_unique<Floor>();
  made->amount = 2.0 * static_cast<double>(side * side * side);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, Values(shape, dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor c, Values(shape, dtype));
  if (precision == Precision::kFp8) {
    ZEROTH_ASSIGN_OR_RETURN(const CastFp8Args cast, Fp8Cast(a, /*transposed=*/false));
    ZEROTH_RETURN_IF_ERROR(kernels::CastFp8(kernels(), cast));
    Fp8GemmArgs args;
    args.a = {cast.codes, cast.format, cast.scale};
    args.b = args.a;
    args.c = c;
    made->run = [this, args] { return kernels::Fp8Gemm(kernels(), args); };
  } else {
    GemmArgs args;
    args.a = a;
    ZEROTH_ASSIGN_OR_RETURN(args.b, Values(shape, dtype));
    args.c = c;
    made->run = [&to = KernelsFor(precision), args] { return kernels::Gemm(to, args); };
  }
  floor = std::move(made);
  return floor.get();
}

absl::StatusOr<CudaBench::Floor*> CudaBench::CopyFloor() {
  if (copy_ != nullptr) return copy_.get();
  const Shape shape({kCopyBytes / 4});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Values(shape, kFp32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Zeros(shape, kFp32));
  copy_ = std::make_unique<Floor>();
  copy_->amount = 2.0 * static_cast<double>(from.bytes());  // read, and written
  copy_->run = [this, from, to] {
    return device().Copy(to.raw_data(), from.raw_data(), from.bytes(), device().compute_stream());
  };
  return copy_.get();
}

absl::Status CudaBench::Run(benchmark::State& state, const Work& work, const Op& op) {
  Floor* gemm = nullptr;
  Floor* copy = nullptr;
  if (work.flops > 0) {
    ZEROTH_ASSIGN_OR_RETURN(gemm, GemmFloor(work.precision));
  }
  if (work.bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(copy, CopyFloor());
  }
  // The first call plans GEMMs and sizes workspaces.
  ZEROTH_RETURN_IF_ERROR(op());
  Stream& stream = device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());

  double best[3];
  std::fill(std::begin(best), std::end(best), std::numeric_limits<double>::infinity());
  for (auto _ : state) {
    Marks marks(cuda::CudaDevice::From(device()).compute_stream().handle());
    ZEROTH_RETURN_IF_ERROR(marks.Mark());
    if (gemm != nullptr) ZEROTH_RETURN_IF_ERROR(gemm->run());
    ZEROTH_RETURN_IF_ERROR(marks.Mark());
    if (copy != nullptr) ZEROTH_RETURN_IF_ERROR(copy->run());
    ZEROTH_RETURN_IF_ERROR(marks.Mark());
    ZEROTH_RETURN_IF_ERROR(op());
    ZEROTH_RETURN_IF_ERROR(marks.Mark());
    double seconds = 0;
    for (size_t i = 0; i < 3; ++i) {
      ZEROTH_ASSIGN_OR_RETURN(seconds, marks.SecondsAfter(i));
      best[i] = std::min(best[i], seconds);
    }
    state.SetIterationTime(seconds);
  }
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());

  double floor_seconds = 0;
  if (gemm != nullptr) {
    floor_seconds += work.flops / gemm->amount * best[0];
    state.counters["TFLOP/s"] = work.flops / best[2] * 1e-12;
    state.counters["peak_TFLOP/s"] = gemm->amount / best[0] * 1e-12;
  }
  if (copy != nullptr) {
    floor_seconds += work.bytes / copy->amount * best[1];
    state.counters["GB/s"] = work.bytes / best[2] * 1e-9;
    state.counters["copy_GB/s"] = copy->amount / best[1] * 1e-9;
  }
  state.counters["ratio_to_floor"] = floor_seconds / best[2];
  return absl::OkStatus();
}

}  // namespace zeroth
