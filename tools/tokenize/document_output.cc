// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/tokenize/document_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

// Returns the number at `key` of a saved position.
absl::StatusOr<int64_t> NumberIn(const nlohmann::json& position, const char* key) {
  const auto found = position.is_object() ? position.find(key) : position.end();
  if (found == position.end() || !found->is_number_integer() || found->get<int64_t>() < 0)
    return InvalidArgument("has no number \"", key, "\" of the output");
  return found->get<int64_t>();
}

void Append(absl::Span<const int32_t> from, std::vector<int32_t>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

class Shards final : public DocumentOutput {
 public:
  Shards(const Tokenizer& tokenizer, TokenShardWriter writer, bool add_special_tokens)
      : tokenizer_(tokenizer),
        writer_(std::move(writer)),
        add_special_tokens_(add_special_tokens) {}

  bool needs_whole_documents() const override { return false; }

  absl::Status Encode(const std::vector<TextPart>& parts, Piece* piece) const override {
    const auto append = [piece](absl::Span<const int32_t> ids) {
      zeroth::Append(ids, &piece->ids);
    };
    for (const TextPart& part : parts) {
      if (add_special_tokens_) {
        ZEROTH_RETURN_IF_ERROR(EncodePart(tokenizer_, part, append));
        continue;
      }
      ZEROTH_RETURN_IF_ERROR(tokenizer_.EncodeTo(part.text, !part.begins, append));
      if (part.ends) piece->ids.push_back(tokenizer_.end_of_text());
    }
    piece->tokens = static_cast<int64_t>(piece->ids.size());
    return absl::OkStatus();
  }

  absl::Status Resume(const nlohmann::json& position) override {
    TokenShardWriter::Position where;
    ZEROTH_ASSIGN_OR_RETURN(where.shard, NumberIn(position, "shard"));
    ZEROTH_ASSIGN_OR_RETURN(where.tokens_in_shard, NumberIn(position, "tokens_in_shard"));
    return writer_.Resume(where);
  }
  absl::Status Append(const Piece& piece) override { return writer_.Append(piece.ids); }
  absl::StatusOr<nlohmann::json> Flush() override {
    ZEROTH_RETURN_IF_ERROR(writer_.Flush());
    return nlohmann::json{{"shard", writer_.position().shard},
                          {"tokens_in_shard", writer_.position().tokens_in_shard}};
  }
  absl::Status Finish() override { return writer_.Finish(); }

 private:
  const Tokenizer& tokenizer_;
  TokenShardWriter writer_;
  const bool add_special_tokens_;
};

class JsonLines final : public DocumentOutput {
 public:
  JsonLines(const Tokenizer& tokenizer, std::string path, bool add_special_tokens)
      : tokenizer_(tokenizer),
        path_(std::move(path)),
        partial_(path_ + ".partial"),
        add_special_tokens_(add_special_tokens) {}

  bool needs_whole_documents() const override { return true; }

  absl::Status Encode(const std::vector<TextPart>& parts, Piece* piece) const override {
    for (const TextPart& part : parts) {
      std::vector<int32_t> ids;
      if (add_special_tokens_) zeroth::Append(tokenizer_.prefix(), &ids);
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> middle, tokenizer_.Encode(part.text));
      zeroth::Append(middle, &ids);
      if (add_special_tokens_) zeroth::Append(tokenizer_.suffix(), &ids);
      ZEROTH_ASSIGN_OR_RETURN(const std::string text, tokenizer_.DecodeUtf8Text(ids));
      absl::StrAppend(&piece->lines, nlohmann::json{{"ids", ids}, {"text", text}}.dump(), "\n");
      piece->tokens += static_cast<int64_t>(ids.size());
    }
    return absl::OkStatus();
  }

  absl::Status Resume(const nlohmann::json& position) override {
    ZEROTH_ASSIGN_OR_RETURN(written_, NumberIn(position, "bytes"));
    // The earlier run may have renamed the file and ended before it removed its progress file.
    if (access(partial_.c_str(), F_OK) != 0) rename(path_.c_str(), partial_.c_str());
    ZEROTH_RETURN_IF_ERROR(Open(0));
    struct stat found;
    if (fstat(file_.descriptor(), &found) != 0)
      return ErrnoStatus(errno, absl::StrCat("look at ", partial_));
    if (found.st_size < written_) {
      return absl::DataLossError(absl::StrCat(
          partial_, ": has ", found.st_size, " bytes, expected at least ", written_,
          " of the interrupted run; remove it and ", path_, ".progress to begin anew"));
    }
    if (ftruncate(file_.descriptor(), written_) != 0)
      return ErrnoStatus(errno, absl::StrCat("cut ", partial_));
    return absl::OkStatus();
  }
  absl::Status Append(const Piece& piece) override {
    if (!file_.is_open()) ZEROTH_RETURN_IF_ERROR(Open(O_CREAT | O_TRUNC));
    ZEROTH_RETURN_IF_ERROR(
        WriteAt(file_.descriptor(), partial_, written_,
                absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(piece.lines.data()),
                                    piece.lines.size())));
    written_ += static_cast<int64_t>(piece.lines.size());
    return absl::OkStatus();
  }
  absl::StatusOr<nlohmann::json> Flush() override {
    if (file_.is_open() && TEMP_FAILURE_RETRY(fdatasync(file_.descriptor())) != 0)
      return ErrnoStatus(errno, absl::StrCat("flush ", partial_));
    return nlohmann::json{{"bytes", written_}};
  }
  absl::Status Finish() override {
    if (!file_.is_open()) ZEROTH_RETURN_IF_ERROR(Open(O_CREAT | O_TRUNC));
    return PublishFile(file_, partial_, path_);
  }

 private:
  absl::Status Open(int flags) {
    file_ = FileDescriptor(
        TEMP_FAILURE_RETRY(open(partial_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666)));
    return !file_.is_open() ? ErrnoStatus(errno, absl::StrCat("open ", partial_))
                            : absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const std::string path_;
  const std::string partial_;
  const bool add_special_tokens_;
  FileDescriptor file_;
  int64_t written_ = 0;
};

