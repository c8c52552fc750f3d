// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

using SourcePtr = std::shared_ptr<const TokenSource>;

// The version of entries and of the encoders' output. Entries of other versions are not found.
constexpr int kFormat = 3;
constexpr char kManifest[] = "manifest.json";
constexpr char kTokens[] = "tokens";
constexpr char kMarks[] = "marks";
constexpr int32_t kMarkValues = (kNoTarget | kBeginsDocument | kBeginsRejected | kIsDesirable) + 1;

// The marks of a source as tokens.
class MarksOf final : public TokenSource {
 public:
  explicit MarksOf(const TokenSource& source)
      : TokenSource({source.size(), 0, false, source.description(), {}}), source_(source) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    std::vector<uint8_t> marks(out.size());
    ZEROTH_RETURN_IF_ERROR(source_.ReadMarks(begin, absl::MakeSpan(marks)));
    std::copy(marks.begin(), marks.end(), out.begin());
    return absl::OkStatus();
  }

  const TokenSource& source_;
};

absl::StatusOr<std::string> KeyOf(const std::vector<DataFile>& files,
                                  const TokenCacheOptions& options) {
  std::string all = absl::StrCat(kFormat, "\n", options.vocab_size, "\n", options.recipe);
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string path, CanonicalPath(file.path));
    struct stat facts = {};
    if (stat(path.c_str(), &facts) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
    absl::StrAppend(&all, "\n", path.size(), ":", path, " ", static_cast<int>(file.kind), " ",
                    facts.st_size, " ", facts.st_mtim.tv_sec, " ", facts.st_mtim.tv_nsec);
  }
  return ChecksumText(ChecksumOf(all));
}

absl::Status WriteTokens(const TokenSource& source, int32_t vocab_size, const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(TokenShardWriter writer, TokenShardWriter::Create({path, vocab_size}));
  ZEROTH_RETURN_IF_ERROR(
      ReadInPieces(source, 0, source.size(),
                   [&writer](absl::Span<const int32_t> ids) { return writer.Append(ids); }));
  return writer.Finish();
}

absl::StatusOr<SourcePtr> OpenTokens(const std::string& directory, const char* name,
                                     int32_t vocab_size) {
  std::vector<SourcePtr> shards;
  const std::string alone = absl::StrCat(directory, "/", name, ".npy");
  std::error_code ignored;
  while (true) {
    const std::string path = fs::exists(alone, ignored)
                                 ? alone
                                 : TokenShardPath(alone, static_cast<int64_t>(shards.size()));
    if (!shards.empty() && (path == alone || !fs::exists(path, ignored))) break;
    ZEROTH_ASSIGN_OR_RETURN(SourcePtr shard, OpenNpyFile(path, vocab_size));
    shards.push_back(std::move(shard));
  }
  return Concatenate(std::move(shards));
}

// The part of an entry's manifest that its source determines.
absl::StatusOr<nlohmann::json> ManifestOf(const TokenSource& source, const std::string& key) {
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t hash, HashTokens(source));
  nlohmann::json manifest = {{"key", key},
                             {"tokens", source.size()},
                             {"row_length", source.row_length()},
                             {"hash", ChecksumText(hash)}};
  if (source.has_marks()) {
    ZEROTH_ASSIGN_OR_RETURN(const uint64_t marks, HashTokens(MarksOf(source)));
    manifest["marks_hash"] = ChecksumText(marks);
  }
  return manifest;
}

class Cache {
 public:
  Cache(const TokenCacheOptions& options, std::string directory, std::string key,
        std::string description)
      : options_(options),
        directory_(std::move(directory)),
        key_(std::move(key)),
        entry_(absl::StrCat(directory_, "/", key_)),
        description_(std::move(description)) {}

  const std::string& entry() const { return entry_; }

