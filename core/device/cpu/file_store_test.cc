// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <linux/capability.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

std::vector<unsigned char> RandomBytes(const std::string& name, size_t count) {
  const CounterRng rng(1, name);
  std::vector<unsigned char> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(rng.Bits(i));
  return bytes;
}

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() : device_(*DeviceRegistry::Create("cpu", DeviceOptions())) {
    options_.directory = directory_.path();
  }

  absl::StatusOr<std::shared_ptr<OffloadStore>> Open() {
    return device_->CreateOffloadStore(options_);
  }

  TemporaryDirectory directory_;
  std::shared_ptr<Device> device_;
  OffloadStoreOptions options_;
};

TEST_F(FileStoreTest, IsZeroAtFirstAndCountsWhatItHas) {
  const std::shared_ptr<OffloadStore> store = *Open();
  const std::shared_ptr<OffloadRegion> first = *store->Reserve(1000);
  const std::shared_ptr<OffloadRegion> empty = *store->Reserve(0);
  const std::shared_ptr<OffloadRegion> second = *store->Reserve(4097);
  EXPECT_EQ(first->bytes(), 1000);
  EXPECT_EQ(empty->bytes(), 0);
  EXPECT_EQ(store->stats().reserved_bytes, 5097);
  std::vector<unsigned char> bytes(4097, 7);
  Stream& stream = device_->compute_stream();
  ASSERT_EQ(second->Read(0, bytes.data(), bytes.size(), stream), absl::OkStatus());
  EXPECT_EQ(bytes, std::vector<unsigned char>(4097, 0));
  EXPECT_EQ(empty->Read(0, nullptr, 0, stream), absl::OkStatus());
  EXPECT_EQ(store->stats().bytes_read, 4097);
  EXPECT_EQ(store->stats().bytes_written, 0);
  EXPECT_EQ(device_->allocator().stats().total.peak_bytes, 0);
}

TEST_F(FileStoreTest, KeepsRangesOfRegionsApart) {
  const std::shared_ptr<OffloadStore> store = *Open();
  std::vector<std::shared_ptr<OffloadRegion>> regions;
  std::vector<std::vector<unsigned char>> expected;
  for (const size_t size : {1, 4096, 513, 0, 70001}) {
    regions.push_back(*store->Reserve(static_cast<int64_t>(size)));
    expected.emplace_back(size, static_cast<unsigned char>(0));
  }
  Stream& stream = device_->compute_stream();
  const CounterRng rng(2, "ranges");
  for (uint64_t i = 0; i < 200; ++i) {
    const size_t at = rng.Bits(3 * i) % regions.size();
    const size_t size = expected[at].size();
    const size_t begin = rng.Bits(3 * i + 1) % (size + 1);
    const size_t count = rng.Bits(3 * i + 2) % (size - begin + 1);
    const std::vector<unsigned char> bytes = RandomBytes(std::to_string(i), count);
    ASSERT_EQ(regions[at]->Write(static_cast<int64_t>(begin), bytes.data(), count, stream),
              absl::OkStatus());
    if (count > 0) std::memcpy(expected[at].data() + begin, bytes.data(), count);
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    std::vector<unsigned char> bytes(expected[i].size());
    ASSERT_EQ(regions[i]->Read(0, bytes.data(), bytes.size(), stream), absl::OkStatus());
    EXPECT_EQ(bytes, expected[i]) << "region " << i;
  }
}

// For the thread sanitizer: two streams and the host, ordered by events alone.
TEST_F(FileStoreTest, StreamsMoveBytesBesideTheHost) {
  const std::shared_ptr<OffloadStore> store = *Open();
  constexpr size_t kBytes = size_t{1} << 16;
  constexpr int kRegions = 8;
  const std::unique_ptr<Stream> writer = *device_->CreateStream("write");
  const std::unique_ptr<Stream> reader = *device_->CreateStream("read");
  std::vector<std::shared_ptr<OffloadRegion>> regions;
  std::vector<std::vector<unsigned char>> sent;
  std::vector<std::vector<unsigned char>> received(kRegions, std::vector<unsigned char>(kBytes));
  for (int i = 0; i < kRegions; ++i) {
    regions.push_back(*store->Reserve(kBytes));
    sent.push_back(RandomBytes(std::to_string(i), kBytes));
  }
  for (size_t i = 0; i < kRegions; ++i) {
    ASSERT_EQ(regions[i]->Write(0, sent[i].data(), kBytes, *writer), absl::OkStatus());
    ASSERT_EQ(reader->Wait(*writer->Record()), absl::OkStatus());
    ASSERT_EQ(regions[i]->Read(0, received[i].data(), kBytes, *reader), absl::OkStatus());
    EXPECT_LE(store->stats().bytes_read, store->stats().bytes_written);
  }
  regions.clear();  // a transfer holds on to the file
  ASSERT_EQ(reader->Synchronize(), absl::OkStatus());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(store->stats().bytes_read, int64_t{kRegions * kBytes});
}

