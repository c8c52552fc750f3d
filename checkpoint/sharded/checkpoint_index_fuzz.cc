// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

void CheckPiece(const CheckpointIndex& index, const CheckpointTensor& tensor,
                const CheckpointPiece& piece, int64_t numel) {
  ZEROTH_CHECK(piece.file >= 0 && static_cast<size_t>(piece.file) < index.files.size());
  ZEROTH_CHECK(0 <= piece.begin && piece.begin <= piece.end && piece.end <= numel);
  const int64_t bytes = (piece.end - piece.begin) * (BitsOf(tensor.dtype) / 8);
  const CheckpointFile& file = index.files[static_cast<size_t>(piece.file)];
  ZEROTH_CHECK(piece.file_begin >= file.header_bytes);
  ZEROTH_CHECK(bytes >= 0 && piece.file_begin <= file.bytes - bytes);
  const int64_t blocks = bytes / index.block_bytes + (bytes % index.block_bytes != 0 ? 1 : 0);
  ZEROTH_CHECK(static_cast<int64_t>(piece.checksums.size()) == blocks);
}

bool Run(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto index = CheckpointIndex::Parse(text, "fuzz");
  if (!index.ok()) return false;
  for (const auto& [name, parameter] : index->parameters) {
    for (const auto& [state, tensor] : parameter.states) {
      for (const CheckpointPiece& piece : tensor.pieces) {
        CheckPiece(*index, tensor, piece, parameter.NumelOf(tensor));
      }
    }
  }
  index->CheckComplete().IgnoreError();
  // An index that was read can be written, and reads back the same.
  const std::string again = index->ToText();
  const auto read_again = CheckpointIndex::Parse(again, "again");
  ZEROTH_CHECK(read_again.ok());
  ZEROTH_CHECK(read_again->ToText() == again);
  return true;
}

// Gives the index the checksum that belongs to it.
std::string Repair(absl::string_view damaged) {
  Json json = Json::parse(damaged.begin(), damaged.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.count("checksum") == 0) return std::string(damaged);
  const std::string stated = json["checksum"].dump();
  json.erase("checksum");
  const std::string right =
      ChecksumText(ChecksumOf(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
  // Replaces the checksum in the text instead of writing `json`, so that the parser under test
  // still sees the rest of the damaged text.
  std::string text(damaged);
  const size_t place = text.rfind(stated);
  if (place != std::string::npos) text.replace(place, stated.size(), "\"" + right + "\"");
  return text;
}

CheckpointIndex IndexOf(int files, int64_t rows) {
  CheckpointIndex index;
  index.id = "5a";
  index.step = 120;
  index.block_bytes = 64;
  index.training = {{"seed", 1}, {"loss", 2.5}};
  for (int i = 0; i < files; ++i) {
    index.files.push_back({"rank-" + std::to_string(i) + ".safetensors", 4096, 128, 7});
  }
  CheckpointParameter& parameter = index.parameters["h.0.weight"];
  parameter.shape = Shape({rows, 4});
  for (const char* state : {"param", "m"}) {
    CheckpointTensor& tensor = parameter.states[state];
    tensor.block = state == std::string("m") ? 2 : 1;
    const int64_t numel = parameter.NumelOf(tensor);
    for (int i = 0; i < files; ++i) {
      CheckpointPiece piece{i, 128, numel * i / files, numel * (i + 1) / files, {}};
      piece.checksums.resize(static_cast<size_t>(((piece.end - piece.begin) * 4 + 63) / 64), 9);
      tensor.pieces.push_back(std::move(piece));
    }
  }
  return index;
}

std::vector<std::string> Seeds() {
  return {CheckpointIndex().ToText(), IndexOf(1, 3).ToText(), IndexOf(3, 50).ToText()};
}

}  // namespace

ZEROTH_FUZZ_TARGET(CheckpointIndex) { return {Run, Seeds, Repair}; }

}  // namespace zeroth
