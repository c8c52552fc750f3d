// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

namespace zeroth {
namespace {

// The ranges tile the data: each has the size of its shape and type, none overlaps, nothing is
// left.
void CheckRanges(const SafetensorsHeader& header, int64_t file_bytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : header.tensors) {
    const auto bytes = SafetensorsBytes(entry.dtype, entry.shape.dims());
    ZEROTH_CHECK(bytes.ok() && entry.end - entry.begin == *bytes);
    ranges.emplace_back(entry.begin, entry.end);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t end = 0;
  for (const auto& [begin, next] : ranges) {
    ZEROTH_CHECK(begin == end);
    end = next;
  }
  ZEROTH_CHECK(header.data_begin + end == file_bytes);
}

// Every element at either end can be read, and none beyond.
void ReadEnds(const SafetensorsFile& file, const std::string& name, const SafetensorsEntry& entry) {
  float value = 0;
  const int64_t numel = entry.shape.numel();
  if (numel > 0 && ConvertsToFloat32(entry.dtype)) {
    ZEROTH_CHECK(file.ReadElements(name, 0, absl::MakeSpan(&value, 1)).ok());
    ZEROTH_CHECK(file.ReadElements(name, numel - 1, absl::MakeSpan(&value, 1)).ok());
  }
  ZEROTH_CHECK(!file.ReadElements(name, numel, absl::MakeSpan(&value, 1)).ok());
  const auto bytes = file.RawBytes(name);
  ZEROTH_CHECK(bytes.ok());
  uint8_t sum = 0;
  for (const uint8_t byte : *bytes) sum = static_cast<uint8_t>(sum + byte);
  static_cast<void>(sum);
}

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const auto file = SafetensorsFile::Open(in_memory.path());
  const auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()), "fuzz");
  ZEROTH_CHECK(file.ok() == header.ok());
  if (!header.ok()) return false;
  CheckRanges(*header, static_cast<int64_t>(bytes.size()));
  for (const auto& [name, entry] : header->tensors) ReadEnds(**file, name, entry);
  return true;
}

std::string FileOf(std::vector<TensorDeclaration> tensors,
                   std::map<std::string, std::string> metadata) {
  const TemporaryDirectory dir;
  const std::string path = dir.File("seed");
  const auto writer = SafetensorsWriter::Create(path, tensors, std::move(metadata));
  ZEROTH_CHECK(writer.ok());
  for (const TensorDeclaration& tensor : tensors) {
    const std::vector<uint8_t> bytes(static_cast<size_t>(tensor.shape.numel()) *
                                     SizeOf(tensor.dtype));
    ZEROTH_CHECK((*writer)->WriteBytes(tensor.name, 0, bytes).ok());
  }
  ZEROTH_CHECK((*writer)->Finish().ok());
  return ReadTestFile(path);
}

std::vector<std::string> Seeds() {
  return {FileOf({{"w", DType::kFloat32, {2, 3}}}, {}),
          FileOf({{"a", DType::kBFloat16, {2, 3}},
                  {"b\"\xc3\xa9", DType::kFloat16, {}},
                  {"c", DType::kFloat32, {3, 0, 5}},
                  {"d", DType::kUInt8, {7}},
                  {"e", DType::kInt64, {1, 1, 2}}},
                 SafetensorsWriter::DefaultMetadata()),
          FileOf({}, {{"key", "value"}})};
}

}  // namespace

ZEROTH_FUZZ_TARGET(Safetensors) { return {Run, Seeds}; }

}  // namespace zeroth