  // NotFound if there is no entry; another error describes what is wrong with it.
  absl::StatusOr<SourcePtr> Open(const std::vector<std::string>& notes) const {
    std::error_code ignored;
    if (!fs::exists(entry_, ignored)) return absl::NotFoundError(entry_);
    auto opened = OpenEntry(notes);
    // An entry that lacks a file is damaged, not absent.
    if (absl::IsNotFound(opened.status())) return absl::DataLossError(opened.status().message());
    return opened;
  }

  absl::Status Write(const TokenSource& source) const {
    RemoveDeadTemporaries(entry_);
    ZEROTH_ASSIGN_OR_RETURN(const TemporaryPath temporary, CreateTemporaryDirectory(entry_));
    absl::Status status = Fill(source, temporary.path);
    // An entry that exists by now is another process's, with the same tokens, or damaged.
    if (status.ok() && Open({}).ok()) status = absl::AlreadyExistsError(entry_);
    if (status.ok()) status = RemoveAll(entry_);
    if (status.ok()) status = RenamePath(temporary.path, entry_);
    if (status.ok()) return SyncDirectory(directory_);
    (void)RemoveAll(temporary.path);
    return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
  }

 private:
  absl::Status Fill(const TokenSource& source, const std::string& directory) const {
    const auto path = [&directory](const char* name) {
      return absl::StrCat(directory, "/", name, ".npy");
    };
    ZEROTH_RETURN_IF_ERROR(WriteTokens(source, options_.vocab_size, path(kTokens)));
    if (source.has_marks())
      ZEROTH_RETURN_IF_ERROR(WriteTokens(MarksOf(source), kMarkValues, path(kMarks)));
    ZEROTH_ASSIGN_OR_RETURN(nlohmann::json manifest, ManifestOf(source, key_));
    manifest["notes"] = source.notes();
    manifest["data"] = description_;
    // Paths need not be UTF-8.
    ZEROTH_RETURN_IF_ERROR(
        WriteFileDurably(absl::StrCat(directory, "/", kManifest),
                         manifest.dump(1, ' ', true, nlohmann::json::error_handler_t::replace)));
    return SyncDirectory(directory);
  }

  absl::StatusOr<SourcePtr> OpenEntry(const std::vector<std::string>& notes) const {
    const std::string path = absl::StrCat(entry_, "/", kManifest);
    ZEROTH_ASSIGN_OR_RETURN(nlohmann::json manifest, ReadJsonFile(path));
    const auto wrong = [&path](absl::string_view what) {
      return absl::DataLossError(absl::StrCat(path, " ", what));
    };
    if (!manifest.is_object()) return wrong("is not a manifest");
    TokenSource::Facts facts;
    facts.description = description_;
    for (const nlohmann::json& note : manifest.value("notes", nlohmann::json())) {
      if (!note.is_string()) return wrong("is not a manifest");
      facts.notes.push_back(note.get<std::string>());
    }
    facts.notes.insert(facts.notes.end(), notes.begin(), notes.end());
    manifest.erase("notes");
    manifest.erase("data");
    const nlohmann::json rows = manifest.value("row_length", nlohmann::json());
    if (!rows.is_number_integer() || rows.get<int64_t>() < 0) return wrong("is not a manifest");
    ZEROTH_ASSIGN_OR_RETURN(SourcePtr tokens, OpenTokens(entry_, kTokens, options_.vocab_size));
    SourcePtr marks;
    if (manifest.contains("marks_hash")) {
      ZEROTH_ASSIGN_OR_RETURN(marks, OpenTokens(entry_, kMarks, kMarkValues));
      if (marks->size() != tokens->size()) return wrong("has another number of marks than tokens");
    }
    facts.size = tokens->size();
    facts.row_length = rows.get<int64_t>();
    facts.has_marks = marks != nullptr;
    SourcePtr source = ViewTokens(std::move(tokens), 0, std::move(facts), std::move(marks));
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json found, ManifestOf(*source, key_));
    if (found != manifest) return wrong("does not say what the tokens beside it are");
    return source;
  }

  const TokenCacheOptions& options_;
  const std::string directory_;
  const std::string key_;
  const std::string entry_;
  const std::string description_;
};

