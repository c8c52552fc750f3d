// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/teacher_topk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kFactsFile[] = "topk.json";
constexpr int64_t kFormat = 1;
// Far above any use, and low enough that a row's bytes do not overflow.
constexpr int64_t kMostNumbers = int64_t{1} << 31;

std::string FileOf(const std::string& directory, size_t source) {
  return absl::StrCat(directory, "/source-", source, ".topk");
}

size_t RowBytes(const TopKFacts& facts) {
  return sizeof(uint64_t) +
         static_cast<size_t>(facts.seq_len * facts.k) * (sizeof(int32_t) + sizeof(float));
}

template <typename T>
absl::Span<const uint8_t> BytesOf(absl::Span<T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// A row without documents is one document.
uint64_t ChecksumOfRow(const TopKRow& row) {
  ChecksumStream stream;
  stream.Add(BytesOf(row.inputs));
  if (row.starts.empty()) {
    const std::vector<int32_t> one(row.inputs.size(), 0);
    stream.Add(BytesOf(absl::MakeConstSpan(one)));
  } else {
    stream.Add(BytesOf(row.starts));
  }
  stream.Add(BytesOf(row.ids));
  stream.Add(BytesOf(row.log_probs));
  return stream.Value();
}

absl::StatusOr<TopKFacts> ParseFacts(const nlohmann::json& json, const std::string& path) {
  const auto wrong = [&](absl::string_view what) {
    return InvalidArgument(path, ": ", what, "; expected what evaluate --write_topk has written");
  };
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) {
    return wrong(absl::StrCat("\"format\" is not ", kFormat));
  }
  TopKFacts facts;
  const auto number = [](const nlohmann::json& value) {
    return value.is_number_integer() ? value.get<int64_t>() : -1;
  };
  facts.k = number(json.value("k", nlohmann::json()));
  facts.seq_len = number(json.value("seq_len", nlohmann::json()));
  if (facts.k < 1 || facts.seq_len < 1 || facts.k > kMostNumbers / facts.seq_len) {
    return wrong("\"k\" or \"seq_len\" is out of range");
  }
  const nlohmann::json teacher = json.value("teacher", nlohmann::json());
  if (!teacher.is_string()) return wrong("\"teacher\" is not a string");
  facts.teacher = teacher.get<std::string>();
  const nlohmann::json checksum = json.value("checksum", nlohmann::json());
  if (!checksum.is_string()) return wrong("\"checksum\" is not a string");
  facts.checksum = checksum.get<std::string>();
  const nlohmann::json rows = json.value("rows", nlohmann::json());
  if (!rows.is_array() || rows.empty()) return wrong("\"rows\" is not a list");
  for (const nlohmann::json& count : rows) {
    facts.rows.push_back(number(count));
    if (facts.rows.back() < 0) return wrong("\"rows\" has a number below 0");
  }
  return facts;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TeacherTopK>> TeacherTopK::Open(const std::string& directory,
                                                                     int64_t vocab_size) {
  const std::string path = absl::StrCat(directory, "/", kFactsFile);
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(path));
  ZEROTH_ASSIGN_OR_RETURN(TopKFacts facts, ParseFacts(json, path));
  std::shared_ptr<TeacherTopK> teacher(new TeacherTopK(directory, vocab_size, std::move(facts)));
  for (size_t source = 0; source < teacher->facts_.rows.size(); ++source) {
    ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file,
                            RandomAccessFile::Open(FileOf(directory, source)));
    const size_t row_bytes = RowBytes(teacher->facts_);
    if (file.size() % row_bytes != 0 ||
        file.size() / row_bytes != static_cast<size_t>(teacher->facts_.rows[source])) {
      return InvalidArgument(file.path(), ": ", file.size(), " bytes, expected ",
                             teacher->facts_.rows[source], " rows of ", row_bytes,
                             "; the file was cut or changed, so write it anew");
    }
    teacher->files_.push_back(std::move(file));
  }
  return teacher;
}

