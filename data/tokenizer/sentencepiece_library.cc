// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/sentencepiece_library.h"

#include <sentencepiece_processor.h>

#include <exception>

namespace zeroth {
namespace {

// Status is a class of the library, or Abseil's in newer versions.
template <typename Status>
std::string ErrorOf(const Status& status) {
  return status.ok() ? std::string() : status.ToString();
}

}  // namespace

struct SentencePieceLibrary::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceLibrary::SentencePieceLibrary() : processor_(std::make_unique<Processor>()) {}
SentencePieceLibrary::~SentencePieceLibrary() = default;

std::string SentencePieceLibrary::Load(std::string_view model) {
  // The library throws for pieces that its table cannot hold, as one that begins with a zero byte.
  try {
    return ErrorOf(processor_->library.LoadFromSerializedProto(model));
  } catch (const std::exception& error) {
    return error.what();
  }
}

int32_t SentencePieceLibrary::size() const { return processor_->library.GetPieceSize(); }
int32_t SentencePieceLibrary::begin_of_text() const { return processor_->library.bos_id(); }
int32_t SentencePieceLibrary::end_of_text() const { return processor_->library.eos_id(); }
bool SentencePieceLibrary::IsControl(int32_t id) const { return processor_->library.IsControl(id); }

const std::string& SentencePieceLibrary::Piece(int32_t id) const {
  return processor_->library.IdToPiece(id);
}

int32_t SentencePieceLibrary::IdOf(std::string_view piece) const {
  return processor_->library.PieceToId(piece);
}

std::string SentencePieceLibrary::Encode(std::string_view text, std::vector<int>* ids) const {
  return ErrorOf(processor_->library.Encode(text, ids));
}

std::string SentencePieceLibrary::Decode(const std::vector<int>& ids, std::string* text) const {
  return ErrorOf(processor_->library.Decode(ids, text));
}

}  // namespace zeroth
