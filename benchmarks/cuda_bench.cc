// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/cuda_bench.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {
namespace {

// Not a power of two, so that repetitions start on all alignments of rows.
constexpr int64_t kPatternElements = 1000003;
constexpr int64_t kCopyBytes = int64_t{512} << 20;  // far beyond any cache

// Times between marks on the compute stream. cudaEventElapsedTime between neighbours keeps half a
// microsecond, which times since a common origin, being floats, do not.
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

  // Seconds from the mark `i` to the next one, waiting for it.
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

cudaStream_t HandleOf(Device& device) {
  return cuda::CudaDevice::From(device).compute_stream().handle();
}

// fp32 products are an order of magnitude slower than the others.
int64_t FloorSide(Precision precision) { return precision == Precision::kFloat32 ? 4096 : 8192; }

}  // namespace

absl::StatusOr<CudaBench*> CudaBench::Get() {
  static const absl::StatusOr<CudaBench*> bench = []() -> absl::StatusOr<CudaBench*> {
    auto opened = std::make_unique<CudaBench>();
    ZEROTH_RETURN_IF_ERROR(opened->Open());
    // Lives as long as the process: CUDA is gone when static objects are destroyed.
    return opened.release();
  }();
  return bench;
}

absl::Status CudaBench::Open() {
  ZEROTH_ASSIGN_OR_RETURN(device_, DeviceRegistry::Create("cuda", DeviceOptions()));
  device_->BindThread();
  KernelOptions flash;
  flash.attention = AttentionBackend::kFlash;
  ZEROTH_ASSIGN_OR_RETURN(kernels_,
                          KernelRegistry::Create(*device_, device_->compute_stream(), flash));
  KernelOptions cudnn;
  cudnn.attention = AttentionBackend::kCudnn;
  ZEROTH_ASSIGN_OR_RETURN(cudnn_kernels_,
                          KernelRegistry::Create(*device_, device_->compute_stream(), cudnn));
  KernelOptions tf32;
  tf32.fp32_precision = Fp32Precision::kTf32;
  ZEROTH_ASSIGN_OR_RETURN(tf32_kernels_,
                          KernelRegistry::Create(*device_, device_->compute_stream(), tf32));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(kPatternElements));
  for (float& value : values) value = normal(random);
  ZEROTH_ASSIGN_OR_RETURN(pattern_, Tensor::FromHost<float>(*device_, Shape({kPatternElements}),
                                                            values, MemoryCategory::kWorkspace));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> CudaBench::Values(const Shape& shape, DType dtype, float stddev) {
  const MemoryCategory category = MemoryCategory::kActivations;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Empty(*device_, shape, dtype, category));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor scaled,
                          Tensor::Empty(*device_, pattern_.shape(), DType::kFloat32, category));
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(
      device_->Copy(scaled.raw_data(), pattern_.raw_data(), pattern_.bytes(), stream));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(*kernels_, scaled, stddev));
  Tensor repeated = scaled;
  if (dtype != DType::kFloat32) {
    ZEROTH_ASSIGN_OR_RETURN(repeated, Tensor::Empty(*device_, pattern_.shape(), dtype, category));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*kernels_, scaled, repeated));
  }
  for (size_t begin = 0; begin < tensor.bytes(); begin += repeated.bytes()) {
    ZEROTH_RETURN_IF_ERROR(
        device_->Copy(static_cast<char*>(tensor.raw_data()) + begin, repeated.raw_data(),
                      std::min(repeated.bytes(), tensor.bytes() - begin), stream));
  }
  return tensor;
}

absl::StatusOr<Tensor> CudaBench::Zeros(const Shape& shape, DType dtype) {
  return Tensor::Zeros(*device_, shape, dtype, MemoryCategory::kActivations);
}

absl::StatusOr<Tensor> CudaBench::Tokens(const Shape& shape, int64_t vocab) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(vocab - 1));
  std::vector<int32_t> values(static_cast<size_t>(shape.numel()));
  for (int32_t& value : values) value = uniform(random);
  return Tensor::FromHost<int32_t>(*device_, shape, values, MemoryCategory::kActivations);
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
  ZEROTH_ASSIGN_OR_RETURN(cast.scale, Zeros(Shape({2}), DType::kFloat32));
  return cast;
}

