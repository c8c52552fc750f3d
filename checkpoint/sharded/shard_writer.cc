// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/shard_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/direct_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"

namespace zeroth {
namespace {

// Bytes per write: enough to keep a disk busy, and little enough to stay in a cache from copying to
// writing.
constexpr int64_t kTransferBytes = int64_t{8} << 20;

// True if the piece has all of the parameter's elements, so that it is stored with the parameter's
// shape.
bool IsWhole(const StatePiece& piece) {
  return piece.block == 1 && piece.numel() == piece.shape.numel();
}

// The tensor's name inside the file. It is for people; readers use the index.
std::string TensorName(const StatePiece& piece) {
  std::string name = absl::StrCat(piece.state, "/", piece.parameter);
  if (!IsWhole(piece)) absl::StrAppend(&name, "[", piece.begin, ":", piece.end, "]");
  return name;
}

std::vector<TensorDeclaration> Declarations(absl::Span<const StatePiece> pieces) {
  std::vector<TensorDeclaration> declarations;
  for (const StatePiece& piece : pieces) {
    const Shape shape = IsWhole(piece) ? piece.shape : Shape({piece.numel()});
    declarations.push_back({TensorName(piece), piece.shard.dtype(), shape});
  }
  return declarations;
}

absl::Status CopyBlock(Device& device, const StatePiece& piece, int64_t begin, int64_t bytes,
                       uint8_t* out) {
  const auto size = static_cast<int64_t>(SizeOf(piece.shard.dtype()));
  return CopyStateToHost(device, piece.shard, piece.shard_begin + begin / size, bytes / size, out);
}

// Writes a file from its beginning to its end.
class ShardFile {
 public:
  // Exactly one of `image` and `device` is null. Bytes are in the image already, or are copied from
  // the device into a window of a few MiB.
  ShardFile(const ShardWriterOptions& options, absl::Span<const StatePiece> pieces,
            const ShardPlan& plan, const uint8_t* image, Device* device)
      : options_(options), pieces_(pieces), plan_(plan), image_(image), device_(device) {}

  absl::StatusOr<CheckpointIndex> Write() {
    ZEROTH_RETURN_IF_ERROR(Open());
    CheckpointIndex index = EmptyIndex();
    if (image_ == nullptr) std::memcpy(window_.data(), plan_.header.data(), plan_.header.size());
    ready_ = static_cast<int64_t>(plan_.header.size());
    std::vector<CheckpointPiece> written(pieces_.size());
    for (const size_t i : InFileOrder()) {
      ZEROTH_ASSIGN_OR_RETURN(written[i], WritePiece(i));
    }
    ZEROTH_RETURN_IF_ERROR(WriteReady(/*all=*/true));
    ZEROTH_RETURN_IF_ERROR(file_->Finish());
    for (size_t i = 0; i < pieces_.size(); ++i) AddToIndex(i, std::move(written[i]), index);
    return index;
  }

 private:
  absl::Status Open() {
    ZEROTH_ASSIGN_OR_RETURN(
        file_,
        DirectFile::Create(absl::StrCat(options_.directory, "/", options_.file), plan_.file_bytes));
    if (image_ != nullptr) return absl::OkStatus();
    // The window holds unwritten bytes (less than a transfer, or the header), one block, and the
    // rest of a page.
    const auto header = static_cast<int64_t>(plan_.header.size());
    const int64_t most = std::max(kTransferBytes, header) + options_.block_bytes;
    ZEROTH_ASSIGN_OR_RETURN(
        window_, PageBuffer::Allocate(static_cast<size_t>(most + DirectFile::kAlignment)));
    return absl::OkStatus();
  }

  CheckpointIndex EmptyIndex() const {
    CheckpointIndex index;
    index.id = plan_.id;
    index.step = plan_.step;
    index.block_bytes = options_.block_bytes;
    const auto header_bytes = static_cast<int64_t>(plan_.header.size());
    index.files.push_back(
        {options_.file, plan_.file_bytes, header_bytes, ChecksumOf(plan_.header)});
    return index;
  }

  void AddToIndex(size_t i, CheckpointPiece written, CheckpointIndex& index) const {
    const StatePiece& piece = pieces_[i];
    CheckpointParameter& parameter = index.parameters[piece.parameter];
    parameter.shape = piece.shape;
    CheckpointTensor& tensor = parameter.states[piece.state];
    tensor.block = piece.block;
    tensor.dtype = ToSafetensorsDType(piece.shard.dtype());
    tensor.pieces.push_back(std::move(written));
  }

