// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/shard_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace {

// The error of every read of a file; 0: none.
int read_error = 0;

}  // namespace

// Replaces the C library's, for the whole program.
extern "C" ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (read_error == 0) return syscall(SYS_pread64, fd, buffer, count, offset);
  errno = read_error;
  return -1;
}
extern "C" ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  if (read_error == 0) return syscall(SYS_preadv2, fd, parts, count, offset, 0, flags);
  errno = read_error;
  return -1;
}

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kId[] = "feedfeedfeedfeed";

// Elements by "state/parameter": the first bytes of a stream of random ones.
using Contents = std::map<std::string, std::vector<uint8_t>>;

struct Declared {
  std::string parameter;
  Shape shape;
  std::string state;
  DType dtype;
};

const std::vector<Declared>& Tensors() {
  static const std::vector<Declared> tensors = {{"a", Shape({7, 5}), "param", DType::kFloat32},
                                                {"a", Shape({7, 5}), "m", DType::kBFloat16},
                                                {"a", Shape({7, 5}), "v", DType::kFloat16},
                                                {"b", Shape({33}), "param", DType::kFloat32},
                                                {"b", Shape({33}), "count", DType::kInt64},
                                                {"none", Shape({0, 3}), "param", DType::kFloat32},
                                                {"one", Shape({}), "param", DType::kFloat32}};
  return tensors;
}

class CheckpointReaderTest : public ::testing::Test {
 protected:
  CheckpointReaderTest() : device_(*DeviceRegistry::Create("cpu", DeviceOptions())) {}

  // Each tensor cut at random places among `ranks` files.
  void WriteCheckpoint(int ranks, uint32_t seed, const std::string& id = kId) {
    std::mt19937 random(seed);
    contents_.clear();
    std::vector<std::vector<StatePiece>> pieces(static_cast<size_t>(ranks));
    for (const Declared& tensor : Tensors()) {
      const int64_t numel = tensor.shape.numel();
      const size_t size = SizeOf(tensor.dtype);
      std::vector<uint8_t>& bytes = contents_[tensor.state + "/" + tensor.parameter];
      bytes.resize(static_cast<size_t>(numel) * size);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 120);
      std::vector<int64_t> cuts = {0, numel};
      for (int i = 0; i < 2 && numel > 0; ++i) {
        cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(numel)));
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      if (numel == 0) cuts = {0, 0};
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const Tensor data = *Tensor::Empty(*device_, Shape({cuts[i + 1] - cuts[i]}), tensor.dtype,
                                           MemoryCategory::kWorkspace);
        if (data.bytes() > 0) {
          std::memcpy(data.raw_data(), bytes.data() + static_cast<size_t>(cuts[i]) * size,
                      data.bytes());
        }
        StatePiece piece;
        piece.parameter = tensor.parameter;
        piece.shape = tensor.shape;
        piece.state = tensor.state;
        piece.begin = cuts[i];
        piece.end = cuts[i + 1];
        piece.shard = data;
        pieces[random() % pieces.size()].push_back(std::move(piece));
      }
    }
    CheckpointIndex index;
    index.id = id;
    index.step = 3;
    index.block_bytes = 16;
    std::atomic<int64_t> progress{0};
    int64_t total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<StatePiece>& mine = pieces[static_cast<size_t>(rank)];
      ShardWriterOptions options;
      options.directory = dir_.path();
      options.file = ShardFileName(rank, ranks);
      options.block_bytes = 16;
      options.progress = &progress;
      const auto plan = PlanShard(id, 3, mine);
      ASSERT_TRUE(plan.ok()) << plan.status();
      auto shard = WriteShard(options, *device_, mine, *plan);
      ASSERT_TRUE(shard.ok()) << shard.status();
      total += plan->file_bytes;
      ASSERT_TRUE(index.Merge(*std::move(shard)).ok());
    }
    EXPECT_EQ(progress.load(), total);
    ASSERT_TRUE(index.CheckComplete().ok()) << index.CheckComplete();
    dir_.Write(kCheckpointIndexName, index.ToText());
  }

  std::unique_ptr<CheckpointReader> Open() {
    auto reader = CheckpointReader::Open(dir_.path());
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }

  // The first error of reading everything; OK if there is none.
  absl::Status ReadAll() {
    const auto reader = CheckpointReader::Open(dir_.path());
    if (!reader.ok()) return reader.status();
    for (const Declared& tensor : Tensors()) {
      const std::vector<uint8_t>& expected = contents_[tensor.state + "/" + tensor.parameter];
      std::vector<uint8_t> bytes(expected.size());
      absl::Status status =
          (*reader)->ReadBytes(tensor.parameter, tensor.state, 0, absl::MakeSpan(bytes));
      if (!status.ok()) return status;
      EXPECT_EQ(bytes, expected) << "damage that nobody noticed";
    }
    return absl::OkStatus();
  }

  TemporaryDirectory dir_;
  std::shared_ptr<Device> device_;
  Contents contents_;
};

