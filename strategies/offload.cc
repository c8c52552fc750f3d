// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/offload.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status ValidateOffloadOptions(const OffloadOptions& options) {
  if (options.chunk_numel < 1) {
    return absl::InvalidArgumentError(absl::StrCat("offload: chunk_numel is ", options.chunk_numel,
                                                   ", expected at least 1 element"));
  }
  const bool has_directory = !options.directory.empty();
  if (has_directory && !options.any()) {
    return absl::InvalidArgumentError(
        absl::StrCat("offload: directory '", options.directory,
                     "' is given, but nothing is offloaded; say what is: parameters, gradients or "
                     "optimizer"));
  }
  if (has_directory && options.store != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("offload: both a store and the directory '", options.directory,
                     "' are given; the directory is for the device's own store"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Offload>> Offload::Create(Device& device,
                                                         const OffloadOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateOffloadOptions(options));
  std::unique_ptr<Offload> offload(new Offload(options));
  if (options.any()) {
    offload->store_ = options.store;
    if (offload->store_ == nullptr) {
      ZEROTH_ASSIGN_OR_RETURN(offload->store_, device.CreateOffloadStore({options.directory}));
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(offload->passes_,
                          StatePasses::Create(device, options.chunk_numel, options.any()));
  return offload;
}

absl::StatusOr<OffloadedTensor> Offload::Reserve(int64_t numel, DType dtype,
                                                 absl::string_view what) {
  ZEROTH_CHECK(store_ != nullptr);
  absl::StatusOr<OffloadedTensor> tensor = OffloadedTensor::Zeros(*store_, numel, dtype);
  ZEROTH_RETURN_IF_ERROR_WITH(tensor.status(), absl::StrCat("offloading ", what));
  return tensor;
}

}  // namespace zeroth