TEST_F(FileStoreTest, LeavesNoName) {
  const std::shared_ptr<OffloadStore> store = *Open();
  const std::shared_ptr<OffloadRegion> region = *store->Reserve(100000);
  EXPECT_TRUE(directory_.List().empty());
}

TEST_F(FileStoreTest, AnotherDirectoryIsNotTakenForOneThatIsMissing) {
  options_.directory = directory_.File("nowhere");
  const absl::Status missing = Open().status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.message().find(options_.directory), std::string::npos) << missing;

  options_.directory = directory_.Write("file", "text");
  const absl::Status no_directory = Open().status();
  EXPECT_EQ(no_directory.code(), absl::StatusCode::kFailedPrecondition) << no_directory;
}

// Gives up root's right to write anywhere.
bool DropPrivileges() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

// Runs in a child process.
void OpenWithoutPrivileges(Device& device, const OffloadStoreOptions& options) {
  if (!DropPrivileges()) std::_Exit(3);
  const absl::Status status = device.CreateOffloadStore(options).status();
  const bool named = status.message().find(options.directory) != absl::string_view::npos;
  std::_Exit(status.code() == absl::StatusCode::kPermissionDenied && named ? 0 : 2);
}

TEST_F(FileStoreTest, AnUnwritableDirectoryIsRefusedByName) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0555), 0);
  EXPECT_EXIT(OpenWithoutPrivileges(*device_, options_), testing::ExitedWithCode(0), "");
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
}

// Files of this process may grow to `bytes` while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &previous_);
    rlimit limit = previous_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &previous_); }

 private:
  rlimit previous_;
};

TEST_F(FileStoreTest, RoomThatIsNotThereIsRefusedWhenReserved) {
  const std::shared_ptr<OffloadStore> store = *Open();
  const std::shared_ptr<OffloadRegion> kept = *store->Reserve(1 << 16);
  {
    const FileSizeLimit limit(1 << 17);
    const absl::Status status = store->Reserve((1 << 16) + 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("65537 bytes beside 65536"), std::string::npos) << status;
    EXPECT_NE(status.message().find(directory_.path()), std::string::npos) << status;
    EXPECT_EQ(store->stats().reserved_bytes, 1 << 16);
    EXPECT_EQ(store->Reserve(1 << 16).status(), absl::OkStatus());
  }
  EXPECT_EQ(store->Reserve(INT64_MAX).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FileStoreTest, AFullDiskIsRefusedWhenReserved) {
  const std::string small = directory_.File("small");
  ASSERT_EQ(mkdir(small.c_str(), 0755), 0);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "this process may not mount a small file system: " << strerror(errno);
  }
  options_.directory = small;
  absl::Status full;
  absl::Status fits;
  {
    const absl::StatusOr<std::shared_ptr<OffloadStore>> store = Open();
    full = (*store)->Reserve(2 << 20).status();
    fits = (*store)->Reserve(1 << 19).status();
  }
  EXPECT_EQ(umount(small.c_str()), 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(fits, absl::OkStatus());
}

TEST_F(FileStoreTest, ATransferThatFailsIsItsStreamsError) {
  const std::shared_ptr<OffloadStore> store = *Open();
  const std::shared_ptr<OffloadRegion> region = *store->Reserve(1 << 16);
  const std::unique_ptr<Stream> stream = *device_->CreateStream("write");
  const std::vector<unsigned char> bytes(1 << 16, 1);
  // Lowering the limit after the store has reserved its space simulates a failing disk. With a
  // limit from the start, Reserve fails instead, and the signal never comes.
  auto* const previous_handler = signal(SIGXFSZ, SIG_IGN);
  const FileSizeLimit limit(1 << 15);
  ASSERT_EQ(region->Write(0, bytes.data(), bytes.size(), *stream), absl::OkStatus());
  const absl::Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("write offload file in " + directory_.path() + ", byte 32768"),
            std::string::npos)
      << status;
  EXPECT_EQ(store->stats().bytes_written, 0);
  signal(SIGXFSZ, previous_handler);
}

using FileStoreDeathTest = FileStoreTest;

TEST_F(FileStoreDeathTest, RangesBeyondARegionAreABug) {
  const std::shared_ptr<OffloadStore> store = *Open();
  const std::shared_ptr<OffloadRegion> region = *store->Reserve(8);
  char byte = 0;
  Stream& stream = device_->compute_stream();
  EXPECT_DEATH(region->Read(8, &byte, 1, stream).IgnoreError(), "");
  EXPECT_DEATH(region->Write(-1, &byte, 1, stream).IgnoreError(), "");
}

}  // namespace
}  // namespace zeroth
