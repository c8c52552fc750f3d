// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/planned/planned_device.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The cost of a call. Its time is the longer of its arithmetic and its memory traffic if
// `hides_memory`, and their sum otherwise.
struct KernelCost {
  double flops = 0;
  double flops_per_second = 1;
  double bytes = 0;  // read and written
  bool hides_memory = true;
  int launches = 1;
  int64_t scratch = 0;  // bytes of workspace
  // The memory that the scratch is allocated in. A CPU keeps one block for each place, which grows
  // to the largest call. On a GPU, scratch is freed after the call.
  enum Place { kShared, kMatmuls } place = kShared;
};

// Kernels of a planned device: each operation notes its cost on the stream, and allocates the
// workspace that the machine's own kernel allocates.
class PlannedKernels final : public Kernels {
 public:
  PlannedKernels(PlannedDevice& device, Stream& stream, const KernelOptions& options)
      : Kernels(device, stream, options), device_(device) {}

  const Machine& machine() const { return device_.machine(); }
  PlannedDevice& planned_device() const { return device_; }
  bool is_gpu() const { return device_.machine().is_gpu; }
  int threads() const { return device_.options().threads; }
  // Returns the matmul rate in this type of all devices that work for the rank together.
  double FlopsPerSecond(DType dtype) const;
  // Returns the fraction of that rate that this shape reaches: a GPU computes whole waves of tiles.
  double Fill(int64_t m, int64_t n, int64_t k) const;

  absl::Status Note(absl::string_view operation, const KernelCost& cost);

 private:
  PlannedDevice& device_;
  std::map<KernelCost::Place, std::shared_ptr<Buffer>> kept_;
};

}  // namespace zeroth