TEST_F(CheckpointReaderTest, AnyRangeReadsBackBitForBit) {
  std::mt19937 random(5);
  for (int ranks = 1; ranks <= 5; ++ranks) {
    WriteCheckpoint(ranks, static_cast<uint32_t>(ranks));
    const auto reader = Open();
    ASSERT_NE(reader, nullptr);
    EXPECT_TRUE(reader->Verify().empty());
    for (int round = 0; round < 300; ++round) {
      const Declared& tensor = Tensors()[random() % Tensors().size()];
      const auto numel = static_cast<uint64_t>(tensor.shape.numel());
      const size_t size = SizeOf(tensor.dtype);
      const uint64_t begin = random() % (numel + 1);
      const uint64_t count = random() % (numel - begin + 1);
      std::vector<uint8_t> bytes(count * size);
      ASSERT_EQ(reader->ReadBytes(tensor.parameter, tensor.state, static_cast<int64_t>(begin),
                                  absl::MakeSpan(bytes)),
                absl::OkStatus());
      const uint8_t* const expected =
          contents_[tensor.state + "/" + tensor.parameter].data() + begin * size;
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected)) << tensor.parameter;
    }
  }
}

TEST_F(CheckpointReaderTest, ConvertsToFloat32) {
  WriteCheckpoint(3, 11);
  const auto reader = Open();
  std::vector<float> values(30);
  for (const auto& [state, bf16] : {std::pair("m", true), std::pair("v", false)}) {
    ASSERT_EQ(reader->Read("a", state, 4, absl::MakeSpan(values)), absl::OkStatus());
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, contents_[std::string(state) + "/a"].data() + (i + 4) * 2, 2);
      EXPECT_EQ(values[i], bf16 ? ToFloat(BFloat16{bits}) : ToFloat(Float16{bits}));
    }
  }
  EXPECT_THAT(std::string(reader->Read("b", "count", 0, absl::MakeSpan(values)).message()),
              HasSubstr("is I64, expected F32"));
}

TEST_F(CheckpointReaderTest, WrongRangesAndNamesAreErrors) {
  WriteCheckpoint(2, 1);
  const auto reader = Open();
  std::vector<float> values(10);
  EXPECT_EQ(reader->Read("c", "param", 0, absl::MakeSpan(values)).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(reader->Read("b", "m", 0, absl::MakeSpan(values)).code(), absl::StatusCode::kNotFound);
  for (const int64_t begin : {int64_t{-1}, int64_t{24}, int64_t{1} << 62}) {
    EXPECT_EQ(reader->Read("b", "param", begin, absl::MakeSpan(values)).code(),
              absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(CheckpointReader::Open(dir_.File("absent")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointReaderTest, ShardsAreSafetensorsFiles) {
  WriteCheckpoint(1, 2);
  const auto file = SafetensorsFile::Open(dir_.File(ShardFileName(0, 1)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("checkpoint"), kId);
  ASSERT_NE((*file)->Find("param/one"), nullptr);
  const auto bytes = (*file)->RawBytes("param/one");
  EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(), contents_["param/one"].begin()));
}

TEST_F(CheckpointReaderTest, FlippedBytesAreNamed) {
  WriteCheckpoint(2, 3);
  for (const std::string& name : dir_.List()) {
    const std::string path = dir_.File(name);
    const std::string good = ReadTestFile(path);
    for (size_t i = 0; i < good.size(); i += 1 + good.size() / 500) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x40);
      dir_.Write(name, bad);
      const absl::Status status = ReadAll();
      // Only the layout of the index may change, to the same content.
      if (name == kCheckpointIndexName && status.ok()) continue;
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << path << " byte " << i << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    }
    dir_.Write(name, good);
  }
  EXPECT_EQ(ReadAll(), absl::OkStatus());
}

TEST_F(CheckpointReaderTest, UnreadableFilesAreNotDamage) {
  WriteCheckpoint(2, 5);
  const auto reader = Open();
  std::vector<float> values(35);
  for (const int error : {EIO, ESTALE, ETIMEDOUT}) {
    read_error = error;
    const absl::Status opened = CheckpointReader::Open(dir_.path()).status();
    const absl::Status read = reader->Read("a", "param", 0, absl::MakeSpan(values));
    read_error = 0;
    for (const absl::Status& status : {opened, read}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(dir_.path()), HasSubstr(strerror(error))));
    }
    // The same file answers again.
    EXPECT_EQ(reader->Read("a", "param", 0, absl::MakeSpan(values)), absl::OkStatus());
    EXPECT_EQ(ReadAll(), absl::OkStatus());
  }
  // A link to itself is not damage either.
  for (const std::string& name : {ShardFileName(1, 2), std::string(kCheckpointIndexName)}) {
    const std::string good = ReadTestFile(dir_.File(name));
    std::filesystem::remove(dir_.File(name));
    std::filesystem::create_symlink(name, dir_.File(name));
    EXPECT_EQ(ReadAll().code(), absl::StatusCode::kFailedPrecondition) << ReadAll();
    std::filesystem::remove(dir_.File(name));
    dir_.Write(name, good);
  }
}

