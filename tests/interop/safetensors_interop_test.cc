// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The public Python package "safetensors" reads what we write and writes what we read, value for
// value: single files, Hugging Face directories, and the shards of a checkpoint.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/testing/state.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tests/interop/tensor_listing.h"

namespace zeroth {
namespace {

using testing::Spread;
using testing::TestState;

constexpr char kScript[] = "safetensors_listing.py";

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string RandomBytes(std::mt19937& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Scalars, empty tensors and odd sizes among them.
std::vector<int64_t> RandomDims(std::mt19937& random) {
  std::vector<int64_t> dims(random() % 5);
  for (int64_t& dim : dims) dim = static_cast<int64_t>(random() % 8);
  return dims;
}

// Names that need escapes in JSON, and bytes beyond ASCII.
std::string RandomName(std::mt19937& random, int number) {
  const char* const kinds[] = {"h.%d", "a\"b\\c/", "gr\xc3\xbc\xc3\x9f", "\xf0\x9f\x98\x80",
                               "tab\t"};
  return absl::StrCat(kinds[random() % std::size(kinds)], ".", number);
}

// Any bits of any of `dtypes`.
TensorListing RandomListing(uint32_t seed, absl::Span<const SafetensorsDType> dtypes) {
  std::mt19937 random(seed);
  TensorListing listing;
  for (uint32_t i = 0, count = random() % 12; i < count; ++i) {
    ListedTensor& tensor = listing.tensors[RandomName(random, static_cast<int>(i))];
    const SafetensorsDType dtype = dtypes[random() % dtypes.size()];
    tensor.dtype = std::string(SafetensorsDTypeName(dtype));
    tensor.dims = RandomDims(random);
    tensor.bytes = RandomBytes(random, static_cast<size_t>(*SafetensorsBytes(dtype, tensor.dims)));
    // Bytes other than 0 and 1 are not booleans.
    if (dtype == SafetensorsDType::kBool) {
      for (char& byte : tensor.bytes) byte = static_cast<char>(byte & 1);
    }
  }
  for (uint32_t i = 0, count = random() % 3; i < count; ++i) {
    listing.pairs[RandomName(random, static_cast<int>(i))] = RandomName(random, 0);
  }
  return listing;
}

TensorListing ListingOf(const SafetensorsFile& file) {
  TensorListing listing;
  for (const auto& [name, entry] : file.tensors()) {
    const absl::Span<const int64_t> dims = entry.shape.dims();
    const auto bytes = file.RawBytes(name);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    listing.tensors[name] = {std::string(SafetensorsDTypeName(entry.dtype)),
                             {dims.begin(), dims.end()},
                             {bytes->begin(), bytes->end()}};
  }
  listing.pairs = file.metadata();
  return listing;
}

DType DTypeOf(const ListedTensor& tensor) {
  return tensor.dtype == "F32"   ? DType::kFloat32
         : tensor.dtype == "F16" ? DType::kFloat16
                                 : DType::kBFloat16;
}

std::vector<TensorDeclaration> DeclarationsOf(const TensorListing& listing) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : listing.tensors) {
    declarations.push_back({name, DTypeOf(tensor), Shape(tensor.dims)});
  }
  return declarations;
}

class SafetensorsInteropTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PythonHas("safetensors.numpy")) GTEST_SKIP() << HowToGetPythonPackages();
  }

  // The package's listing of `path`, as text.
  std::string Read(const std::string& command, const std::string& path) {
    const PythonOutcome outcome = RunPython(kScript, {command, path});
    EXPECT_TRUE(outcome.ok()) << outcome.errors;
    return outcome.output;
  }

  TemporaryDirectory dir_;
};

constexpr SafetensorsDType kFloats[] = {SafetensorsDType::kF32, SafetensorsDType::kF16,
                                        SafetensorsDType::kBF16};
constexpr SafetensorsDType kOfNumpy[] = {
    SafetensorsDType::kF64, SafetensorsDType::kF32, SafetensorsDType::kF16,
    SafetensorsDType::kI64, SafetensorsDType::kI32, SafetensorsDType::kI16,
    SafetensorsDType::kI8,  SafetensorsDType::kU8,  SafetensorsDType::kBool};

TEST_F(SafetensorsInteropTest, ThePackageReadsOurFiles) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const TensorListing listing = RandomListing(seed, kFloats);
    const std::string path = dir_.File("ours.safetensors");
    auto writer = SafetensorsWriter::Create(path, DeclarationsOf(listing), listing.pairs);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [name, tensor] : listing.tensors) {
      const absl::Status status = (*writer)->WriteBytes(name, 0, BytesOf(tensor.bytes));
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    EXPECT_EQ(Read("read", path), listing.ToText()) << "seed " << seed;
  }
}

