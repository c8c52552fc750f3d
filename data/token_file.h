// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Files of token ids, which are read on demand.

#ifndef ZEROTH_DATA_TOKEN_FILE_H_
#define ZEROTH_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

// A NumPy .npy file (format versions 1 to 3) of little-endian integers: uint8, uint16, uint32,
// uint64, int32 or int64. One dimension is a stream; two are rows, used whole. InvalidArgument
// names the file and what is wrong: magic, version, header, element type, order, dimensions,
// emptiness, or a size that differs from the header's. Read has RandomAccessFile's errors, too, as
// for a file that was cut short meanwhile.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenNpyFile(const std::string& path,
                                                               int32_t vocab_size);

// A token shard of llm.c: 256 little-endian int32 of header (magic, version, token count, zeros),
// then the tokens: uint16 after magic 20240520 version 1 (GPT-2), uint32 after magic 20240801
// version 7 (Llama 3). A stream. InvalidArgument as above.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenLlmcFile(const std::string& path,
                                                                int32_t vocab_size);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_FILE_H_
