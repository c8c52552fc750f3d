// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/collective.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kCacheLine = 64;

absl::Status CheckView(const BufferView& view, absl::string_view name) {
  if (view.count < 0) {
    return InvalidArgument(name, ".count is ", view.count);
  }
  if (view.count > 0 && view.data == nullptr) {
    return InvalidArgument(name, ".data is null for ", view.count, " elements");
  }
  return absl::OkStatus();
}

// Checks that `whole` holds one `piece` per rank.
absl::Status CheckPieces(const BufferView& whole, absl::string_view whole_name,
                         const BufferView& piece, absl::string_view piece_name, int size) {
  if (whole.count % size == 0 && whole.count / size == piece.count) return absl::OkStatus();
  return InvalidArgument(whole_name, ".count is ", whole.count, ", expected ", piece_name,
                         ".count * size = ", piece.count, " * ", size);
}

bool Overlap(const BufferView& a, const BufferView& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data);
  const auto a_end = a_begin + static_cast<uintptr_t>(ByteSize(a));
  const auto b_end = b_begin + static_cast<uintptr_t>(ByteSize(b));
  return a.count > 0 && b.count > 0 && a_begin < b_end && b_begin < a_end;
}

absl::Status CheckReduceOp(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kMean && !IsFloatingPoint(dtype)) {
    return InvalidArgument("mean of ", DTypeName(dtype),
                           " is not defined; use sum or max, or a floating-point type");
  }
  return absl::OkStatus();
}

// A reduction is computed in fp32, so it can be delivered unrounded to an fp32 buffer.
absl::Status CheckReductionDTypes(const BufferView& send, const BufferView& recv) {
  if (recv.dtype == send.dtype) return absl::OkStatus();
  if (IsFloatingPoint(send.dtype) && recv.dtype == DType::kFloat32) return absl::OkStatus();
  return InvalidArgument("recv is ", DTypeName(recv.dtype), " and send is ", DTypeName(send.dtype),
                         ": recv must have send's type, or be fp32 for a floating-point send");
}

absl::Status CheckAccumulate(const BufferView& send, const BufferView& recv, ReduceOp op) {
  if (recv.dtype != DType::kFloat32) {
    return InvalidArgument("accumulate needs an fp32 recv, got ", DTypeName(recv.dtype));
  }
  if (op == ReduceOp::kMax) {
    return absl::InvalidArgumentError("accumulate is not defined for max; use sum or mean");
  }
  if (Overlap(send, recv)) {
    return absl::InvalidArgumentError(
        "accumulate needs a recv outside send: in place it would add this rank's input twice");
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const BufferView& view, absl::Span<const int64_t> counts,
                         absl::string_view name, int size) {
  const bool any_negative =
      std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count < 0; });
  if (counts.size() == static_cast<size_t>(size) && !any_negative &&
      std::accumulate(counts.begin(), counts.end(), int64_t{0}) == view.count) {
    return absl::OkStatus();
  }
  return InvalidArgument(name, "_counts are [", absl::StrJoin(counts, ", "),
                         "], expected one of at least ", "0 for each of ", size, " ranks, ",
                         view.count, " together");
}

}  // namespace

std::string CollectiveCall::ToString() const {
  std::string text(operation);
  if (!label.empty()) absl::StrAppend(&text, " '", label, "'");
  absl::StrAppend(&text, " (call ", index + 1);
  if (dtype.has_value() && count == kUnevenCount) {
    absl::StrAppend(&text, ", uneven pieces of ", DTypeName(*dtype));
  } else if (dtype.has_value()) {
    absl::StrAppend(&text, ", ", count, " x ", DTypeName(*dtype));
  }
  if (reduce.has_value()) absl::StrAppend(&text, ", ", ReduceOpName(*reduce));
  if (root.has_value()) absl::StrAppend(&text, ", root ", *root);
  return absl::StrCat(text, ")");
}

int64_t ByteSize(const BufferView& view) {
  return view.count * static_cast<int64_t>(SizeOf(view.dtype));
}

std::vector<CollectiveCall> CallsOf(absl::Span<const Collective> collectives) {
  std::vector<CollectiveCall> calls;
  calls.reserve(collectives.size());
  for (const Collective& collective : collectives) calls.push_back(collective.call);
  return calls;
}

BufferView Range(const BufferView& view, int64_t begin, int64_t count) {
  // An empty buffer may be null, on which pointer arithmetic is undefined.
  if (count == 0) return BufferView(view.data, 0, view.dtype);
  const int64_t offset = begin * static_cast<int64_t>(SizeOf(view.dtype));
  return BufferView(static_cast<char*>(view.data) + offset, count, view.dtype);
}

