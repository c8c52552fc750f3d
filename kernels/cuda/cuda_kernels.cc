// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/cuda_kernels.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/cuda/cublaslt.h"

namespace zeroth::cuda {
namespace {

// Older devices have no TF32. On them, cuBLASLt would silently multiply in fp32.
constexpr int kLeastTf32Capability = 80;

}  // namespace

CudaKernels::CudaKernels(CudaDevice& device, CudaStream& stream, const KernelOptions& options)
    : Kernels(device, stream, options),
      device_(device),
      stream_(stream),
      target_{stream.handle(), device.properties().multiprocessors} {}

CudaKernels::~CudaKernels() = default;

absl::StatusOr<std::unique_ptr<Kernels>> CudaKernels::Create(CudaDevice& device, CudaStream& stream,
                                                             const KernelOptions& options) {
  const int capability = device.properties().compute_capability;
  if (options.fp32_precision == Fp32Precision::kTf32 && capability < kLeastTf32Capability) {
    return absl::UnimplementedError(absl::StrCat(
        "fp32_precision = tf32: ", device.name(), " has compute capability ", capability / 10, ".",
        capability % 10, ", and TF32 begins with 8.0; expected ieee, fp32 matmuls in fp32"));
  }
  return std::unique_ptr<Kernels>(new CudaKernels(device, stream, options));
}

absl::Status CudaKernels::Finish(const absl::Status& launched, CallTensors tensors) {
  // A failed allocation does not fail the stream, except while the stream is being recorded: the
  // recording would lack the refused work.
  const bool refused = absl::IsResourceExhausted(launched) && stream_.playback() == nullptr;
  const absl::Status status = refused ? launched : stream_.Update(launched);
  if (stream_.is_compute()) return status;
  // Also after an error, since kernels that were launched before it may still run.
  for (const Tensor* tensor : tensors) stream_.Retain(tensor->buffer());
  for (std::shared_ptr<Buffer>& buffer : scratch_) stream_.Retain(std::move(buffer));
  scratch_.clear();
  return status;
}

absl::StatusOr<std::shared_ptr<Buffer>> CudaKernels::Scratch(size_t bytes) {
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                          device_.allocator().Allocate(bytes, MemoryCategory::kWorkspace));
  if (stream_.is_compute()) return buffer;
  // The compute stream may still use this memory, so this stream waits for it first.
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> free, device_.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(stream_.Wait(free));
  scratch_.push_back(buffer);
  return buffer;
}

absl::StatusOr<CublasLt*> CudaKernels::Blas() {
  if (blas_ == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(blas_,
                            CublasLt::Create(stream_.handle(), device_.allocator(), options()));
  }
  return blas_.get();
}

std::vector<std::string> CudaKernels::SlowMatmuls() const {
  if (blas_ == nullptr) return {};
  return {blas_->slow_matmuls().begin(), blas_->slow_matmuls().end()};
}

namespace {

const KernelRegistration registration(
    "cuda",
    [](Device& device, Stream& stream,
       const KernelOptions& options) -> absl::StatusOr<std::unique_ptr<Kernels>> {
      return CudaKernels::Create(CudaDevice::From(device), CudaStream::From(stream), options);
    },
    {.tf32 = true, .cudnn = true, .slow_kernels = true});

}  // namespace
}  // namespace zeroth::cuda
