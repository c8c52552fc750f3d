// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/json_members.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct DTypeFacts {
  absl::string_view name;
  int bits;
};

// Indexed by SafetensorsDType.
constexpr std::array<DTypeFacts, 20> kDTypes = {
    {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
     {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

// Elements may begin at any byte, so they are copied out one by one; compilers turn that into plain
// unaligned loads.
template <typename T, typename Convert>
void ConvertElements(const uint8_t* from, absl::Span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and read in place");

constexpr size_t kMaxRank = static_cast<size_t>(Shape::kMaxRank);
constexpr char kMetadataKey[] = "__metadata__";
// The header, its tensors and their lists. Deeper nesting stops the parser.
constexpr JsonLimits kLimits = {.max_depth = 3,
                                .max_bytes = static_cast<size_t>(kMaxSafetensorsHeaderBytes)};

std::string DimsText(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

// Errors begin with `place`.
absl::StatusOr<SafetensorsEntry> ReadEntry(const nlohmann::json& json, const std::string& place,
                                           int64_t data_bytes) {
  const auto wrong = [&place](const auto&... what) {
    return InvalidArgument(place, ": ", what...);
  };
  // Bounds the lists before they are copied and put into messages.
  for (const char* const field : {"shape", "data_offsets"}) {
    const auto list = json.find(field);
    if (list == json.end() || list->size() <= kMaxRank) continue;
    return wrong(field, " has ", list->size(), " numbers, of which at most ", kMaxRank,
                 " are supported");
  }
  absl::Status status;
  JsonMembers members(json, place, status);
  const std::string dtype = members.Text("dtype");
  const std::vector<int64_t> shape = members.Integers("shape", 0, JsonMembers::kMost);
  const std::vector<int64_t> offsets = members.Integers("data_offsets", 0, JsonMembers::kMost);
  ZEROTH_RETURN_IF_ERROR(status);
  for (const auto& [field, value] : json.items()) {
    if (field == "dtype" || field == "shape" || field == "data_offsets") continue;
    return wrong("field \"", field, "\" is unknown, expected dtype, shape and data_offsets");
  }
  const absl::StatusOr<SafetensorsDType> parsed = ParseSafetensorsDType(dtype);
  ZEROTH_RETURN_IF_ERROR_WITH(parsed.status(), place);
  const absl::StatusOr<int64_t> bytes = SafetensorsBytes(*parsed, shape);
  ZEROTH_RETURN_IF_ERROR_WITH(bytes.status(), place);
  const std::string range = absl::StrCat("data_offsets ", DimsText(offsets));
  if (offsets.size() != 2) return wrong(range, ", expected [begin, end]");
  if (offsets[0] > offsets[1]) return wrong(range, " end before they begin");
  if (offsets[1] > data_bytes) {
    return wrong(range, " leave the ", data_bytes,
                 " bytes of data that the file holds; is it truncated?");
  }
  if (offsets[1] - offsets[0] != *bytes) {
    return wrong(range, " span ", offsets[1] - offsets[0], " bytes, expected ", *bytes, " for ",
                 dtype, " ", DimsText(shape));
  }
  return SafetensorsEntry{*parsed, Shape(shape), offsets[0], offsets[1]};
}

absl::Status CheckTiling(const SafetensorsHeader& header, int64_t data_bytes) {
  int64_t covered = 0;
  const std::string* previous = nullptr;
  for (const TensorEntries::value_type* item : ByRange(header.tensors)) {
    const auto& [name, entry] = *item;
    if (entry.begin < covered) {
      return InvalidArgument("tensors \"", *previous, "\" and \"", name,
                             "\" overlap in the data bytes [", entry.begin, ", ",
                             std::min(covered, entry.end), ")");
    }
    if (entry.begin > covered) {
      return InvalidArgument("the data bytes [", covered, ", ", entry.begin, ") before tensor \"",
                             name, "\" belong to no tensor");
    }
    covered = entry.end;
    previous = &name;
  }
  if (covered != data_bytes) {
    return InvalidArgument("the data bytes [", covered, ", ", data_bytes,
                           ") after the last tensor belong to no tensor");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const nlohmann::json& header) {
  absl::Status status;
  const nlohmann::json& object = JsonMembers(header, "the header", status).Object(kMetadataKey);
  JsonMembers members(object, absl::StrCat("\"", kMetadataKey, "\""), status);
  std::map<std::string, std::string> metadata;
  for (const auto& item : object.items()) metadata[item.key()] = members.Text(item.key());
  ZEROTH_RETURN_IF_ERROR(status);
  return metadata;
}

absl::StatusOr<SafetensorsHeader> ParseHeader(absl::Span<const uint8_t> head, int64_t size) {
  if (size < 8) {
    return InvalidArgument(size, " bytes, expected at least 8 for the length of the header");
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return InvalidArgument("bytes 0 to 7 announce a header of ", length,
                           " bytes, expected at most ", kMaxSafetensorsHeaderBytes,
                           "; is this a safetensors file?");
  }
  if (length > static_cast<uint64_t>(size - 8)) {
    return InvalidArgument("bytes 0 to 7 announce a header of ", length, " bytes, but only ",
                           size - 8, " follow; is the file truncated?");
  }
  if (length == 0 || head[8] != '{') {
    return absl::InvalidArgumentError("the header does not begin with \"{\" at byte 8");
  }
  const absl::string_view text(reinterpret_cast<const char*>(head.data()) + 8, length);
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, "the header", kLimits));
  SafetensorsHeader header;
  header.data_begin = 8 + static_cast<int64_t>(length);
  const int64_t data_bytes = size - header.data_begin;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      ZEROTH_ASSIGN_OR_RETURN(header.metadata, ReadMetadata(json));
      continue;
    }
    const std::string place = absl::StrCat("tensor \"", name, "\"");
    ZEROTH_ASSIGN_OR_RETURN(header.tensors[name], ReadEntry(value, place, data_bytes));
  }
  ZEROTH_RETURN_IF_ERROR(CheckTiling(header, data_bytes));
  return header;
}

}  // namespace

absl::string_view SafetensorsDTypeName(SafetensorsDType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}

int BitsOf(SafetensorsDType dtype) { return kDTypes[static_cast<size_t>(dtype)].bits; }

absl::StatusOr<SafetensorsDType> ParseSafetensorsDType(absl::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<SafetensorsDType>(i);
  }
  return InvalidArgument(
      "unknown dtype \"", name, "\", expected one of ",
      absl::StrJoin(kDTypes, ", ", [](std::string* out, const DTypeFacts& facts) {
        absl::StrAppend(out, facts.name);
      }));
}

