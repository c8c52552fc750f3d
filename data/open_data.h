// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_OPEN_DATA_H_
#define ZEROTH_DATA_OPEN_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/data/mixture.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

struct DataOptions {
  // Turns text into tokens; unused for token files. Need not outlive the call.
  const Tokenizer* tokenizer = nullptr;
  // Ids must be below this: the model's vocabulary. Text needs tokenizer->vocab_size() <=
  // vocab_size.
  int32_t vocab_size = 0;
  // Of conversations: as --chat_template and --loss_on say, where the tokenizer's files are, and
  // how long a sequence is (see chat/conversations.h and OpenChatTemplate).
  std::string chat_template = "auto";
  std::string tokenizer_path = "";
  bool loss_on_all = false;
  int64_t seq_len = 0;
  // Where encoded text is kept, as TokenCacheOptions::directory says.
  std::string cache_dir = "none";
  // Tells the tokenizer from any other of its name, as a checksum of its files and options does;
  // needed if something is kept.
  std::string tokenizer_identity = "";
};

// Opens what a --data flag names:
//   - one path, or several separated by commas (a path that exists as it stands is taken as it
//   stands);
//   - a file; a directory, searched recursively except for hidden names; or a glob pattern with *,
//   ? and [...].
// Files found in directories and by patterns are in byte order of their paths, so that every
// machine sees one sequence.
//
// What a file holds is decided by its content: NumPy .npy and llm.c .bin files are token files, a
// file without a NUL in its first 8 KiB is text, JSON lines ({"text": "..."} each) if its name ends
// in .jsonl or .ndjson, or conversations if the first of its lines is {"messages": [...]}. A text
// file, and each line of JSON, ends with one end-of-text token.
// Other and empty files are skipped in directories and refused where they are named or matched.
// Text, conversations and token files cannot be mixed.
//
// With the byte tokenizer large texts stay on disk; other tokenizers encode once, here, or once for
// a machine (see token_cache.h). Open once per process and share the result among its ranks.
//
// NotFound if something does not exist, matches nothing, or holds no usable file; InvalidArgument
// for a bad file or mixture.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenData(const std::string& spec,
                                                            const DataOptions& options);

// The same for a --data flag that may have weights: "a.jsonl:0.7,b.bin:0.3" draws from each part,
// which is all that OpenData takes, as SplitWeights and Mixture say. Parts may be of different
// kinds.
absl::StatusOr<std::shared_ptr<const Mixture>> OpenMixture(const std::string& spec,
                                                           const DataOptions& options);

struct SplitMixture {
  std::shared_ptr<const Mixture> train;
  std::shared_ptr<const Mixture> held_out;
};
// The same with `fraction` of each part held out, as SplitHeldOut says; the tokenizer, if there is
// one, says what ends a document.
absl::StatusOr<SplitMixture> OpenSplitMixture(const std::string& spec, const DataOptions& options,
                                              double fraction);

}  // namespace zeroth

#endif  // ZEROTH_DATA_OPEN_DATA_H_