absl::Status TeacherTopK::Read(size_t source, int64_t row, const TopKRow& to) const {
  const size_t numbers = static_cast<size_t>(facts_.seq_len * facts_.k);
  ZEROTH_CHECK(source < files_.size() && to.ids.size() == numbers &&
               to.log_probs.size() == numbers);
  const RandomAccessFile& file = files_[source];
  std::vector<uint8_t> bytes(RowBytes(facts_));
  ZEROTH_RETURN_IF_ERROR(file.Read(static_cast<size_t>(row) * bytes.size(), absl::MakeSpan(bytes)));
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data(), sizeof(checksum));
  std::memcpy(to.ids.data(), bytes.data() + sizeof(checksum), numbers * sizeof(int32_t));
  std::memcpy(to.log_probs.data(), bytes.data() + sizeof(checksum) + numbers * sizeof(int32_t),
              numbers * sizeof(float));
  if (checksum != ChecksumOfRow(to)) {
    return InvalidArgument(
        file.path(), ": row ", row,
        " was written for other tokens or documents than this sequence of the data, or has changed "
        "since; write it from the same data with the same tokenizer, chat template and --seq_len");
  }
  const auto k = static_cast<size_t>(facts_.k);
  for (size_t i = 0; i < numbers; ++i) {
    const int32_t least = i % k == 0 ? 0 : to.ids[i - 1] + 1;
    if (to.ids[i] < least || to.ids[i] >= vocab_size_) {
      return InvalidArgument(
          file.path(), ": row ", row, " has token ", to.ids[i],
          " of the teacher, expected ascending ones of the model's vocabulary of ", vocab_size_,
          "; the teacher and the model must share a vocabulary");
    }
    if (!std::isfinite(to.log_probs[i])) {
      return InvalidArgument(file.path(), ": row ", row, " has the log-probability ",
                             to.log_probs[i], ", expected finite ones");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TopKWriter> TopKWriter::Create(const std::string& directory, TopKFacts facts) {
  ZEROTH_ASSIGN_OR_RETURN(const bool exists, PathExists(directory));
  if (exists) {
    return absl::AlreadyExistsError(
        absl::StrCat(directory, " exists; name another directory, or remove it"));
  }
  RemoveDeadTemporaries(directory);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryDirectory(directory));
  TopKWriter writer;
  writer.directory_ = directory;
  writer.temporary_ = std::move(temporary.path);
  writer.lock_ = std::move(temporary.file);
  writer.facts_ = std::move(facts);
  return writer;
}

absl::Status TopKWriter::Add(const TopKRow& row) {
  while (source_ < facts_.rows.size() && row_ == facts_.rows[source_]) {
    ++source_;
    row_ = 0;
    file_ = FileDescriptor();
  }
  ZEROTH_CHECK(source_ < facts_.rows.size());
  for (const float value : row.log_probs) {
    if (std::isfinite(value)) continue;
    return InvalidArgument("row ", row_, " of source ", source_,
                           ": the teacher's log-probability is ", value,
                           ", expected finite ones; are its weights whole?");
  }
  const std::string path = FileOf(temporary_, source_);
  if (!file_.is_open()) {
    file_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_.is_open()) return ErrnoStatus(errno, absl::StrCat("create ", path));
  }
  const uint64_t checksum = ChecksumOfRow(row);
  checksums_.push_back(checksum);
  const auto begin = row_ * static_cast<int64_t>(RowBytes(facts_));
  const absl::Span<const uint8_t> ids = BytesOf(row.ids);
  ZEROTH_RETURN_IF_ERROR(
      WriteAt(file_.descriptor(), path, begin, BytesOf(absl::MakeConstSpan(&checksum, 1))));
  const int64_t ids_begin = begin + static_cast<int64_t>(sizeof(checksum));
  ZEROTH_RETURN_IF_ERROR(WriteAt(file_.descriptor(), path, ids_begin, ids));
  ZEROTH_RETURN_IF_ERROR(WriteAt(file_.descriptor(), path,
                                 ids_begin + static_cast<int64_t>(ids.size()),
                                 BytesOf(row.log_probs)));
  ++row_;
  if (row_ == facts_.rows[source_] && fsync(file_.descriptor()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("write ", path));
  }
  return absl::OkStatus();
}

absl::Status TopKWriter::Finish() {
  ZEROTH_CHECK(source_ + 1 == facts_.rows.size() && row_ == facts_.rows[source_]);
  ChecksumStream stream;
  stream.Add(BytesOf(absl::MakeConstSpan(checksums_)));
  const nlohmann::json json = {{"format", kFormat},
                               {"k", facts_.k},
                               {"seq_len", facts_.seq_len},
                               {"teacher", facts_.teacher},
                               {"checksum", ChecksumText(stream.Value())},
                               {"rows", facts_.rows}};
  ZEROTH_RETURN_IF_ERROR(
      WriteFileDurably(absl::StrCat(temporary_, "/", kFactsFile),
                       json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(temporary_));
  return RenamePath(temporary_, directory_);
}

}  // namespace zeroth
