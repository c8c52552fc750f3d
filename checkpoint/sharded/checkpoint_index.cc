// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_index.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/json_members.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "zeroth sharded checkpoint";
// Hexadecimal digits of a checksum.
constexpr size_t kChecksumDigits = 16;

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Reads checksums that follow each other without a separator: an array would need twice the room.
std::vector<uint64_t> ReadChecksums(JsonMembers& piece, int64_t bytes, int64_t block_bytes) {
  const std::string text = piece.Text("checksums");
  const int64_t blocks = bytes / block_bytes + (bytes % block_bytes != 0 ? 1 : 0);
  std::vector<uint64_t> checksums;
  if (static_cast<int64_t>(text.size() / kChecksumDigits) != blocks ||
      text.size() % kChecksumDigits != 0) {
    piece.Wrong("checksums", absl::StrCat(text.size(), " digits"),
                absl::StrCat(kChecksumDigits, " for each of ", blocks, " blocks"));
    return checksums;
  }
  checksums.reserve(static_cast<size_t>(blocks));
  for (size_t i = 0; i < text.size(); i += kChecksumDigits) {
    const absl::StatusOr<uint64_t> checksum =
        ParseChecksum(absl::string_view(text).substr(i, kChecksumDigits));
    piece.status().Update(checksum.status());
    checksums.push_back(checksum.value_or(0));
  }
  return checksums;
}

CheckpointFile ReadFileEntry(JsonMembers json) {
  CheckpointFile file;
  file.name = json.Text("name");
  // The name becomes part of a path, which must not leave the checkpoint.
  if (!IsPlainFileName(file.name)) {
    json.Wrong("name", BriefJson(file.name), "the name of a file in the checkpoint's directory");
  }
  file.bytes = json.Integer("bytes");
  file.header_bytes =
      json.Integer("header_bytes", 0, std::min(file.bytes, kMaxSafetensorsHeaderBytes + 8));
  file.header_checksum = json.Checksum("header_checksum");
  return file;
}

CheckpointPiece ReadPiece(JsonMembers json, const CheckpointIndex& index, SafetensorsDType dtype,
                          int64_t numel) {
  CheckpointPiece piece;
  piece.file =
      static_cast<int>(json.Integer("file", 0, static_cast<int64_t>(index.files.size()) - 1));
  if (!json.ok()) return piece;
  const CheckpointFile& file = index.files[static_cast<size_t>(piece.file)];
  std::tie(piece.begin, piece.end) = json.Range("elements", numel);
  const auto [begin, end] = json.Range("bytes", file.bytes);
  piece.file_begin = begin;
  if (begin < file.header_bytes) {
    json.Wrong("bytes", absl::StrCat("begins at ", begin),
               absl::StrCat(file.header_bytes, " at least, which the file's header ends at"));
  }
  const int64_t bytes = end - begin;
  const int64_t size = BitsOf(dtype) / 8;
  if (bytes % size != 0 || bytes / size != piece.end - piece.begin) {
    json.Wrong("bytes", absl::StrCat(bytes, " bytes"),
               absl::StrCat(piece.end - piece.begin, " elements of ", size));
  }
  if (json.ok()) piece.checksums = ReadChecksums(json, bytes, index.block_bytes);
  return piece;
}

CheckpointTensor ReadTensor(JsonMembers json, const CheckpointIndex& index,
                            const CheckpointParameter& parameter) {
  CheckpointTensor tensor;
  const std::string dtype = json.Text("dtype");
  const absl::StatusOr<SafetensorsDType> parsed = ParseSafetensorsDType(dtype);
  json.status().Update(Annotate(parsed.status(), json.place()));
  tensor.dtype = parsed.value_or(tensor.dtype);
  if (BitsOf(tensor.dtype) % 8 != 0) json.Wrong("dtype", dtype, "a type of whole bytes");
  tensor.block = json.Integer("block", 1);
  const int64_t numel = parameter.NumelOf(tensor);
  for (const Json& piece : json.Array("pieces")) {
    if (!json.ok()) break;
    const std::string place = absl::StrCat(json.place(), ": piece ", tensor.pieces.size());
    tensor.pieces.push_back(
        ReadPiece(JsonMembers(piece, place, json.status()), index, tensor.dtype, numel));
  }
  return tensor;
}

Shape ReadShape(JsonMembers& parameter) {
  const size_t rank = parameter.Array("shape").size();
  if (rank > static_cast<size_t>(Shape::kMaxRank)) {
    parameter.Wrong("shape", absl::StrCat(rank, " dimensions"),
                    absl::StrCat("at most ", Shape::kMaxRank));
  }
  const std::vector<int64_t> dims = parameter.Integers("shape", 0, JsonMembers::kMost);
  // Checked with the largest type, so that no state of this shape overflows.
  parameter.status().Update(Annotate(SafetensorsBytes(SafetensorsDType::kC64, dims).status(),
                                     absl::StrCat(parameter.place(), ": \"shape\"")));
  return parameter.ok() ? Shape(dims) : Shape();
}