  std::vector<size_t> InFileOrder() const {
    std::vector<size_t> order(pieces_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return plan_.file_begins[a] < plan_.file_begins[b];
    });
    return order;
  }

  // Returns the place in memory of byte `at` of the file.
  const uint8_t* Place(int64_t at) const {
    return image_ != nullptr ? image_ + at : window_.data() + (at - written_);
  }

  absl::StatusOr<CheckpointPiece> WritePiece(size_t i) {
    const StatePiece& piece = pieces_[i];
    CheckpointPiece written = {0, plan_.file_begins[i], piece.begin, piece.end, {}};
    const int64_t bytes = piece.bytes();
    for (int64_t begin = 0; begin < bytes; begin += options_.block_bytes) {
      const int64_t count = std::min(options_.block_bytes, bytes - begin);
      if (device_ != nullptr) {
        ZEROTH_RETURN_IF_ERROR(
            CopyBlock(*device_, piece, begin, count, window_.data() + (ready_ - written_)));
      }
      // Checksummed while the block is in the cache.
      written.checksums.push_back(
          ChecksumOf(absl::MakeConstSpan(Place(ready_), static_cast<size_t>(count))));
      ready_ += count;
      if (ready_ - written_ >= kTransferBytes) ZEROTH_RETURN_IF_ERROR(WriteReady(/*all=*/false));
    }
    return written;
  }

  // Writes the whole pages that are ready, or everything at the end.
  absl::Status WriteReady(bool all) {
    const int64_t ready = ready_ - written_;
    const int64_t count = all ? ready : ready / DirectFile::kAlignment * DirectFile::kAlignment;
    const uint8_t* const first = Place(written_);
    ZEROTH_RETURN_IF_ERROR(
        file_->Write(written_, absl::MakeConstSpan(first, static_cast<size_t>(count))));
    if (image_ == nullptr && ready > count) {
      std::memmove(window_.data(), first + count, static_cast<size_t>(ready - count));
    }
    written_ += count;
    if (options_.progress != nullptr) options_.progress->fetch_add(count);
    return absl::OkStatus();
  }

  const ShardWriterOptions& options_;
  const absl::Span<const StatePiece> pieces_;
  const ShardPlan& plan_;
  const uint8_t* const image_;
  Device* const device_;
  std::unique_ptr<DirectFile> file_;
  PageBuffer window_;    // begins at byte `written_` of the file
  int64_t ready_ = 0;    // bytes of the file that are in memory
  int64_t written_ = 0;  // and on disk
};

}  // namespace

std::string ShardFileName(int rank, int world_size) {
  return absl::StrFormat("rank-%05d-of-%05d.safetensors", rank, world_size);
}

absl::StatusOr<ShardPlan> PlanShard(absl::string_view id, int64_t step,
                                    absl::Span<const StatePiece> pieces) {
  ShardPlan plan;
  plan.id = std::string(id);
  plan.step = step;
  ZEROTH_ASSIGN_OR_RETURN(
      SafetensorsLayout layout,
      LayOutSafetensors("a shard of a checkpoint", Declarations(pieces),
                        {{"checkpoint", plan.id}, {"step", absl::StrCat(step)}}));
  plan.header = std::move(layout.header);
  const auto header_bytes = static_cast<int64_t>(plan.header.size());
  for (const StatePiece& piece : pieces) {
    plan.file_begins.push_back(header_bytes + layout.tensors.entries.at(TensorName(piece)).begin);
  }
  plan.file_bytes = header_bytes + layout.tensors.data_bytes;
  return plan;
}

absl::Status CopyShard(Device& device, absl::Span<const StatePiece> pieces, const ShardPlan& plan,
                       uint8_t* image) {
  std::memcpy(image, plan.header.data(), plan.header.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(
        CopyBlock(device, pieces[i], 0, pieces[i].bytes(), image + plan.file_begins[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointIndex> WriteShard(const ShardWriterOptions& options, Device& device,
                                           absl::Span<const StatePiece> pieces,
                                           const ShardPlan& plan) {
  return ShardFile(options, pieces, plan, nullptr, &device).Write();
}

absl::StatusOr<CheckpointIndex> WriteShardImage(const ShardWriterOptions& options,
                                                absl::Span<const StatePiece> pieces,
                                                const ShardPlan& plan, const uint8_t* image) {
  return ShardFile(options, pieces, plan, image, nullptr).Write();
}

}  // namespace zeroth
