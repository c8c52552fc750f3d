// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/offload.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// A store that marks its transfers in a timeline as those of `what`.
class MarkedStore : public OffloadStore {
 public:
  MarkedStore(std::shared_ptr<OffloadStore> store, Timeline* timeline, absl::string_view what)
      : store_(std::move(store)), timeline_(timeline), what_(what) {}

  absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) override {
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<OffloadRegion> region, store_->Reserve(bytes));
    return std::make_shared<Region>(std::move(region), timeline_, what_);
  }
  OffloadStats stats() const override { return store_->stats(); }

 private:
  class Region : public OffloadRegion {
   public:
    Region(std::shared_ptr<OffloadRegion> region, Timeline* timeline, const std::string& what)
        : OffloadRegion(region->bytes()),
          region_(std::move(region)),
          timeline_(timeline),
          what_(what) {}
    absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) override {
      return Timed(
          timeline_, stream, "read", what_,
          [&] { return region_->Read(offset, dst, bytes, stream); }, static_cast<int64_t>(bytes));
    }
    absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) override {
      return Timed(
          timeline_, stream, "write", what_,
          [&] { return region_->Write(offset, src, bytes, stream); }, static_cast<int64_t>(bytes));
    }

   private:
    const std::shared_ptr<OffloadRegion> region_;
    Timeline* const timeline_;
    const std::string what_;
  };

  const std::shared_ptr<OffloadStore> store_;
  Timeline* const timeline_;
  const std::string what_;
};

// InvalidArgument names the field, its value and the allowed values.
absl::Status Validate(const OffloadOptions& options) {
  if (options.chunk_numel < 1) {
    return InvalidArgument("offload: chunk_numel is ", options.chunk_numel,
                           ", expected at least 1 element");
  }
  const bool has_directory = !options.directory.empty();
  if (has_directory && !options.any()) {
    return InvalidArgument(
        "offload: directory '", options.directory,
        "' is given, but nothing is offloaded; say what is: parameters, gradients or optimizer");
  }
  if (has_directory && options.store != nullptr) {
    return InvalidArgument("offload: both a store and the directory '", options.directory,
                           "' are given; the directory is for the device's own store");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Offload>> Offload::Create(Device& device,
                                                         const OffloadOptions& options,
                                                         Timeline* timeline) {
  ZEROTH_RETURN_IF_ERROR(Validate(options));
  std::unique_ptr<Offload> offload(new Offload(options));
  offload->timeline_ = timeline;
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

absl::StatusOr<StateTensor> Offload::Reserve(int64_t numel, DType dtype, absl::string_view what) {
  ZEROTH_CHECK(store_ != nullptr);
  std::shared_ptr<OffloadStore> store = store_;
  if (timeline_ != nullptr) store = std::make_shared<MarkedStore>(store_, timeline_, what);
  absl::StatusOr<StateTensor> tensor = StateTensor::Offloaded(*store, numel, dtype);
  ZEROTH_RETURN_IF_ERROR_WITH(tensor.status(), absl::StrCat("offloading ", what));
  return tensor;
}

}  // namespace zeroth
