// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads and writes the fields of SentencePiece's tokenizer.model that GGUF files also have. The
// SentencePiece library, used for encoding, exposes neither scores nor normalisation.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// The spelling of a space in a piece.
inline constexpr char kMetaspace[] = "\xE2\x96\x81";

// The numbers are those of the file.
enum class SentencePieceType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0;
  SentencePieceType type = SentencePieceType::kNormal;
};

// The default values are those of a file that lacks the field.
struct SentencePieceModel {
  // Names of model_type.
  static constexpr uint64_t kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4;

  std::vector<SentencePiece> pieces;  // by id
  uint64_t model_type = kUnigram;
  // A character without a piece becomes the pieces <0x00> to <0xFF> of its bytes.
  bool byte_fallback = false;
  bool treat_whitespace_as_suffix = false;
  // Names of the pieces that begin, end and pad a text. If no control piece has the name, the model
  // lacks that token.
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string pad_piece = "<pad>";
  // True if text is normalised by a table of replacements, as for NFKC.
  bool has_charsmap = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;

  // Returns the id of the control piece of that name; -1 if there is none.
  int64_t FindControl(absl::string_view name) const;
};

// InvalidArgument for bytes that are not a SentencePiece model.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(absl::string_view bytes);

// Returns the file of a model without a table of replacements (has_charsmap).
std::string SerializeSentencePieceModel(const SentencePieceModel& model);

}  // namespace zeroth
