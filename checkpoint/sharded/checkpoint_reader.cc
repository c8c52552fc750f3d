// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Ranges of a rank come from few files at a time; thousands of ranks may have written.
constexpr size_t kMaxOpenFiles = 32;

// Bytes that are read at once, and checksummed while they are in a core's cache.
constexpr size_t kReadBytes = size_t{256} << 10;

// Bytes to prefetch from the disk at once. Saving leaves the page cache empty, and the system's
// read-ahead is a thousandth of a piece.
constexpr int64_t kReadAheadBytes = int64_t{32} << 20;

absl::Status Damaged(absl::string_view place, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(place, ": ", what));
}

// A missing file is damage. A file that the system cannot read now (EIO, ESTALE, a lack of
// permission, a full table of files) may be intact, and another attempt may read it.
absl::Status NotFoundToDataLoss(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::DataLossError(status.message()) : status;
}

// True for a carried file: no piece lies in it, so all of it counts as header.
bool IsCarried(const CheckpointFile& file) { return file.header_bytes == file.bytes; }

absl::StatusOr<std::string> ReadIndex(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxIndexBytes);
  // A directory of this name is damage, not an error of the file system.
  if (absl::IsInvalidArgument(text.status())) return absl::DataLossError(text.status().message());
  if (!text.ok()) return NotFoundToDataLoss(text.status());
  return text;
}

}  // namespace

// A piece, with its parameter and state for messages.
struct CheckpointReader::Place {
  absl::string_view parameter;
  absl::string_view state;
  const CheckpointTensor* tensor = nullptr;
  const CheckpointPiece* piece = nullptr;

  int64_t element_bytes() const { return BitsOf(tensor->dtype) / 8; }
  int64_t bytes() const { return (piece->end - piece->begin) * element_bytes(); }
};

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& directory) {
  std::error_code error;
  if (const auto status = std::filesystem::status(directory, error);
      !std::filesystem::is_directory(status)) {
    if (!std::filesystem::status_known(status)) {
      return ErrnoStatus(error.value(), absl::StrCat("look for ", directory));
    }
    return absl::NotFoundError(absl::StrCat(directory, ": no such checkpoint directory"));
  }
  const std::string path = absl::StrCat(directory, "/", kCheckpointIndexName);
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadIndex(path));
  absl::StatusOr<CheckpointIndex> index = CheckpointIndex::Parse(text, path);
  // Intact, but written for another program.
  if (absl::IsUnimplemented(index.status())) return index.status();
  if (!index.ok()) return absl::DataLossError(index.status().message());
  if (absl::Status complete = index->CheckComplete(); !complete.ok()) {
    return Damaged(path, complete.message());
  }
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(directory, *std::move(index)));
}

std::string CheckpointReader::PathOf(int file) const {
  return absl::StrCat(directory_, "/", index_.files[static_cast<size_t>(file)].name);
}

const CheckpointTensor* CheckpointReader::Find(absl::string_view parameter,
                                               absl::string_view state) const {
  const auto found = index_.parameters.find(parameter);
  if (found == index_.parameters.end()) return nullptr;
  const auto tensor = found->second.states.find(state);
  return tensor == found->second.states.end() ? nullptr : &tensor->second;
}

void CheckpointReader::ReadAhead(int fd, int file, int64_t begin) {
  int64_t& advised = advised_[file];
  // After a jump, forget the earlier request.
  if (begin < advised - kReadAheadBytes || begin > advised) advised = begin;
  if (advised - begin > kReadAheadBytes / 2) return;
  posix_fadvise(fd, advised, begin + kReadAheadBytes - advised, POSIX_FADV_WILLNEED);
  advised = begin + kReadAheadBytes;
}

ssize_t CheckpointReader::ReadSome(int fd, int file, int64_t begin, absl::Span<uint8_t> out) {
  const iovec target = {out.data(), out.size()};
  const ssize_t count = preadv2(fd, &target, 1, begin, RWF_NOWAIT);
  // The bytes are not in memory, so prefetch many at once from the disk.
  if (count > 0) return count;
  ReadAhead(fd, file, begin);
  return pread(fd, out.data(), out.size(), begin);
}

