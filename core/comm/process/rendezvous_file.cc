// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/rendezvous_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// The first word of the file. Files of older programs have another one.
constexpr char kForm[] = "zeroth-rendezvous-2";
// More than any rendezvous file has.
constexpr size_t kMostBytes = 4096;

// Writes `text` to a new file, whose name nobody can predict.
absl::Status WriteNew(const std::string& temporary, const std::string& text) {
  const int descriptor =
      open(temporary.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return absl::UnavailableError(std::strerror(errno));
  bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  written &= close(descriptor) == 0;
  return written ? absl::OkStatus() : absl::UnavailableError(std::strerror(errno));
}

}  // namespace

std::string MeetingPlace::ToText() const {
  return absl::StrCat(host, " ", port, " ", key.id, " ", key.secret);
}

std::optional<MeetingPlace> MeetingPlace::Parse(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  MeetingPlace place;
  if (words.size() != 4 || words[0].empty() || !absl::SimpleAtoi(words[1], &place.port) ||
      place.port < 1 || place.port > 65535) {
    return std::nullopt;
  }
  place.host = words[0];
  place.key = {words[2], words[3]};
  return place;
}

absl::Status WriteRendezvousFile(const std::string& path, const MeetingPlace& place) {
  ZEROTH_ASSIGN_OR_RETURN(const JobKey name, JobKey::New());
  const std::string temporary = absl::StrCat(path, ".", name.id);
  absl::Status written = WriteNew(temporary, absl::StrCat(kForm, " ", place.ToText(), "\n"));
  if (written.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    written = absl::UnavailableError(std::strerror(errno));
  }
  if (written.ok()) return written;
  static_cast<void>(std::remove(temporary.c_str()));
  return absl::PermissionDeniedError(absl::StrCat(
      "cannot write the rendezvous file '", path, "' (", written.message(),
      "); set ZEROTH_RENDEZVOUS_FILE to a file in a writable directory that all ranks share"));
}

absl::StatusOr<std::optional<MeetingPlace>> ReadRendezvousFile(const std::string& path) {
  const auto refuse = [&](absl::string_view what) {
    return absl::PermissionDeniedError(
        absl::StrCat("the rendezvous file '", path, "' ", what,
                     "; remove it, or set ZEROTH_RENDEZVOUS_FILE to a file in a directory in "
                     "which only this user writes"));
  };
  // A pipe must not make this wait.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ELOOP) return refuse("is a symbolic link, which is not followed");
    return std::optional<MeetingPlace>();
  }
  struct stat status = {};
  if (fstat(file.descriptor(), &status) != 0) return std::optional<MeetingPlace>();
  if (!S_ISREG(status.st_mode)) return refuse("is not a regular file");
  if (status.st_uid != geteuid()) {
    return refuse(
        absl::StrCat("belongs to the user ", status.st_uid, ", and this is the user ", geteuid()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return refuse("can be written by other users");
  std::string text(kMostBytes, '\0');
  const ssize_t got = read(file.descriptor(), text.data(), text.size());
  if (got <= 0) return std::optional<MeetingPlace>();
  absl::string_view line = absl::string_view(text).substr(0, static_cast<size_t>(got));
  if (!absl::ConsumePrefix(&line, absl::StrCat(kForm, " ")) || !absl::ConsumeSuffix(&line, "\n")) {
    return std::optional<MeetingPlace>();
  }
  return MeetingPlace::Parse(line);
}

void RemoveRendezvousFile(const std::string& path, const MeetingPlace& place) {
  const auto found = ReadRendezvousFile(path);
  if (found.ok() && found->has_value() && (*found)->key.id == place.key.id) {
    static_cast<void>(std::remove(path.c_str()));
  }
}

}  // namespace zeroth
