// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TEXT_SOURCE_H_
#define ZEROTH_DATA_TEXT_SOURCE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/data_files.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// The bytes of the files as tokens of ByteTokenizer, each file followed by its end-of-text token.
// Files of at least 64 KiB stay open and are read where they are used, with RandomAccessFile's
// errors; smaller ones are copied: a corpus of a million small files would exhaust the descriptors
// of a process.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenByteText(const std::vector<DataFile>& files);

// The documents of text files and of files of JSON lines (documents.h), encoded by `tokenizer` with
// what its template puts around a text, each followed by its end-of-text token; held in memory as
// 16-bit ids where the vocabulary permits, else 32-bit.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeText(const std::vector<DataFile>& files,
                                                              const Tokenizer& tokenizer);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TEXT_SOURCE_H_
