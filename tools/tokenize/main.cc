// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/data_files.h"
#include "zeroth/tools/tokenize/tokenize.h"

ABSL_FLAG(std::string, tokenizer, "",
          "A directory with a tokenizer (tokenizer.json, tokenizer.model, or vocab.json and "
          "merges.txt), one of these files, or byte. Required.");
ABSL_FLAG(
    std::string, in, "",
    "What to tokenise: a text file or JSON lines (.jsonl, {\"text\": ...} each), which may be "
    "compressed by gzip or zstd, parquet files with a column text, a directory, a pattern, or "
    "several separated by commas. Required.");
ABSL_FLAG(
    std::string, out, "",
    "What to write: token shards, .bin (llm.c) or .npy, which --data of the trainer takes; "
    "or JSON lines (.jsonl), {\"ids\": [...], \"text\": decoded} for each document. Required.");
ABSL_FLAG(
    bool, overwrite, false,
    "Replace what an earlier run wrote to --out, its shards included; false: refuse. Files of "
    "another kind are never replaced.");
ABSL_FLAG(bool, parse_special, false,
          "If true, text that spells a special token becomes that token, as with Hugging Face; if "
          "false, it is ordinary text.");
ABSL_FLAG(std::string, add_special_tokens, "auto",
          "Whether to put the tokenizer's template, such as a begin-of-text token, around each "
          "document: true, false, or auto (only in token shards).");
ABSL_FLAG(int64_t, shard_tokens, int64_t{1} << 30, "Largest number of tokens in a shard.");
ABSL_FLAG(int, threads, 0, "Threads that encode; 0: one for each core.");

namespace zeroth {
namespace {

// Prints progress: one line that is redrawn on a terminal, or a line every ten seconds elsewhere.
class Progress {
 public:
  void Show(const TokenizeCounts& counts) {
    const absl::Time now = absl::Now();
    if (now - shown_ < (terminal_ ? absl::Milliseconds(200) : absl::Seconds(10))) return;
    shown_ = now;
    const double seconds = std::max(1e-3, absl::ToDoubleSeconds(now - begin_));
    // The speed excludes bytes that an earlier, interrupted run encoded.
    const double rate = static_cast<double>(counts.bytes - counts.resumed_bytes) / seconds;
    const double all = std::max(1.0, static_cast<double>(counts.all_bytes));
    const double left = rate > 0 ? (all - static_cast<double>(counts.bytes)) / rate : 0;
    std::fprintf(
        stderr, "%s%s", terminal_ ? "\r" : "",
        absl::StrFormat("tokenize  %.1f%%  %.1f MB  %d documents  %.2fM tokens  %.1f MB/s  "
                        "left %.0f s%s",
                        100 * static_cast<double>(counts.bytes) / all,
                        static_cast<double>(counts.bytes) / 1e6, counts.documents,
                        static_cast<double>(counts.tokens) / 1e6, rate / 1e6, left,
                        terminal_ ? "  " : "\n")
            .c_str());
    written_ = terminal_;
  }
  void End() const {
    if (written_) std::fputc('\n', stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const absl::Time begin_ = absl::Now();
  absl::Time shown_ = absl::InfinitePast();
  bool written_ = false;
};

absl::Status RunTokenize(int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(ParseFlags(
      "Encodes text into token files, or into JSON lines with ids.\n\n"
      "  ./bazelw run //tools/tokenize -- --tokenizer=path/to/model --in=corpus.jsonl "
      "--out=corpus.bin\n\n"
      "An interrupted run continues where it was when it is started again with the same flags.",
      "tools/tokenize/main.cc", "--in=FILE", argc, argv));
  TokenizeOptions options;
  options.tokenizer = absl::GetFlag(FLAGS_tokenizer);
  options.in = absl::GetFlag(FLAGS_in);
  options.out = absl::GetFlag(FLAGS_out);
  options.overwrite = absl::GetFlag(FLAGS_overwrite);
  options.parse_special = absl::GetFlag(FLAGS_parse_special);
  options.shard_tokens = absl::GetFlag(FLAGS_shard_tokens);
  options.threads = absl::GetFlag(FLAGS_threads);
  const std::string add = absl::GetFlag(FLAGS_add_special_tokens);
  if (add == "true" || add == "false") {
    options.add_special_tokens = add == "true";
  } else if (add != "auto") {
    return InvalidArgument("--add_special_tokens=", add, ": expected true, false or auto");
  }
  if (options.threads < 0 || options.threads > 1024) {
    return InvalidArgument("--threads=", options.threads, ": expected 0 to 1024");
  }
  Progress progress;
  const auto counts = TokenizeFiles(options, [&progress](const TokenizeCounts& now) {
    progress.Show(now);
    return absl::OkStatus();
  });
  progress.End();
  if (!counts.ok()) return counts.status();
  if (!counts->left_out.empty()) absl::PrintF("%s\n", DescribeLeftOut(counts->left_out));
  absl::PrintF("%d documents, %d tokens in %s\n", counts->documents, counts->tokens, options.out);
  return absl::OkStatus();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::RunTokenize(argc, argv); });
}
