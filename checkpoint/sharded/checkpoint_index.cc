// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_index.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "zeroth sharded checkpoint";
// Of index.json. A checksum takes 16 bytes per block of 2^20, so this is beyond any model.
constexpr size_t kMaxIndexBytes = size_t{1} << 31;
constexpr size_t kChecksumDigits = 16;

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

absl::Status Bad(absl::string_view place, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", found, ", expected ", expected));
}

std::string Brief(const Json& json) {
  const std::string text = Dump(json, -1);
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

// The member `key` of an object that is at `place`.
absl::StatusOr<const Json*> Member(const Json& object, absl::string_view key,
                                   absl::string_view place) {
  if (!object.is_object()) return Bad(place, Brief(object), "an object");
  const auto found = object.find(std::string(key));
  if (found == object.end()) return Bad(place, absl::StrCat("no \"", key, "\""), "one");
  return &*found;
}

absl::StatusOr<int64_t> Integer(const Json& json, int64_t least, int64_t most,
                                absl::string_view place) {
  const std::string range = absl::StrCat("an integer from ", least, " to ", most);
  if (!json.is_number_integer()) return Bad(place, Brief(json), range);
  // Unsigned values above 2^63 would wrap around.
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return Bad(place, Brief(json), range);
  }
  const auto value = json.get<int64_t>();
  if (value < least || value > most) return Bad(place, Brief(json), range);
  return value;
}

absl::StatusOr<int64_t> IntegerMember(const Json& object, absl::string_view key, int64_t least,
                                      int64_t most, absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const member, Member(object, key, place));
  return Integer(*member, least, most, absl::StrCat(place, ": \"", key, "\""));
}

absl::StatusOr<std::string> StringMember(const Json& object, absl::string_view key,
                                         absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const member, Member(object, key, place));
  if (!member->is_string()) {
    return Bad(absl::StrCat(place, ": \"", key, "\""), Brief(*member), "a string");
  }
  return member->get<std::string>();
}

absl::StatusOr<const Json*> ArrayMember(const Json& object, absl::string_view key,
                                        absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const member, Member(object, key, place));
  if (!member->is_array()) {
    return Bad(absl::StrCat(place, ": \"", key, "\""), Brief(*member), "an array");
  }
  return member;
}

absl::StatusOr<const Json*> ObjectMember(const Json& object, absl::string_view key,
                                         absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const member, Member(object, key, place));
  if (!member->is_object()) {
    return Bad(absl::StrCat(place, ": \"", key, "\""), Brief(*member), "an object");
  }
  return member;
}

// "key": [begin, end] with 0 <= begin <= end <= most.
absl::Status ReadRange(const Json& object, absl::string_view key, int64_t most,
                       absl::string_view place, int64_t& begin, int64_t& end) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const range, ArrayMember(object, key, place));
  const std::string here = absl::StrCat(place, ": \"", key, "\"");
  if (range->size() != 2) return Bad(here, Brief(*range), "[begin, end]");
  ZEROTH_ASSIGN_OR_RETURN(begin, Integer((*range)[0], 0, most, here));
  ZEROTH_ASSIGN_OR_RETURN(end, Integer((*range)[1], begin, most, here));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ChecksumMember(const Json& object, absl::string_view key,
                                        absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, StringMember(object, key, place));
  const absl::StatusOr<uint64_t> checksum = ParseChecksum(text);
  if (!checksum.ok()) return Annotate(checksum.status(), absl::StrCat(place, ": \"", key, "\""));
  return *checksum;
}

// One after the other without anything between: an array would take twice the room.
absl::StatusOr<std::vector<uint64_t>> ReadChecksums(const Json& piece, int64_t bytes,
                                                    int64_t block_bytes, absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, StringMember(piece, "checksums", place));
  const int64_t blocks = bytes / block_bytes + (bytes % block_bytes != 0 ? 1 : 0);
  if (static_cast<int64_t>(text.size() / kChecksumDigits) != blocks ||
      text.size() % kChecksumDigits != 0) {
    return Bad(absl::StrCat(place, ": \"checksums\""), absl::StrCat(text.size(), " digits"),
               absl::StrCat(kChecksumDigits, " for each of ", blocks, " blocks"));
  }
  std::vector<uint64_t> checksums;
  checksums.reserve(static_cast<size_t>(blocks));
  for (size_t i = 0; i < text.size(); i += kChecksumDigits) {
    ZEROTH_ASSIGN_OR_RETURN(const uint64_t checksum,
                            ParseChecksum(absl::string_view(text).substr(i, kChecksumDigits)));
    checksums.push_back(checksum);
  }
  return checksums;
}