absl::Status CheckpointReader::ReadFileBytes(int fd, int file, int64_t begin,
                                             absl::Span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t count = ReadSome(fd, file, begin, out);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string bytes =
          absl::StrCat("the bytes [", begin, ", ", begin + static_cast<int64_t>(out.size()), ")");
      if (count == 0) return Damaged(PathOf(file), absl::StrCat("ends before ", bytes));
      return ErrnoStatus(errno, absl::StrCat("read ", bytes, " of ", PathOf(file)));
    }
    out.remove_prefix(static_cast<size_t>(count));
    begin += count;
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckHeader(int fd, int file) {
  const CheckpointFile& entry = index_.files[static_cast<size_t>(file)];
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) return ErrnoStatus(errno, "stat " + PathOf(file));
  // Checked before anything is allocated for what the index claims.
  if (facts.st_size != entry.bytes) {
    return Damaged(PathOf(file), absl::StrCat(facts.st_size, " bytes, but the index says ",
                                              entry.bytes, "; it is cut short or another file"));
  }
  std::vector<uint8_t> header(static_cast<size_t>(entry.header_bytes));
  ZEROTH_RETURN_IF_ERROR(ReadFileBytes(fd, file, 0, absl::MakeSpan(header)));
  if (ChecksumOf(absl::MakeConstSpan(header)) == entry.header_checksum) return absl::OkStatus();
  const std::string wrong = absl::StrCat("its header, the bytes [0, ", entry.header_bytes,
                                         "), is not the one that the index was made with");
  // The message has more detail if the file is intact, but of another save.
  const absl::StatusOr<RandomAccessFile> again = RandomAccessFile::Open(PathOf(file));
  if (!again.ok()) return Damaged(PathOf(file), wrong);
  const auto parsed = ReadSafetensorsHeader(*again);
  if (!parsed.ok() || parsed->metadata.count("checkpoint") == 0) {
    return Damaged(PathOf(file), wrong);
  }
  const std::string& id = parsed->metadata.at("checkpoint");
  if (id == index_.id) return Damaged(PathOf(file), wrong);
  return Damaged(PathOf(file),
                 absl::StrCat("a shard of another checkpoint: it was written by save ", id,
                              ", the index by save ", index_.id));
}