BufferView Piece(const BufferView& view, int64_t piece, int64_t count) {
  return Range(view, piece * count, count);
}

Pieces Pieces::OfLines(const BufferView& buffer, int size) {
  const int64_t line = kCacheLine / static_cast<int64_t>(SizeOf(buffer.dtype));
  const int64_t lines = (buffer.count + line - 1) / line;
  return {(lines + size - 1) / size * line, buffer.count};
}

absl::Status CheckAllGather(const BufferView& send, const BufferView& recv, int rank, int size) {
  ZEROTH_RETURN_IF_ERROR(CheckView(send, "send"));
  ZEROTH_RETURN_IF_ERROR(CheckView(recv, "recv"));
  if (send.dtype != recv.dtype) {
    return InvalidArgument("send is ", DTypeName(send.dtype), " and recv is ",
                           DTypeName(recv.dtype), ": both must have one type");
  }
  ZEROTH_RETURN_IF_ERROR(CheckPieces(recv, "recv", send, "send", size));
  if (Overlap(send, recv) && send.data != Piece(recv, rank, send.count).data) {
    return InvalidArgument("send overlaps recv but is not its slice ", rank,
                           ", which in place would be");
  }
  return absl::OkStatus();
}

absl::Status CheckReduceScatter(const BufferView& send, const BufferView& recv, ReduceOp op,
                                bool accumulate, int rank, int size) {
  ZEROTH_RETURN_IF_ERROR(CheckView(send, "send"));
  ZEROTH_RETURN_IF_ERROR(CheckView(recv, "recv"));
  ZEROTH_RETURN_IF_ERROR(CheckReductionDTypes(send, recv));
  ZEROTH_RETURN_IF_ERROR(CheckPieces(send, "send", recv, "recv", size));
  ZEROTH_RETURN_IF_ERROR(CheckReduceOp(send.dtype, op));
  if (accumulate) ZEROTH_RETURN_IF_ERROR(CheckAccumulate(send, recv, op));
  const bool in_place = send.dtype == recv.dtype && recv.data == Piece(send, rank, recv.count).data;
  if (Overlap(send, recv) && !in_place) {
    return InvalidArgument("recv overlaps send but is not its slice ", rank,
                           ", which in place would be");
  }
  return absl::OkStatus();
}

absl::Status CheckAllReduce(const BufferView& buffer, ReduceOp op) {
  ZEROTH_RETURN_IF_ERROR(CheckView(buffer, "buffer"));
  return CheckReduceOp(buffer.dtype, op);
}

BufferView PieceOf(const BufferView& view, absl::Span<const int64_t> counts, int piece, int size) {
  if (counts.empty()) return Piece(view, piece, view.count / size);
  const auto first = counts.begin();
  return Range(view, std::accumulate(first, first + piece, int64_t{0}),
               counts[static_cast<size_t>(piece)]);
}

absl::Status CheckAllToAll(const BufferView& send, const BufferView& recv, int size,
                           const AllToAllCounts& counts) {
  ZEROTH_RETURN_IF_ERROR(CheckView(send, "send"));
  ZEROTH_RETURN_IF_ERROR(CheckView(recv, "recv"));
  if (recv.dtype != send.dtype) {
    return InvalidArgument("send is ", DTypeName(send.dtype), " and recv is ",
                           DTypeName(recv.dtype), ", expected one type");
  }
  if (counts.uneven()) {
    ZEROTH_RETURN_IF_ERROR(CheckCounts(send, counts.send, "send", size));
    ZEROTH_RETURN_IF_ERROR(CheckCounts(recv, counts.recv, "recv", size));
  } else if (send.count != recv.count || send.count % size != 0) {
    return InvalidArgument("send.count is ", send.count, " and recv.count ", recv.count,
                           ", expected the same multiple of size = ", size);
  }
  if (Overlap(send, recv)) {
    return absl::InvalidArgumentError("recv overlaps send; an all-to-all is not in place");
  }
  return absl::OkStatus();
}

absl::Status CheckBroadcast(const BufferView& buffer, int root, int size) {
  ZEROTH_RETURN_IF_ERROR(CheckView(buffer, "buffer"));
  if (root >= 0 && root < size) return absl::OkStatus();
  return InvalidArgument("root is ", root, ", expected a rank in [0, ", size, ")");
}

}  // namespace zeroth
