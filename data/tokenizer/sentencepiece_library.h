// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_LIBRARY_H_
#define ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth {

// The SentencePiece library behind a header without Abseil: its own header declares an
// absl::string_view that is not Abseil's. An error is a text, empty where there is none.
// Thread-safe once it is loaded.
class SentencePieceLibrary {
 public:
  SentencePieceLibrary();
  ~SentencePieceLibrary();

  // A model file's bytes.
  std::string Load(std::string_view model);

  int32_t size() const;
  // -1 where the model has none.
  int32_t begin_of_text() const;
  int32_t end_of_text() const;
  bool IsControl(int32_t id) const;
  const std::string& Piece(int32_t id) const;
  // The unknown token's for what is not there.
  int32_t IdOf(std::string_view piece) const;

  std::string Encode(std::string_view text, std::vector<int>* ids) const;
  std::string Decode(const std::vector<int>& ids, std::string* text) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_LIBRARY_H_
