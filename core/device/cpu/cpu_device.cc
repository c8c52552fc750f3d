// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Registers the device kind "cpu"; everything else about it is reached through the Device
// interface.

#include <omp.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/cpu/file_store.h"
#include "zeroth/core/device/cpu/pool_allocator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/hardware.h"

namespace zeroth {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : options_(options),
        allocator_(std::make_shared<PoolAllocator>()),
        compute_stream_(NewInlineCpuStream(*this, "compute")) {}

  absl::string_view type() const override { return "cpu"; }
  int index() const override { return options_.index; }
  const DeviceOptions& options() const override { return options_; }
  Allocator& allocator() override { return *allocator_; }
  Stream& compute_stream() override { return *compute_stream_; }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) override {
    return NewWorkerCpuStream(*this, name, options_.threads);
  }

  void BindThread() override { omp_set_num_threads(options_.threads); }

  absl::Status Copy(void* dst, const void* src, size_t bytes, Stream& stream) override {
    return Enqueue(stream, bytes, [dst, src, bytes] { std::memcpy(dst, src, bytes); });
  }
  absl::Status CopyFromHost(void* dst, const void* host_src, size_t bytes,
                            Stream& stream) override {
    return Copy(dst, host_src, bytes, stream);
  }
  absl::Status CopyToHost(void* host_dst, const void* src, size_t bytes, Stream& stream) override {
    return Copy(host_dst, src, bytes, stream);
  }
  absl::Status FillZero(void* dst, size_t bytes, Stream& stream) override {
    return Enqueue(stream, bytes, [dst, bytes] { std::memset(dst, 0, bytes); });
  }
  bool MemoryIsHost() const override { return true; }

  absl::StatusOr<std::shared_ptr<OffloadStore>> CreateOffloadStore(
      const OffloadStoreOptions& options) override {
    return OpenFileStore(options);
  }

 private:
  template <typename Function>
  absl::Status Enqueue(Stream& stream, size_t bytes, Function function) {
    ZEROTH_CHECK(&stream.device() == this);
    // The pointers may be null, which memcpy and memset do not allow even for no bytes.
    if (bytes == 0) return stream.status();
    return CpuStream::From(stream).Enqueue([function] {
      function();
      return absl::OkStatus();
    });
  }

  const DeviceOptions options_;
  const std::shared_ptr<PoolAllocator> allocator_;
  const std::unique_ptr<CpuStream> compute_stream_;
};

absl::StatusOr<std::shared_ptr<Device>> CreateCpuDevice(const DeviceOptions& options) {
  if (options.index != 0) {
    return absl::InvalidArgumentError(absl::StrCat("there is no device cpu:", options.index,
                                                   "; the only CPU device of a process is cpu:0"));
  }
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a CPU device needs at least 1 thread per rank; got ", options.threads));
  }
  return std::make_shared<CpuDevice>(options);
}

// Names the first processor as Linux does: by name on x86, by numbers on Arm, and elsewhere by its
// architecture.
absl::StatusOr<std::string> NameProcessor(const Device&) {
  std::ifstream processors("/proc/cpuinfo");
  std::vector<std::string> facts;
  for (std::string line; std::getline(processors, line) && !line.empty();) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    for (const char* key : {"model name", "CPU implementer", "CPU variant", "CPU part"}) {
      if (absl::StripAsciiWhitespace(parts.first) != key) continue;
      facts.emplace_back(absl::StripAsciiWhitespace(parts.second));
    }
  }
  if (!facts.empty()) return absl::StrJoin(facts, " ");
  utsname system;
  if (uname(&system) != 0) return absl::ErrnoToStatus(errno, "uname");
  return system.machine;
}

const DeviceRegistration registration("cpu", CreateCpuDevice);
const HardwareNameRegistration hardware("cpu", NameProcessor);

}  // namespace
}  // namespace zeroth