absl::StatusOr<int> CheckpointReader::OpenFile(int file) {
  const auto found = open_.find(file);
  if (found != open_.end()) return found->second.descriptor();
  if (open_.size() >= kMaxOpenFiles) {
    open_.clear();
    advised_.clear();
  }
  // O_NONBLOCK, or opening a named pipe would wait for a writer instead of being refused.
  FileDescriptor opened(
      TEMP_FAILURE_RETRY(open(PathOf(file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
  const int fd = opened.descriptor();
  if (fd < 0) return NotFoundToDataLoss(ErrnoStatus(errno, absl::StrCat("open ", PathOf(file))));
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) {
    return ErrnoStatus(errno, absl::StrCat("look at ", PathOf(file)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return Damaged(PathOf(file), "expected a file, found something that is not a file");
  }
  ZEROTH_RETURN_IF_ERROR(CheckHeader(fd, file));
  open_.emplace(file, std::move(opened));
  return fd;
}

absl::Status CheckpointReader::ReadBlock(const Place& place, int64_t block,
                                         absl::Span<uint8_t> out) {
  const CheckpointPiece& piece = *place.piece;
  ZEROTH_ASSIGN_OR_RETURN(const int fd, OpenFile(piece.file));
  const int64_t offset = block * index_.block_bytes;
  const int64_t begin = piece.file_begin + offset;
  ChecksumStream checksum;
  for (size_t done = 0; done < out.size(); done += kReadBytes) {
    const absl::Span<uint8_t> part = out.subspan(done, kReadBytes);
    ZEROTH_RETURN_IF_ERROR(ReadFileBytes(fd, piece.file, begin + static_cast<int64_t>(done), part));
    checksum.Add(part);
  }
  const uint64_t expected = piece.checksums[static_cast<size_t>(block)];
  const uint64_t found = checksum.Value();
  if (found == expected) return absl::OkStatus();
  const auto count = static_cast<int64_t>(out.size());
  const int64_t size = place.element_bytes();
  return Damaged(PathOf(piece.file),
                 absl::StrCat("the bytes [", begin, ", ", begin + count,
                              "), which hold the elements [", piece.begin + offset / size, ", ",
                              piece.begin + (offset + count + size - 1) / size, ") of parameter \"",
                              place.parameter, "\" state \"", place.state,
                              "\", are damaged: their checksum is ", ChecksumText(found),
                              ", expected ", ChecksumText(expected)));
}

absl::Status CheckpointReader::ReadPiece(const Place& place, int64_t begin,
                                         absl::Span<uint8_t> out) {
  const int64_t block_bytes = index_.block_bytes;
  while (!out.empty()) {
    const int64_t block = begin / block_bytes;
    const int64_t first = block * block_bytes;
    const int64_t size = std::min(block_bytes, place.bytes() - first);
    const int64_t count = std::min(first + size - begin, static_cast<int64_t>(out.size()));
    if (count == size) {
      ZEROTH_RETURN_IF_ERROR(ReadBlock(place, block, out.subspan(0, static_cast<size_t>(size))));
    } else {
      if (cached_piece_ != place.piece || cached_block_ != block) {
        // OpenFile checks the file's length before anything is allocated for the index's claims.
        ZEROTH_RETURN_IF_ERROR(OpenFile(place.piece->file).status());
        cached_piece_ = nullptr;
        cache_.resize(static_cast<size_t>(size));
        ZEROTH_RETURN_IF_ERROR(ReadBlock(place, block, absl::MakeSpan(cache_)));
        cached_piece_ = place.piece;
        cached_block_ = block;
      }
      std::memcpy(out.data(), cache_.data() + (begin - first), static_cast<size_t>(count));
    }
    out.remove_prefix(static_cast<size_t>(count));
    begin += count;
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadBytes(absl::string_view parameter, absl::string_view state,
                                         int64_t begin, absl::Span<uint8_t> out) {
  Place place{parameter, state, Find(parameter, state), nullptr};
  if (place.tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(directory_, ": no state \"", state, "\" of parameter \"", parameter, "\""));
  }
  const int64_t size = place.element_bytes();
  const int64_t numel = index_.parameters.find(parameter)->second.NumelOf(*place.tensor);
  const auto bytes = static_cast<int64_t>(out.size());
  if (begin < 0 || bytes % size != 0 || bytes / size > numel || begin > numel - bytes / size) {
    return absl::OutOfRangeError(absl::StrCat(directory_, ": ", bytes, " bytes from element ",
                                              begin, " of parameter \"", parameter, "\" state \"",
                                              state, "\", which has ", numel, " of ", size));
  }
  const std::vector<CheckpointPiece>& pieces = place.tensor->pieces;
  auto piece = std::upper_bound(
      pieces.begin(), pieces.end(), begin,
      [](int64_t element, const CheckpointPiece& other) { return element < other.end; });
  while (!out.empty()) {
    // Pieces tile the tensor, so this piece exists.
    place.piece = &*piece;
    const int64_t offset = (begin - piece->begin) * size;
    const int64_t count = std::min(place.bytes() - offset, static_cast<int64_t>(out.size()));
    ZEROTH_RETURN_IF_ERROR(ReadPiece(place, offset, out.subspan(0, static_cast<size_t>(count))));
    out.remove_prefix(static_cast<size_t>(count));
    begin = piece->end;
    ++piece;
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Read(absl::string_view parameter, absl::string_view state,
                                    int64_t begin, absl::Span<float> out) {
  const CheckpointTensor* const tensor = Find(parameter, state);
  if (tensor == nullptr || tensor->dtype == SafetensorsDType::kF32) {
    return ReadBytes(parameter, state, begin,
                     absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), out.size() * 4));
  }
  if (!ConvertsToFloat32(tensor->dtype)) {
    return InvalidArgument(directory_, ": state \"", state, "\" of parameter \"", parameter,
                           "\" is ", SafetensorsDTypeName(tensor->dtype),
                           ", expected F32, F16, BF16 or F64");
  }
  const auto size = static_cast<size_t>(BitsOf(tensor->dtype) / 8);
  const size_t most = static_cast<size_t>(kCheckpointBlockBytes) / size;
  std::vector<uint8_t> bytes;
  while (!out.empty()) {
    const size_t count = std::min(most, out.size());
    bytes.resize(count * size);
    ZEROTH_RETURN_IF_ERROR(ReadBytes(parameter, state, begin, absl::MakeSpan(bytes)));
    ConvertToFloat32(tensor->dtype, bytes.data(), out.subspan(0, count));
    out.remove_prefix(count);
    begin += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointReader::ReadCarriedFile(absl::string_view name) {
  for (size_t i = 0; i < index_.files.size(); ++i) {
    if (index_.files[i].name != name || !IsCarried(index_.files[i])) continue;
    ZEROTH_ASSIGN_OR_RETURN(const int fd, OpenFile(static_cast<int>(i)));
    std::string content(static_cast<size_t>(index_.files[i].bytes), '\0');
    ZEROTH_RETURN_IF_ERROR(
        ReadFileBytes(fd, static_cast<int>(i), 0,
                      absl::MakeSpan(reinterpret_cast<uint8_t*>(content.data()), content.size())));
    return content;
  }
  return absl::NotFoundError(absl::StrCat(directory_, ": carries no file \"", name, "\""));
}

absl::Status CheckpointReader::CheckCarriedFiles() {
  for (size_t i = 0; i < index_.files.size(); ++i) {
    if (!IsCarried(index_.files[i])) continue;
    ZEROTH_RETURN_IF_ERROR(OpenFile(static_cast<int>(i)).status());
  }
  return absl::OkStatus();
}

std::vector<absl::Status> CheckpointReader::Verify(size_t limit) {
  std::vector<absl::Status> damages;
  std::vector<bool> readable(index_.files.size());
  for (size_t i = 0; i < index_.files.size() && damages.size() < limit; ++i) {
    const absl::StatusOr<int> fd = OpenFile(static_cast<int>(i));
    readable[i] = fd.ok();
    if (!fd.ok()) damages.push_back(fd.status());
  }
  std::vector<uint8_t> block;
  for (const auto& [name, parameter] : index_.parameters) {
    for (const auto& [state, tensor] : parameter.states) {
      for (const CheckpointPiece& piece : tensor.pieces) {
        if (!readable[static_cast<size_t>(piece.file)]) continue;
        const Place place{name, state, &tensor, &piece};
        for (size_t i = 0; i < piece.checksums.size() && damages.size() < limit; ++i) {
          const int64_t first = static_cast<int64_t>(i) * index_.block_bytes;
          block.resize(static_cast<size_t>(std::min(index_.block_bytes, place.bytes() - first)));
          absl::Status status = ReadBlock(place, static_cast<int64_t>(i), absl::MakeSpan(block));
          if (!status.ok()) damages.push_back(std::move(status));
        }
      }
    }
  }
  return damages;
}

}  // namespace zeroth