TEST_F(CheckpointReaderTest, DamageIsNamedByFileParameterAndBytes) {
  WriteCheckpoint(1, 4);
  const CheckpointPiece piece = Open()->Find("b", "param")->pieces.at(0);
  std::string bytes = ReadTestFile(dir_.File(ShardFileName(0, 1)));
  bytes[static_cast<size_t>(piece.file_begin)] ^= 1;
  dir_.Write(ShardFileName(0, 1), bytes);
  const int64_t end = piece.file_begin + std::min<int64_t>(16, (piece.end - piece.begin) * 4);
  const std::string range = absl::StrCat("the bytes [", piece.file_begin, ", ", end, ")");
  EXPECT_THAT(std::string(ReadAll().message()),
              AllOf(HasSubstr(ShardFileName(0, 1)), HasSubstr(range),
                    HasSubstr("of parameter \"b\" state \"param\", are damaged")));
  const std::vector<absl::Status> damages = Open()->Verify();
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_THAT(std::string(damages[0].message()), HasSubstr(range));
  // The other pieces are still good.
  std::vector<float> values(35);
  EXPECT_EQ(Open()->Read("a", "param", 0, absl::MakeSpan(values)), absl::OkStatus());
}

TEST_F(CheckpointReaderTest, MissingShortenedAndForeignFilesAreDamage) {
  const std::string name = ShardFileName(1, 2);
  WriteCheckpoint(2, 5, "0000000000000001");
  const std::string foreign = ReadTestFile(dir_.File(name));
  WriteCheckpoint(2, 5);
  const std::string good = ReadTestFile(dir_.File(name));
  const std::string index = ReadTestFile(dir_.File(kCheckpointIndexName));

  const auto expect = [&](const std::string& words) {
    const absl::Status status = ReadAll();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  dir_.Write(name, foreign);
  expect("a shard of another checkpoint: it was written by save 0000000000000001");
  dir_.Write(name, good.substr(0, good.size() - 1));
  expect(absl::StrCat(good.size() - 1, " bytes, but the index says ", good.size()));
  dir_.Write(name, "");
  expect("0 bytes, but the index says");
  unlink(dir_.File(name).c_str());
  expect(name);
  EXPECT_EQ(Open()->Verify().size(), 1u);
  dir_.Write(name, good);
  EXPECT_EQ(ReadAll(), absl::OkStatus());

  dir_.Write(kCheckpointIndexName, index.substr(0, index.size() / 2));
  expect("bad JSON");
  unlink(dir_.File(kCheckpointIndexName).c_str());
  expect("index.json");
}

// A hole of 1 TiB is not held in memory, and a pipe that nobody writes to is not waited for.
TEST_F(CheckpointReaderTest, HugeFilesAndPipesAreDamage) {
  WriteCheckpoint(2, 8);
  const std::string shard = dir_.File(ShardFileName(1, 2));
  ASSERT_EQ(unlink(shard.c_str()), 0);
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kDataLoss) << ReadAll();
  const std::string index = dir_.File(kCheckpointIndexName);
  ASSERT_EQ(truncate(index.c_str(), off_t{1} << 40), 0);
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kDataLoss) << ReadAll();
  EXPECT_THAT(std::string(ReadAll().message()), HasSubstr("1099511627776 bytes"));
  ASSERT_EQ(unlink(index.c_str()), 0);
  ASSERT_EQ(mkfifo(index.c_str(), 0600), 0);
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kDataLoss) << ReadAll();
}

TEST_F(CheckpointReaderTest, AbsurdClaimsAreRefused) {
  WriteCheckpoint(1, 6);
  // A piece of 2^29 bytes in one block, in a file that is not as long.
  nlohmann::json json = nlohmann::json::parse(ReadTestFile(dir_.File(kCheckpointIndexName)));
  json["files"][0]["bytes"] = int64_t{1} << 30;
  const auto data = json["files"][0]["header_bytes"].get<int64_t>();
  json["block_bytes"] = int64_t{1} << 30;
  json["parameters"] = {{"huge",
                         {{"shape", {1 << 27}},
                          {"states",
                           {{"param",
                             {{"dtype", "F32"},
                              {"block", 1},
                              {"pieces",
                               {{{"file", 0},
                                 {"elements", {0, 1 << 27}},
                                 {"bytes", {data, data + (1 << 29)}},
                                 {"checksums", std::string(16, '0')}}}}}}}}}}};
  json.erase("checksum");
  json["checksum"] = ChecksumText(ChecksumOf(json.dump()));
  dir_.Write(kCheckpointIndexName, json.dump());
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  std::vector<float> values(1);
  EXPECT_THAT(std::string(reader->Read("huge", "param", 5, absl::MakeSpan(values)).message()),
              HasSubstr("but the index says 1073741824"));
  EXPECT_EQ(reader->Verify().size(), 1u);
}

}  // namespace
}  // namespace zeroth