absl::StatusOr<CheckpointFile> ReadFileEntry(const Json& json, absl::string_view place) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CheckpointFile file;
  ZEROTH_ASSIGN_OR_RETURN(file.name, StringMember(json, "name", place));
  // The name becomes part of a path: it must not lead out of the checkpoint.
  if (file.name.empty() || file.name == "." || file.name == ".." ||
      file.name.find('/') != std::string::npos || file.name.find('\0') != std::string::npos) {
    return Bad(absl::StrCat(place, ": \"name\""), Brief(file.name),
               "the name of a file in the checkpoint's directory");
  }
  ZEROTH_ASSIGN_OR_RETURN(file.bytes, IntegerMember(json, "bytes", 0, kMost, place));
  ZEROTH_ASSIGN_OR_RETURN(
      file.header_bytes,
      IntegerMember(json, "header_bytes", 0, std::min(file.bytes, kMaxSafetensorsHeaderBytes + 8),
                    place));
  ZEROTH_ASSIGN_OR_RETURN(file.header_checksum, ChecksumMember(json, "header_checksum", place));
  return file;
}

absl::StatusOr<CheckpointPiece> ReadPiece(const Json& json, const CheckpointIndex& index,
                                          SafetensorsDType dtype, int64_t numel,
                                          absl::string_view place) {
  const auto files = static_cast<int64_t>(index.files.size());
  CheckpointPiece piece;
  ZEROTH_ASSIGN_OR_RETURN(const int64_t file, IntegerMember(json, "file", 0, files - 1, place));
  piece.file = static_cast<int>(file);
  ZEROTH_RETURN_IF_ERROR(ReadRange(json, "elements", numel, place, piece.begin, piece.end));
  int64_t file_end = 0;
  ZEROTH_RETURN_IF_ERROR(ReadRange(json, "bytes", index.files[static_cast<size_t>(file)].bytes,
                                   place, piece.file_begin, file_end));
  if (const int64_t data = index.files[static_cast<size_t>(file)].header_bytes;
      piece.file_begin < data) {
    return Bad(absl::StrCat(place, ": \"bytes\""), absl::StrCat("begins at ", piece.file_begin),
               absl::StrCat(data, " at least, which the file's header ends at"));
  }
  const int64_t bytes = file_end - piece.file_begin;
  const int64_t size = BitsOf(dtype) / 8;
  if (bytes % size != 0 || bytes / size != piece.end - piece.begin) {
    return Bad(absl::StrCat(place, ": \"bytes\""), absl::StrCat(bytes, " bytes"),
               absl::StrCat(piece.end - piece.begin, " elements of ", size));
  }
  ZEROTH_ASSIGN_OR_RETURN(piece.checksums, ReadChecksums(json, bytes, index.block_bytes, place));
  return piece;
}

absl::StatusOr<CheckpointTensor> ReadTensor(const Json& json, const CheckpointIndex& index,
                                            const CheckpointParameter& parameter,
                                            absl::string_view place) {
  CheckpointTensor tensor;
  ZEROTH_ASSIGN_OR_RETURN(const std::string dtype, StringMember(json, "dtype", place));
  const absl::StatusOr<SafetensorsDType> parsed = ParseSafetensorsDType(dtype);
  if (!parsed.ok()) return Annotate(parsed.status(), place);
  tensor.dtype = *parsed;
  if (BitsOf(tensor.dtype) % 8 != 0) return Bad(place, dtype, "a type of whole bytes");
  ZEROTH_ASSIGN_OR_RETURN(
      tensor.block, IntegerMember(json, "block", 1, std::numeric_limits<int64_t>::max(), place));
  const int64_t numel = parameter.NumelOf(tensor);
  ZEROTH_ASSIGN_OR_RETURN(const Json* const pieces, ArrayMember(json, "pieces", place));
  for (const Json& piece : *pieces) {
    ZEROTH_ASSIGN_OR_RETURN(CheckpointPiece read,
                            ReadPiece(piece, index, tensor.dtype, numel,
                                      absl::StrCat(place, ": piece ", tensor.pieces.size())));
    tensor.pieces.push_back(std::move(read));
  }
  return tensor;
}