constexpr char kLineBegin[] = "{\"ids\":[";

// True if the file begins as tokenize's output of this name does, or is empty.
bool IsOutput(const std::string& path) {
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return false;
  const absl::StatusOr<std::vector<uint8_t>> head = file->ReadHead(kLlmcHeaderBytes);
  if (!head.ok() || head->empty()) return head.ok();
  if (absl::EndsWith(path, ".bin")) return HasLlmcMagic(*head);
  const absl::string_view text(reinterpret_cast<const char*>(head->data()), head->size());
  return absl::StartsWith(text, absl::EndsWith(path, ".npy") ? kNpyMagic : kLineBegin);
}

}  // namespace

absl::Status CheckDocumentOutput(const TokenizeOptions& options) {
  const auto check = [&options](const std::string& path) {
    return CheckOutput("--out", path, options.overwrite,
                       "of the kind that tokenize writes under this name", IsOutput);
  };
  ZEROTH_RETURN_IF_ERROR(check(options.out));
  // TokenShardWriter removes existing shards of this name that it does not replace.
  const bool has_shards =
      absl::EndsWith(options.out, ".bin") || absl::EndsWith(options.out, ".npy");
  for (int64_t shard = 0; has_shards; ++shard) {
    const std::string path = TokenShardPath(options.out, shard);
    ZEROTH_ASSIGN_OR_RETURN(const bool exists, PathExists(path));
    if (!exists) break;
    ZEROTH_RETURN_IF_ERROR(check(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DocumentOutput>> DocumentOutput::Create(
    const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (absl::EndsWith(options.out, ".jsonl")) {
    return std::make_unique<JsonLines>(tokenizer, options.out,
                                       options.add_special_tokens.value_or(false));
  }
  auto writer =
      TokenShardWriter::Create({options.out, tokenizer.vocab_size(), options.shard_tokens});
  if (!writer.ok()) return Annotate(writer.status(), "--out (.bin, .npy or .jsonl)");
  return std::make_unique<Shards>(tokenizer, *std::move(writer),
                                  options.add_special_tokens.value_or(true));
}

}  // namespace zeroth