SafetensorsDType ToSafetensorsDType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return SafetensorsDType::kF32;
    case DType::kBFloat16:
      return SafetensorsDType::kBF16;
    case DType::kFloat16:
      return SafetensorsDType::kF16;
    case DType::kInt32:
      return SafetensorsDType::kI32;
    case DType::kInt64:
      return SafetensorsDType::kI64;
    case DType::kUInt8:
      return SafetensorsDType::kU8;
  }
  ZEROTH_CHECK(false);
}

bool ConvertsToFloat32(SafetensorsDType dtype) {
  return dtype == SafetensorsDType::kF32 || dtype == SafetensorsDType::kF16 ||
         dtype == SafetensorsDType::kBF16 || dtype == SafetensorsDType::kF64;
}

void ConvertToFloat32(SafetensorsDType dtype, const uint8_t* from, absl::Span<float> out) {
  switch (dtype) {
    case SafetensorsDType::kF32:
      std::memcpy(out.data(), from, out.size() * sizeof(float));
      return;
    case SafetensorsDType::kF16:
      return ConvertElements<Float16>(from, out, [](Float16 value) { return ToFloat(value); });
    case SafetensorsDType::kBF16:
      return ConvertElements<BFloat16>(from, out, [](BFloat16 value) { return ToFloat(value); });
    case SafetensorsDType::kF64:
      return ConvertElements<double>(from, out,
                                     [](double value) { return static_cast<float>(value); });
    default:
      ZEROTH_CHECK(ConvertsToFloat32(dtype));
  }
}

void ConvertFromFloat32(DType dtype, absl::Span<const float> values, uint8_t* out) {
  if (dtype == DType::kFloat32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return;
  }
  ZEROTH_CHECK(dtype == DType::kBFloat16 || dtype == DType::kFloat16);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits =
        dtype == DType::kBFloat16 ? ToBFloat16(values[i]).bits : ToFloat16(values[i]).bits;
    std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
  }
}

std::vector<const TensorEntries::value_type*> ByRange(const TensorEntries& tensors) {
  std::vector<const TensorEntries::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  return order;
}

absl::StatusOr<int64_t> SafetensorsBytes(SafetensorsDType dtype, absl::Span<const int64_t> dims) {
  // A zero makes the tensor empty, whatever the other dimensions are.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  int64_t bits = BitsOf(dtype);
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(bits, dim, &bits)) {
      return InvalidArgument("the size of ", SafetensorsDTypeName(dtype), " ", DimsText(dims),
                             " overflows 63 bits");
    }
  }
  if (bits % 8 != 0) {
    return InvalidArgument(SafetensorsDTypeName(dtype), " ", DimsText(dims), " has ", bits,
                           " bits, expected a multiple of 8");
  }
  return bits / 8;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> head,
                                                         int64_t file_bytes,
                                                         const std::string& path) {
  auto header = ParseHeader(head, file_bytes);
  if (!header.ok())
    return Annotate(header.status(), absl::StrCat(path, ": not a valid safetensors file"));
  return header;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const RandomAccessFile& file) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<uint8_t> head, file.ReadHead(8));
  uint64_t length = 0;
  if (head.size() == 8) std::memcpy(&length, head.data(), sizeof(length));
  if (length <= static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    ZEROTH_ASSIGN_OR_RETURN(head, file.ReadHead(8 + static_cast<size_t>(length)));
  }
  return ParseSafetensorsHeader(head, static_cast<int64_t>(file.size()), file.path());
}

}  // namespace zeroth
