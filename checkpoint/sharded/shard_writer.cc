// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/shard_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/checkpoint/safetensors_writer.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_host_copy.h"

namespace zeroth {
namespace {

// Has all of the parameter's elements, so that its shape fits.
bool IsWhole(const StatePiece& piece) {
  return piece.block == 1 && piece.numel() == piece.shape.numel();
}

// What the tensor is called inside the file; for people, since the index says where it lies.
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

absl::StatusOr<CheckpointPiece> WritePiece(const ShardWriterOptions& options,
                                           const StatePiece& piece, size_t index,
                                           const PieceReader& reader, SafetensorsWriter& writer) {
  const std::string name = TensorName(piece);
  CheckpointPiece written;
  written.begin = piece.begin;
  written.end = piece.end;
  ZEROTH_ASSIGN_OR_RETURN(written.file_begin, writer.FileOffset(name));
  const int64_t bytes = piece.bytes();
  for (int64_t begin = 0; begin < bytes; begin += options.block_bytes) {
    const int64_t count = std::min(options.block_bytes, bytes - begin);
    ZEROTH_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> block, reader(index, begin, count));
    written.checksums.push_back(ChecksumOf(block));
    ZEROTH_RETURN_IF_ERROR(writer.WriteBytes(name, begin, block));
    if (options.progress != nullptr) options.progress->fetch_add(count);
  }
  return written;
}

}  // namespace

std::string ShardFileName(int rank, int world_size) {
  return absl::StrFormat("rank-%05d-of-%05d.safetensors", rank, world_size);
}

PieceReader DeviceReader(Device& device, absl::Span<const StatePiece> pieces) {
  auto staging = std::make_shared<std::vector<uint8_t>>();
  return [&device, pieces, staging](size_t index, int64_t begin,
                                    int64_t count) -> absl::StatusOr<absl::Span<const uint8_t>> {
    const StatePiece& piece = pieces[index];
    const auto size = static_cast<int64_t>(SizeOf(piece.shard.dtype()));
    staging->resize(static_cast<size_t>(count));
    ZEROTH_RETURN_IF_ERROR(CopyStateToHost(device, piece.shard, piece.shard_begin + begin / size,
                                           count / size, staging->data()));
    return absl::MakeConstSpan(*staging);
  };
}

absl::StatusOr<CheckpointIndex> WriteShard(const ShardWriterOptions& options,
                                           absl::Span<const StatePiece> pieces,
                                           const PieceReader& reader) {
  CheckpointIndex index;
  index.id = options.id;
  index.step = options.step;
  index.block_bytes = options.block_bytes;
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(
          absl::StrCat(options.directory, "/", options.file), Declarations(pieces),
          {{"checkpoint", options.id}, {"step", absl::StrCat(options.step)}}));
  CheckpointFile file;
  file.name = options.file;
  file.header_bytes = static_cast<int64_t>(writer->header().size());
  file.header_checksum = ChecksumOf(writer->header());
  file.bytes = file.header_bytes;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const StatePiece& piece = pieces[i];
    file.bytes += piece.bytes();
    CheckpointParameter& parameter = index.parameters[piece.parameter];
    parameter.shape = piece.shape;
    CheckpointTensor& tensor = parameter.states[piece.state];
    tensor.block = piece.block;
    tensor.dtype = ToSafetensorsDType(piece.shard.dtype());
    ZEROTH_ASSIGN_OR_RETURN(CheckpointPiece written,
                            WritePiece(options, piece, i, reader, *writer));
    tensor.pieces.push_back(std::move(written));
  }
  ZEROTH_RETURN_IF_ERROR(writer->Finish());
  index.files.push_back(std::move(file));
  return index;
}

}  // namespace zeroth
