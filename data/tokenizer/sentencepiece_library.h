// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth {

// Wraps the SentencePiece library in a header without Abseil, because the library's header declares
// another absl::string_view. Errors are returned as text; an empty text means success. Thread-safe
// once loaded.
class SentencePieceLibrary {
 public:
  SentencePieceLibrary();
  ~SentencePieceLibrary();

  // Loads the bytes of a model file.
  std::string Load(std::string_view model);

  int32_t size() const;
  // -1 if the model has no such token.
  int32_t begin_of_text() const;
  int32_t end_of_text() const;
  bool IsControl(int32_t id) const;
  const std::string& Piece(int32_t id) const;
  // The id of a piece; the unknown token's if there is no such piece.
  int32_t IdOf(std::string_view piece) const;

  std::string Encode(std::string_view text, std::vector<int>* ids) const;
  std::string Decode(const std::vector<int>& ids, std::string* text) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace zeroth
