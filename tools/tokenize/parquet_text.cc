// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/tokenize/parquet_text.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// Exit codes of the script.
constexpr int kNoPackage = 3;
constexpr int kNoColumn = 4;

constexpr char kScript[] = R"(
import json, os, sys
try:
    import pyarrow.parquet
except ImportError:
    sys.exit(3)
source, target = sys.argv[1:]
file = pyarrow.parquet.ParquetFile(source)
if 'text' not in file.schema_arrow.names:
    print('columns of', source, file.schema_arrow.names, file=sys.stderr)
    sys.exit(4)
with open(target + '.next', 'w', encoding='utf-8') as lines:
    for batch in file.iter_batches(columns=['text']):
        for text in batch.column(0).to_pylist():
            if text is not None:
                lines.write(json.dumps({'text': text}) + '\n')
os.replace(target + '.next', target)
)";

// Returns a name that identifies the parquet file and its version, so that stale text is never
// used.
absl::StatusOr<std::string> TextOf(const std::string& parquet, const std::string& out,
                                   size_t number) {
  struct stat found;
  if (stat(parquet.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return absl::NotFoundError(absl::StrCat(
        parquet, ": there is no such file; parquet files are named one by one, without patterns"));
  }
  return absl::StrCat(out, ".parquet-", number, "-", found.st_dev, "-", found.st_ino, "-",
                      found.st_size, "-", found.st_mtim.tv_sec, "-", found.st_mtim.tv_nsec,
                      ".jsonl");
}

absl::Status MakeText(const std::string& parquet, const std::string& text) {
  const char* const named = std::getenv("ZEROTH_PYTHON");
  const std::string python = named != nullptr && *named != '\0' ? named : "python3";
  const auto missing = [&](absl::string_view what) {
    return FailedPrecondition(
        parquet, ": parquet files are read by Python's package pyarrow, and ", what,
        ". Install it (pip install pyarrow) and name that Python by ZEROTH_PYTHON, or "
        "give JSON lines");
  };
  std::vector<std::string> words = {python, "-c", kScript, parquet, text};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int spawned =
      posix_spawnp(&child, python.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (spawned == ENOENT) return missing(absl::StrCat("there is no ", python));
  if (spawned != 0) return ErrnoStatus(spawned, absl::StrCat("start ", python));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", python));
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 0) return absl::OkStatus();
  if (code == kNoPackage) return missing(absl::StrCat(python, " does not have it"));
  if (code == 127) return missing(absl::StrCat("there is no ", python));
  if (code == kNoColumn) {
    return InvalidArgument(parquet, ": has no column \"text\" to tokenise");
  }
  return InvalidArgument(parquet, ": ", python, " could not read it; its error message is above");
}

// By content; a missing file is recognized by its name, so that the message can say so.
bool IsParquet(const std::string& path) {
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return absl::EndsWith(path, ".parquet");
  const absl::StatusOr<std::vector<uint8_t>> head = file->ReadHead(4);
  return head.ok() && *head == std::vector<uint8_t>{'P', 'A', 'R', '1'};
}

}  // namespace

absl::StatusOr<std::string> WithoutParquet(const std::string& in, const std::string& out) {
  std::vector<std::string> items;
  size_t number = 0;
  for (const absl::string_view item : absl::StrSplit(in, ',')) {
    items.emplace_back(item);
    if (!IsParquet(items.back())) continue;
    ZEROTH_ASSIGN_OR_RETURN(std::string text, TextOf(items.back(), out, number++));
    std::error_code ignored;
    if (!fs::exists(text, ignored)) ZEROTH_RETURN_IF_ERROR(MakeText(items.back(), text));
    items.back() = std::move(text);
  }
  return absl::StrJoin(items, ",");
}

void RemoveParquetTexts(const std::string& out) {
  const fs::path path = out;
  const std::string prefix = path.filename().string() + ".parquet-";
  std::vector<fs::path> texts;
  std::error_code ignored;
  for (fs::directory_iterator it(path.has_parent_path() ? path.parent_path() : ".", ignored), end;
       it != end; it.increment(ignored)) {
    if (absl::StartsWith(it->path().filename().string(), prefix)) texts.push_back(it->path());
  }
  for (const fs::path& text : texts) fs::remove(text, ignored);
}

}  // namespace zeroth