absl::StatusOr<Shape> ReadShape(const Json& parameter, absl::string_view place) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* const shape, ArrayMember(parameter, "shape", place));
  const std::string here = absl::StrCat(place, ": \"shape\"");
  if (shape->size() > static_cast<size_t>(Shape::kMaxRank)) {
    return Bad(here, absl::StrCat(shape->size(), " dimensions"),
               absl::StrCat("at most ", Shape::kMaxRank));
  }
  std::vector<int64_t> dims;
  for (const Json& dim : *shape) {
    ZEROTH_ASSIGN_OR_RETURN(const int64_t value,
                            Integer(dim, 0, std::numeric_limits<int64_t>::max(), here));
    dims.push_back(value);
  }
  // In the largest type, so that no state of this shape overflows.
  ZEROTH_RETURN_IF_ERROR_WITH(SafetensorsBytes(SafetensorsDType::kC64, dims).status(), here);
  return Shape(dims);
}

absl::StatusOr<CheckpointParameter> ReadParameter(const Json& json, const CheckpointIndex& index,
                                                  absl::string_view place) {
  CheckpointParameter parameter;
  ZEROTH_ASSIGN_OR_RETURN(parameter.shape, ReadShape(json, place));
  ZEROTH_ASSIGN_OR_RETURN(const Json* const states, ObjectMember(json, "states", place));
  for (const auto& [state, tensor] : states->items()) {
    ZEROTH_ASSIGN_OR_RETURN(
        parameter.states[state],
        ReadTensor(tensor, index, parameter, absl::StrCat(place, " state \"", state, "\"")));
  }
  return parameter;
}

absl::Status CheckUnchanged(const Json& json, absl::string_view where) {
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t stated, ChecksumMember(json, "checksum", where));
  Json rest = json;
  rest.erase("checksum");
  if (const uint64_t found = ChecksumOf(Dump(rest, -1)); found != stated) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": its content has the checksum ", ChecksumText(found), ", but was written with ",
        ChecksumText(stated), "; it is damaged or was edited"));
  }
  return absl::OkStatus();
}

Json PieceJson(const CheckpointPiece& piece, SafetensorsDType dtype) {
  const int64_t bytes = (piece.end - piece.begin) * (BitsOf(dtype) / 8);
  std::string checksums;
  for (const uint64_t checksum : piece.checksums) checksums += ChecksumText(checksum);
  return {{"file", piece.file},
          {"elements", {piece.begin, piece.end}},
          {"bytes", {piece.file_begin, piece.file_begin + bytes}},
          {"checksums", checksums}};
}

Json ParameterJson(const CheckpointParameter& parameter) {
  Json states = Json::object();
  for (const auto& [name, tensor] : parameter.states) {
    Json pieces = Json::array();
    for (const CheckpointPiece& piece : tensor.pieces) {
      pieces.push_back(PieceJson(piece, tensor.dtype));
    }
    states[name] = {{"dtype", std::string(SafetensorsDTypeName(tensor.dtype))},
                    {"block", tensor.block},
                    {"pieces", std::move(pieces)}};
  }
  const absl::Span<const int64_t> dims = parameter.shape.dims();
  return {{"shape", std::vector<int64_t>(dims.begin(), dims.end())}, {"states", std::move(states)}};
}

// The first elements of `tensor` that no piece or more than one has.
std::optional<std::string> TilingError(const CheckpointTensor& tensor, int64_t numel) {
  int64_t covered = 0;
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (piece.begin > covered) {
      return absl::StrCat("the elements [", covered, ", ", piece.begin, ") are in no piece");
    }
    if (piece.begin < covered) {
      return absl::StrCat("the elements [", piece.begin, ", ", std::min(covered, piece.end),
                          ") are in two pieces");
    }
    covered = piece.end;
  }
  if (covered == numel) return std::nullopt;
  return absl::StrCat("the elements [", covered, ", ", numel, ") are in no piece");
}

}  // namespace

std::string CheckpointIndex::ToText() const {
  Json json = {{"format", kFormat}, {"version", kCheckpointVersion}, {"id", id},
               {"step", step},      {"block_bytes", block_bytes},    {"training", training}};
  json["files"] = Json::array();
  for (const CheckpointFile& file : files) {
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"header_bytes", file.header_bytes},
                             {"header_checksum", ChecksumText(file.header_checksum)}});
  }
  json["parameters"] = Json::object();
  for (const auto& [name, parameter] : parameters) {
    json["parameters"][name] = ParameterJson(parameter);
  }
  json["checksum"] = ChecksumText(ChecksumOf(Dump(json, -1)));
  return Dump(json, 1) + "\n";
}