// Waits until this process has the lock, or the file system turns out to have none. A holder that
// ends in any way loses the lock, so only one that works, or is stopped, is waited for.
absl::Status AwaitLock(int fd, const std::string& path, const TokenCacheOptions& options) {
  const absl::Time end = absl::Now() + options.lock_timeout;
  absl::Duration pause = absl::Milliseconds(1);
  while (TryLock(fd) == LockResult::kHeld) {
    if (absl::Now() > end) {
      return absl::DeadlineExceededError(absl::StrCat(
          path, ": another process has held this lock for ",
          absl::FormatDuration(options.lock_timeout),
          ", in which it should have encoded the same data; see whether it is stopped and end it "
          "(fuser ",
          path, " names it), or encode apart from it with --cache_dir=none"));
    }
    absl::SleepFor(pause);
    pause = std::min(pause * 2, absl::Milliseconds(200));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CacheDirectory(const std::vector<DataFile>& files, const std::string& choice) {
  if (choice != "auto") return choice;
  const fs::path beside = fs::path(files[0].path).parent_path();
  return (beside.empty() ? fs::path(".") : beside) / ".zeroth_cache";
}

absl::StatusOr<std::shared_ptr<const TokenSource>> CachedTokens(
    const std::vector<DataFile>& files, const TokenCacheOptions& options,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const TokenSource>>()> encode) {
  if (options.directory == "none") return encode();
  const std::string what = DescribeFiles(files);
  const std::string directory = CacheDirectory(files, options.directory);
  ZEROTH_ASSIGN_OR_RETURN(const std::string key, KeyOf(files, options));
  const Cache cache(options, directory, key, what);
  const std::string found =
      absl::StrCat("data      ", what, ": encoded before, and read from ", cache.entry());
  absl::StatusOr<SourcePtr> opened = cache.Open({found});
  if (opened.ok()) return opened;
  std::vector<std::string> notes;
  std::error_code error;
  fs::create_directories(directory, error);
  // Waits until no other process or thread makes this entry, except on a file system without locks.
  const FileDescriptor lock(TEMP_FAILURE_RETRY(
      open((cache.entry() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
  if (lock.is_open()) {
    ZEROTH_RETURN_IF_ERROR(AwaitLock(lock.descriptor(), cache.entry() + ".lock", options));
  }
  // Another process may have made the entry while this one waited.
  opened = cache.Open({found});
  if (opened.ok()) return opened;
  if (!absl::IsNotFound(opened.status())) {
    notes.push_back(absl::StrCat("data      ", what,
                                 ": encoded anew, since what was kept of it is "
                                 "damaged: ",
                                 opened.status().message()));
  }
  ZEROTH_ASSIGN_OR_RETURN(const SourcePtr source, encode());
  const auto in_memory = [&](absl::string_view why) {
    notes.push_back(absl::StrCat("data      ", what, ": encoded text is held in memory, since ",
                                 why, "; --cache_dir names another directory, or none"));
    TokenSource::Facts facts = source->facts();
    facts.description = what;
    facts.notes.insert(facts.notes.end(), notes.begin(), notes.end());
    return ViewTokens(source, 0, std::move(facts));
  };
  ZEROTH_ASSIGN_OR_RETURN(const std::string now, KeyOf(files, options));
  if (now != key) return in_memory("the files changed while they were read");
  const absl::Status written =
      error ? ErrnoStatus(error.value(), absl::StrCat("create directory ", directory))
            : cache.Write(*source);
  if (!written.ok()) return in_memory(written.message());
  notes.push_back(absl::StrCat("data      ", what, ": encoded, and kept in ", cache.entry()));
  opened = cache.Open(notes);
  if (!opened.ok()) return in_memory(opened.status().message());
  return opened;
}

}  // namespace zeroth