TEST_F(SafetensorsInteropTest, WeReadThePackagesFiles) {
  // numpy types are written by save_file, BF16 by the package's serializer.
  for (const auto dtypes : {absl::MakeConstSpan(kOfNumpy), absl::MakeConstSpan(kFloats)}) {
    for (uint32_t seed = 100; seed < 106; ++seed) {
      const TensorListing listing = RandomListing(seed, dtypes);
      const std::string path = dir_.File("theirs.safetensors");
      const PythonOutcome outcome =
          RunPython(kScript, {"write", dir_.Write("listing", listing.ToText()), path});
      ASSERT_TRUE(outcome.ok()) << outcome.errors;
      const auto file = SafetensorsFile::Open(path);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(ListingOf(**file).ToText(), listing.ToText()) << "seed " << seed;
    }
  }
}

class ModelDirectoryInteropTest : public SafetensorsInteropTest,
                                  public ::testing::WithParamInterface<int> {};

TEST_P(ModelDirectoryInteropTest, ThePackageReadsOurDirectories) {
  TensorListing listing = RandomListing(3, kFloats);
  ASSERT_GT(listing.tensors.size(), 3u);
  HfDirectoryOptions options;
  options.max_shard_bytes = GetParam();
  const auto config = HfConfig::Parse("{\"model_type\": \"gpt2\"}", "test");
  ASSERT_TRUE(config.ok()) << config.status();
  auto writer =
      HfDirectoryWriter::Create(dir_.File("model"), *config, DeclarationsOf(listing), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (auto& [name, tensor] : listing.tensors) {
    // This writer expects numbers: small ones, which every type can represent.
    std::vector<float> values(static_cast<size_t>(Shape(tensor.dims).numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 200) - 99.5f;
    tensor.bytes.clear();
    for (const float value : values) {
      const uint16_t half = tensor.dtype == "F16" ? ToFloat16(value).bits : ToBFloat16(value).bits;
      tensor.bytes += tensor.dtype == "F32"
                          ? std::string(reinterpret_cast<const char*>(&value), sizeof(value))
                          : std::string(reinterpret_cast<const char*>(&half), sizeof(half));
    }
    ASSERT_TRUE((*writer)->Write(name, 0, values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto files = static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(dir_.File("model")), {}));
  listing.pairs.clear();
  if (GetParam() == 0) {
    listing.pairs = {{"format", "pt"}};
    EXPECT_EQ(files, 2u);
  } else {
    listing.pairs = {{"files", absl::StrCat(files - 2)}};
    EXPECT_GT(files, 4u);
  }
  EXPECT_EQ(Read("model", dir_.File("model")), listing.ToText());
}

INSTANTIATE_TEST_SUITE_P(MaxShardBytes, ModelDirectoryInteropTest, ::testing::Values(0, 1, 30));

// Every state of every parameter follows the test's function, however it is sharded.
TensorListing ExpectedState(TestState& state, int version) {
  TensorListing listing;
  state.ForEach([&](const std::string& parameter, const std::string& name, int64_t element,
                    absl::Span<uint8_t> bytes) {
    ListedTensor& tensor = listing.tensors[absl::StrCat(name, "/", parameter)];
    tensor.bytes.resize(std::max(tensor.bytes.size(), (static_cast<size_t>(element) + 1) * 4));
    const float value = testing::ElementOf(parameter, name, element, version);
    ASSERT_EQ(bytes.size(), sizeof(value));
    std::memcpy(&tensor.bytes[static_cast<size_t>(element) * 4], &value, sizeof(value));
  });
  for (const Unit* unit : state.sharding->units()) {
    for (const Parameter* parameter : unit->parameters()) {
      listing.tensors[absl::StrCat("param/", parameter->name())];
      for (const char* name : {"param", "m", "v"}) {
        const auto found = listing.tensors.find(absl::StrCat(name, "/", parameter->name()));
        if (found == listing.tensors.end()) continue;
        found->second.dtype = "F32";
        const absl::Span<const int64_t> dims = parameter->shape().dims();
        found->second.dims.assign(dims.begin(), dims.end());
      }
    }
  }
  return listing;
}

absl::Status SaveCheckpoint(Communicator& world, Device& device, const Spread& spread,
                            const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(TestState state,
                          TestState::Create(world, device, spread, testing::RandomUnits(5)));
  CheckpointSaverOptions options;
  options.directory = directory;
  ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
  state.Fill(3);
  return saver
      ->Save(3, nlohmann::json::object(), OwnedPieces(*state.sharding, state.optimizer->states()))
      .status();
}

TEST_F(SafetensorsInteropTest, ThePackageReadsTheShardsOfOurCheckpoints) {
  // A single rank without sharding holds, and so knows, everything.
  TensorListing expected;
  absl::Status status = RunToyRanks(1, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state, TestState::Create(world, device, {"no_shard", 1},
                                                               testing::RandomUnits(5)));
    expected = ExpectedState(state, 3);
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  for (const Spread& spread : {Spread{"full_shard", 1}, Spread{"full_shard", 3},
                               Spread{"shard_optimizer", 2}, Spread{"hybrid_shard", 4, 2}}) {
    const std::string directory = dir_.File(spread.name());
    status = RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) {
      return SaveCheckpoint(world, device, spread, directory);
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Read("checkpoint", directory + "/step-00000003"), expected.ToText()) << spread.name();
  }
}

}  // namespace
}  // namespace zeroth
