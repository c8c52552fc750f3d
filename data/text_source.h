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

// Returns the bytes of the files as tokens of ByteTokenizer, each file followed by an end-of-text
// token. Files of at least 64 KiB stay open and are read on demand, with RandomAccessFile's errors.
// Smaller files are copied, because a million small files would exhaust the process's descriptors.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenByteText(const std::vector<DataFile>& files);

// Encodes the documents of text files and of files of JSON lines (documents.h) with the tokenizer's
// prefix and suffix, each followed by an end-of-text token. Held in memory as 16-bit ids if the
// vocabulary permits, otherwise as 32-bit ids.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeText(const std::vector<DataFile>& files,
                                                              const Tokenizer& tokenizer);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TEXT_SOURCE_H_