absl::StatusOr<CheckpointIndex> CheckpointIndex::Parse(absl::string_view text,
                                                       absl::string_view where) {
  JsonLimits limits;
  limits.max_bytes = kMaxIndexBytes;
  ZEROTH_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where, limits));
  ZEROTH_ASSIGN_OR_RETURN(const std::string format, StringMember(json, "format", where));
  if (format != kFormat) {
    // An intact index of something else is no damage.
    ZEROTH_RETURN_IF_ERROR(CheckUnchanged(json, where));
    return absl::UnimplementedError(
        absl::StrCat(where, ": \"format\": ", Brief(format), ", expected \"", kFormat, "\""));
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  ZEROTH_ASSIGN_OR_RETURN(const int64_t version, IntegerMember(json, "version", 1, kMost, where));
  if (version > kCheckpointVersion) {
    return absl::UnimplementedError(absl::StrCat(where, ": version ", version,
                                                 " of the format, but this program knows ",
                                                 kCheckpointVersion, "; use a newer one"));
  }
  ZEROTH_RETURN_IF_ERROR(CheckUnchanged(json, where));
  CheckpointIndex index;
  ZEROTH_ASSIGN_OR_RETURN(index.id, StringMember(json, "id", where));
  ZEROTH_ASSIGN_OR_RETURN(index.step, IntegerMember(json, "step", 0, kMost, where));
  ZEROTH_ASSIGN_OR_RETURN(index.block_bytes,
                          IntegerMember(json, "block_bytes", 1, int64_t{1} << 30, where));
  ZEROTH_ASSIGN_OR_RETURN(const Json* const training, ObjectMember(json, "training", where));
  index.training = *training;
  ZEROTH_ASSIGN_OR_RETURN(const Json* const files, ArrayMember(json, "files", where));
  std::set<std::string> names;
  for (const Json& file : *files) {
    const std::string place = absl::StrCat(where, ": file ", index.files.size());
    ZEROTH_ASSIGN_OR_RETURN(CheckpointFile read, ReadFileEntry(file, place));
    if (!names.insert(read.name).second) return Bad(place, Brief(read.name), "each file once");
    index.files.push_back(std::move(read));
  }
  ZEROTH_ASSIGN_OR_RETURN(const Json* const parameters, ObjectMember(json, "parameters", where));
  for (const auto& [name, parameter] : parameters->items()) {
    ZEROTH_ASSIGN_OR_RETURN(
        index.parameters[name],
        ReadParameter(parameter, index, absl::StrCat(where, ": parameter \"", name, "\"")));
  }
  return index;
}

absl::Status CheckpointIndex::Merge(CheckpointIndex shard) {
  if (shard.id != id || shard.step != step || shard.block_bytes != block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a shard of save ", shard.id, " at step ", shard.step, " in blocks of ", shard.block_bytes,
        " bytes, expected save ", id, " at step ", step, " in blocks of ", block_bytes));
  }
  const int first_file = static_cast<int>(files.size());
  for (CheckpointFile& file : shard.files) files.push_back(std::move(file));
  for (auto& [name, part] : shard.parameters) {
    const auto [found, fresh] = parameters.try_emplace(name);
    CheckpointParameter& whole = found->second;
    if (fresh) whole.shape = part.shape;
    if (whole.shape != part.shape) {
      return absl::InvalidArgumentError(absl::StrCat("parameter \"", name, "\" has shape ",
                                                     part.shape.ToString(), " in one shard and ",
                                                     whole.shape.ToString(), " in others"));
    }
    for (auto& [state, tensor] : part.states) {
      const auto [target, first] = whole.states.try_emplace(state);
      if (first) {
        target->second.dtype = tensor.dtype;
        target->second.block = tensor.block;
      }
      if (target->second.dtype != tensor.dtype || target->second.block != tensor.block) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter \"", name, "\" state \"", state, "\" is ",
                         SafetensorsDTypeName(tensor.dtype), " in blocks of ", tensor.block,
                         " in one shard and ", SafetensorsDTypeName(target->second.dtype),
                         " in blocks of ", target->second.block, " in others"));
      }
      std::vector<CheckpointPiece>& pieces = target->second.pieces;
      for (CheckpointPiece& piece : tensor.pieces) {
        piece.file += first_file;
        const auto place = std::upper_bound(
            pieces.begin(), pieces.end(), piece.begin,
            [](int64_t begin, const CheckpointPiece& other) { return begin < other.begin; });
        pieces.insert(place, std::move(piece));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointIndex::CheckComplete() const {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.states.count(kParameterState) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter \"", name, "\" has no state \"", kParameterState, "\""));
    }
    for (const auto& [state, tensor] : parameter.states) {
      if (const auto error = TilingError(tensor, parameter.NumelOf(tensor))) {
        return absl::InvalidArgumentError(absl::StrCat("parameter \"", name, "\" state \"", state,
                                                       "\" of shape ", parameter.shape.ToString(),
                                                       ": ", *error));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