CheckpointParameter ReadParameter(JsonMembers json, const CheckpointIndex& index) {
  CheckpointParameter parameter;
  parameter.shape = ReadShape(json);
  for (const auto& [state, tensor] : json.Object("states").items()) {
    if (!json.ok()) break;
    const std::string place = absl::StrCat(json.place(), " state \"", state, "\"");
    parameter.states[state] =
        ReadTensor(JsonMembers(tensor, place, json.status()), index, parameter);
  }
  return parameter;
}

absl::Status CheckUnchanged(const Json& json, JsonMembers& members) {
  const uint64_t stated = members.Checksum("checksum");
  ZEROTH_RETURN_IF_ERROR(members.status());
  Json rest = json;
  rest.erase("checksum");
  if (const uint64_t found = ChecksumOf(Dump(rest, -1)); found != stated) {
    return InvalidArgument(members.place(), ": its content has the checksum ", ChecksumText(found),
                           ", but was written with ", ChecksumText(stated),
                           "; it is damaged or was edited");
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

// Describes the first elements of `tensor` that are in no piece or in several; empty if there are
// none.
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
  absl::Status status;
  JsonMembers members(json, std::string(where), status);
  const std::string format = members.Text("format");
  ZEROTH_RETURN_IF_ERROR(status);
  if (format != kFormat) {
    // An intact index of another format is not damage.
    ZEROTH_RETURN_IF_ERROR(CheckUnchanged(json, members));
    return Unimplemented(where, ": \"format\": ", BriefJson(format), ", expected \"", kFormat,
                         "\"");
  }
  const int64_t version = members.Integer("version", 1);
  ZEROTH_RETURN_IF_ERROR(status);
  if (version > kCheckpointVersion) {
    return Unimplemented(where, ": version ", version, " of the format, but this program knows ",
                         kCheckpointVersion, "; use a newer one");
  }
  ZEROTH_RETURN_IF_ERROR(CheckUnchanged(json, members));
  CheckpointIndex index;
  index.id = members.Text("id");
  index.step = members.Integer("step");
  index.block_bytes = members.Integer("block_bytes", 1, int64_t{1} << 30);
  index.training = members.Object("training");
  std::set<std::string> names;
  for (const Json& file : members.Array("files")) {
    const std::string place = absl::StrCat(where, ": file ", index.files.size());
    CheckpointFile read = ReadFileEntry(JsonMembers(file, place, status));
    if (status.ok() && !names.insert(read.name).second) {
      status = InvalidArgument(place, ": ", BriefJson(read.name), ", expected each file once");
    }
    index.files.push_back(std::move(read));
  }
  for (const auto& [name, parameter] : members.Object("parameters").items()) {
    if (!status.ok()) break;
    const std::string place = absl::StrCat(where, ": parameter \"", name, "\"");
    index.parameters[name] = ReadParameter(JsonMembers(parameter, place, status), index);
  }
  ZEROTH_RETURN_IF_ERROR(status);
  return index;
}

absl::Status CheckpointIndex::Merge(CheckpointIndex shard) {
  if (shard.id != id || shard.step != step || shard.block_bytes != block_bytes) {
    return InvalidArgument("a shard of save ", shard.id, " at step ", shard.step, " in blocks of ",
                           shard.block_bytes, " bytes, expected save ", id, " at step ", step,
                           " in blocks of ", block_bytes);
  }
  const int first_file = static_cast<int>(files.size());
  for (CheckpointFile& file : shard.files) files.push_back(std::move(file));
  for (auto& [name, part] : shard.parameters) {
    CheckpointParameter& whole =
        parameters.try_emplace(name, CheckpointParameter{part.shape, {}}).first->second;
    if (whole.shape != part.shape) {
      return InvalidArgument("parameter \"", name, "\" has shape ", part.shape.ToString(),
                             " in one shard and ", whole.shape.ToString(), " in others");
    }
    for (auto& [state, tensor] : part.states) {
      CheckpointTensor& target =
          whole.states.try_emplace(state, CheckpointTensor{tensor.dtype, tensor.block, {}})
              .first->second;
      if (target.dtype != tensor.dtype || target.block != tensor.block) {
        return InvalidArgument("parameter \"", name, "\" state \"", state, "\" is ",
                               SafetensorsDTypeName(tensor.dtype), " in blocks of ", tensor.block,
                               " in one shard and ", SafetensorsDTypeName(target.dtype),
                               " in blocks of ", target.block, " in others");
      }
      for (CheckpointPiece& piece : tensor.pieces) {
        piece.file += first_file;
        const auto place =
            std::ranges::upper_bound(target.pieces, piece.begin, {}, &CheckpointPiece::begin);
        target.pieces.insert(place, std::move(piece));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointIndex::CheckComplete() const {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.states.count(kParameterState) == 0) {
      return InvalidArgument("parameter \"", name, "\" has no state \"", kParameterState, "\"");
    }
    for (const auto& [state, tensor] : parameter.states) {
      if (const auto error = TilingError(tensor, parameter.NumelOf(tensor))) {
        return InvalidArgument("parameter \"", name, "\" state \"", state, "\" of shape ",
                               parameter.shape.ToString(), ": ", *error);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