absl::StatusOr<std::function<absl::Status()>> CudaBench::SquareProduct(Precision precision,
                                                                       int64_t side) {
  const bool low = precision == Precision::kBFloat16 || precision == Precision::kFp8;
  const DType dtype = low ? DType::kBFloat16 : DType::kFloat32;
  const Shape shape({side, side});
  if (precision == Precision::kFp8) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor values, Values(shape, dtype));
    ZEROTH_ASSIGN_OR_RETURN(const CastFp8Args cast, Fp8Cast(values, /*transposed=*/false));
    ZEROTH_RETURN_IF_ERROR(kernels::CastFp8(*kernels_, cast));
    Fp8GemmArgs args;
    args.a = {cast.codes, cast.format, cast.scale};
    args.b = args.a;
    ZEROTH_ASSIGN_OR_RETURN(args.c, Values(shape, dtype));
    return [this, args] { return kernels::Fp8Gemm(*kernels_, args); };
  }
  GemmArgs args;
  ZEROTH_ASSIGN_OR_RETURN(args.a, Values(shape, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.b, Values(shape, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.c, Values(shape, dtype));
  Kernels& kernels = precision == Precision::kTf32 ? *tf32_kernels_ : *kernels_;
  return [&kernels, args] { return kernels::Gemm(kernels, args); };
}

absl::StatusOr<CudaBench::Floor*> CudaBench::ProductFloor(Precision precision) {
  std::unique_ptr<Floor>& floor = products_[static_cast<size_t>(precision)];
  if (floor != nullptr) return floor.get();
  const int64_t side = FloorSide(precision);
  ZEROTH_ASSIGN_OR_RETURN(std::function<absl::Status()> run, SquareProduct(precision, side));
  floor = std::make_unique<Floor>();
  floor->amount = 2.0 * static_cast<double>(side * side * side);
  floor->run = std::move(run);
  return floor.get();
}

absl::StatusOr<CudaBench::Floor*> CudaBench::CopyFloor() {
  if (copy_ != nullptr) return copy_.get();
  const Shape shape({kCopyBytes / 4});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Values(shape, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Zeros(shape, DType::kFloat32));
  copy_ = std::make_unique<Floor>();
  copy_->amount = 2.0 * static_cast<double>(from.bytes());  // read, and written
  copy_->run = [this, from, to] {
    return device_->Copy(to.raw_data(), from.raw_data(), from.bytes(), device_->compute_stream());
  };
  return copy_.get();
}

absl::Status CudaBench::Run(benchmark::State& state, const Work& work,
                            const std::function<absl::Status()>& op) {
  Floor* product = nullptr;
  Floor* copy = nullptr;
  if (work.flops > 0) {
    ZEROTH_ASSIGN_OR_RETURN(product, ProductFloor(work.precision));
  }
  if (work.bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(copy, CopyFloor());
  }
  // The first call plans products and sizes workspaces.
  ZEROTH_RETURN_IF_ERROR(op());
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());

  double best[3];
  std::fill(std::begin(best), std::end(best), std::numeric_limits<double>::infinity());
  for (auto _ : state) {
    Marks marks(HandleOf(*device_));
    ZEROTH_RETURN_IF_ERROR(marks.Mark());
    if (product != nullptr) ZEROTH_RETURN_IF_ERROR(product->run());
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
  if (product != nullptr) {
    floor_seconds += work.flops / product->amount * best[0];
    state.counters["TFLOP/s"] = work.flops / best[2] * 1e-12;
    state.counters["peak_TFLOP/s"] = product->amount / best[0] * 1e-12;
  }
  if (copy != nullptr) {
    floor_seconds += work.bytes / copy->amount * best[1];
    state.counters["GB/s"] = work.bytes / best[2] * 1e-9;
    state.counters["copy_GB/s"] = copy->amount / best[1] * 1e-9;
  }
  state.counters["ratio_to_floor"] = floor_seconds / best[2];
  return absl::OkStatus();
}

void SkipOnError(benchmark::State& state, const absl::Status& status) {
  if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
}

}  // namespace zeroth
