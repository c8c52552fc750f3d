// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The mover of a GPU's memory: several ranks of one process share the device.

#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth {
namespace {

class CudaMover final : public LocalMover {
 public:
  explicit CudaMover(Stream& stream)
      : stream_(cuda::CudaStream::From(stream)),
        multiprocessors_(cuda::CudaDevice::From(stream.device()).properties().multiprocessors) {}

  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    return stream_.Update(
        cuda::ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.handle()),
                       "cudaMemcpyAsync between ranks"));
  }
  absl::Status Reduce(const HostReduction& reduction) override {
    return stream_.Update(cuda::TreeReduce(reduction, multiprocessors_, stream_.handle()));
  }

 private:
  cuda::CudaStream& stream_;
  const int multiprocessors_;
};

const LocalMoverRegistration registration(
    "cuda", [](Stream& stream) -> absl::StatusOr<std::unique_ptr<LocalMover>> {
      return std::make_unique<CudaMover>(stream);
    });

}  // namespace
}  // namespace zeroth
