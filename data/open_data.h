// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/on_long.h"
#include "zeroth/data/mixture.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Two parts of a source that share no token.
struct SplitSource {
  std::shared_ptr<const TokenSource> train;
  std::shared_ptr<const TokenSource> held_out;
};

// Holds out the end of `source`: about `fraction` of its tokens, 0 < fraction < 1. Rows are never
// cut. A stream is cut where the first document begins in that fraction, or otherwise where the
// last document before it begins. A document begins after each token `end_of_text`; a stream
// without such a token is cut at the fraction. The parts depend on nothing but the arguments.
//
// InvalidArgument if a part would be empty. Errors of the source.
absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text);

struct DataOptions {
  // Turns text into tokens; unused for token files. Need not outlive the call.
  const Tokenizer* tokenizer = nullptr;
  // The size of the model's vocabulary. Every token id must be below it: text needs
  // tokenizer->text_vocab_size() <= vocab_size, and conversations are also checked for special
  // tokens that the chat template writes.
  int32_t vocab_size = 0;
  // For conversations: --chat_template, the path of the tokenizer's files and what messages name
  // instead of it, --loss_on, the length of sequences and --on_long (see chat/conversations.h and
  // OpenChatTemplate).
  std::string chat_template = "auto";
  std::string tokenizer_path = "";
  std::string tokenizer_owner = "";
  bool loss_on_all = false;
  int64_t seq_len = 0;
  OnLong on_long = OnLong::kTruncate;
  // True: the data are preference pairs, packed as by EncodeConversations; other data are refused.
  // False: pairs are refused.
  bool pairs = false;
  // With pairs: the data are judged answers, see ConversationOptions.
  bool judgements = false;
  // With pairs: an answer is scored where it ends, see ConversationOptions.
  bool scores = false;
  // --data_columns, see ColumnNames.
  std::string columns = "";
  // The directory of encoded text, see TokenCacheOptions::directory.
  std::string cache_dir = "none";
  // Identifies the tokenizer among those of its name, as a checksum of its files and options.
  // Needed if encoded text is cached.
  std::string tokenizer_identity = "";
};

// Opens what a --data flag names:
//   - one path, or several separated by commas (a path that exists is not split);
//   - each is a file, a directory that is searched recursively except for hidden names, or a glob
//     pattern with *, ? and [...].
// Files of directories and patterns are in byte order of their paths, so that every machine sees
// the same sequence.
//
// A file's content decides what it holds (see file_kind.h). NumPy .npy, llm.c .bin and Megatron-LM
// .bin files are token files; Megatron-LM files may also be named by their .idx file, or without an
// extension. Lines of JSON, JSON arrays and parquet files hold records, all of the kind of the
// first (records.h), which description() names. A text file, and each record of text, ends with one
// end-of-text token. Text and files of JSON may be compressed by gzip or zstd; their content
// decides their kind. Other and empty files are refused where they are named or matched, and
// skipped in directories, except those that hold data in an unsupported form. Text beside parquet
// files in a directory is skipped, too. Text, records of other kinds and token files cannot be
// mixed.
//
// With the byte tokenizer large texts stay on disk, unless they are compressed. Other tokenizers
// encode here, or once per machine (see token_cache.h). Open once per process and share the result
// among its ranks.
//
// NotFound if something does not exist, matches nothing, or holds no usable file; InvalidArgument
// for a bad file or mixture.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenData(const std::string& spec,
                                                            const DataOptions& options);

// Like OpenData, for a --data flag that may have weights: "a.jsonl:0.7,b.bin:0.3" draws from each
// part by its weight (see SplitWeights and Mixture). A part is anything that OpenData accepts;
// parts may be of different kinds.
absl::StatusOr<std::shared_ptr<const Mixture>> OpenMixture(const std::string& spec,
                                                           const DataOptions& options);

struct SplitMixture {
  std::shared_ptr<const Mixture> train;
  std::shared_ptr<const Mixture> held_out;
};
// Like OpenMixture, but holds out `fraction` of each part (see SplitHeldOut). The tokenizer's
// end-of-text token, if there is a tokenizer, ends documents.
absl::StatusOr<SplitMixture> OpenSplitMixture(const std::string& spec, const DataOptions& options,
                                              double fraction);

}  // namespace zeroth
