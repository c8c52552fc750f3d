// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/sentencepiece_model.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/protobuf.h"

namespace zeroth {
namespace {

// Fields of ModelProto.
constexpr uint64_t kPieces = 1, kTrainer = 2, kNormalizer = 3;
// Fields of message SentencePiece.
constexpr uint64_t kText = 1, kScore = 2, kType = 3;
// Fields of message TrainerSpec.
constexpr uint64_t kModelType = 3, kVocabSize = 4, kSuffix = 24, kByteFallback = 35, kUnkId = 40,
                   kBosId = 41, kEosId = 42, kPadId = 43, kUnkPiece = 45, kBosPiece = 46,
                   kEosPiece = 47, kPadPiece = 48;
// Fields of message NormalizerSpec.
constexpr uint64_t kName = 1, kCharsmap = 2, kDummyPrefix = 3, kRemoveSpaces = 4, kEscapeSpaces = 5;

absl::Status ForEachField(absl::string_view message,
                          absl::FunctionRef<absl::Status(const ProtobufField&)> use) {
  while (!message.empty()) {
    ProtobufField field;
    if (!TakeProtobufField(&message, &field)) {
      return absl::InvalidArgumentError(
          "not a SentencePiece model: a field is unknown or longer than the file; is the file cut "
          "short?");
    }
    ZEROTH_RETURN_IF_ERROR(use(field));
  }
  return absl::OkStatus();
}

absl::Status ReadPiece(const ProtobufField& field, SentencePiece* piece) {
  if (field.number == kText) piece->text = std::string(field.bytes);
  if (field.number == kScore && field.wire_type == ProtobufField::kFourBytes) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) bits |= uint32_t{static_cast<uint8_t>(field.bytes[i])} << 8 * i;
    piece->score = std::bit_cast<float>(bits);
  }
  if (field.number == kType) {
    if (field.varint < 1 || field.varint > 6) {
      return InvalidArgument("a piece of the type ", field.varint, ", expected 1 to 6");
    }
    piece->type = static_cast<SentencePieceType>(field.varint);
  }
  return absl::OkStatus();
}

absl::Status ReadTrainer(const ProtobufField& field, SentencePieceModel* model) {
  if (field.number == kModelType) model->model_type = field.varint;
  if (field.number == kSuffix) model->treat_whitespace_as_suffix = field.varint != 0;
  if (field.number == kByteFallback) model->byte_fallback = field.varint != 0;
  if (field.number == kBosPiece) model->bos_piece = std::string(field.bytes);
  if (field.number == kEosPiece) model->eos_piece = std::string(field.bytes);
  if (field.number == kPadPiece) model->pad_piece = std::string(field.bytes);
  return absl::OkStatus();
}

absl::Status ReadNormalizer(const ProtobufField& field, SentencePieceModel* model) {
  if (field.number == kCharsmap) model->has_charsmap = !field.bytes.empty();
  if (field.number == kDummyPrefix) model->add_dummy_prefix = field.varint != 0;
  if (field.number == kRemoveSpaces) model->remove_extra_whitespaces = field.varint != 0;
  if (field.number == kEscapeSpaces) model->escape_whitespaces = field.varint != 0;
  return absl::OkStatus();
}

class MessageWriter {
 public:
  void Number(uint64_t field, uint64_t value) {
    Varint(field << 3 | ProtobufField::kVarint);
    Varint(value);
  }
  void Bytes(uint64_t field, absl::string_view value) {
    Varint(field << 3 | ProtobufField::kDelimited);
    Varint(value.size());
    bytes_.append(value.data(), value.size());
  }
  void Float(uint64_t field, float value) {
    Varint(field << 3 | ProtobufField::kFourBytes);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>(bits >> 8 * i & 0xff));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace

int64_t SentencePieceModel::FindControl(absl::string_view name) const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == SentencePieceType::kControl && pieces[id].text == name) {
      return static_cast<int64_t>(id);
    }
  }
  return -1;
}

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(absl::string_view bytes) {
  SentencePieceModel model;
  const auto read = [&model](const ProtobufField& part) -> absl::Status {
    if (part.number == kTrainer || part.number == kNormalizer) {
      return ForEachField(part.bytes, [&](const ProtobufField& field) {
        return part.number == kTrainer ? ReadTrainer(field, &model) : ReadNormalizer(field, &model);
      });
    }
    if (part.number != kPieces) return absl::OkStatus();
    SentencePiece piece;
    ZEROTH_RETURN_IF_ERROR(ForEachField(
        part.bytes, [&piece](const ProtobufField& field) { return ReadPiece(field, &piece); }));
    model.pieces.push_back(std::move(piece));
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(ForEachField(bytes, read));
  if (model.pieces.empty()) {
    return absl::InvalidArgumentError("not a SentencePiece model: it has no pieces");
  }
  return model;
}

std::string SerializeSentencePieceModel(const SentencePieceModel& model) {
  MessageWriter file;
  uint64_t unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type == SentencePieceType::kUnknown) unknown = id;
    MessageWriter fields;
    fields.Bytes(kText, piece.text);
    fields.Float(kScore, piece.score);
    if (piece.type != SentencePieceType::kNormal) {
      fields.Number(kType, static_cast<uint64_t>(piece.type));
    }
    file.Bytes(kPieces, fields.bytes());
  }
  MessageWriter trainer;
  trainer.Number(kModelType, model.model_type);
  trainer.Number(kVocabSize, model.pieces.size());
  trainer.Number(kSuffix, model.treat_whitespace_as_suffix ? 1 : 0);
  trainer.Number(kByteFallback, model.byte_fallback ? 1 : 0);
  // A negative id, which is for no such token, has the bits of a 64-bit number.
  trainer.Number(kUnkId, unknown);
  trainer.Number(kBosId, static_cast<uint64_t>(model.FindControl(model.bos_piece)));
  trainer.Number(kEosId, static_cast<uint64_t>(model.FindControl(model.eos_piece)));
  trainer.Number(kPadId, static_cast<uint64_t>(model.FindControl(model.pad_piece)));
  if (!model.pieces.empty()) trainer.Bytes(kUnkPiece, model.pieces[unknown].text);
  trainer.Bytes(kBosPiece, model.bos_piece);
  trainer.Bytes(kEosPiece, model.eos_piece);
  trainer.Bytes(kPadPiece, model.pad_piece);
  file.Bytes(kTrainer, trainer.bytes());
  MessageWriter normalizer;
  normalizer.Bytes(kName, "identity");
  normalizer.Number(kDummyPrefix, model.add_dummy_prefix ? 1 : 0);
  normalizer.Number(kRemoveSpaces, model.remove_extra_whitespaces ? 1 : 0);
  normalizer.Number(kEscapeSpaces, model.escape_whitespaces ? 1 : 0);
  file.Bytes(kNormalizer, normalizer.bytes());
  return file.bytes();
}

}  // namespace zeroth
