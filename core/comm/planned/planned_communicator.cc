// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/planned/planned_communicator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/process/node.h"
#include "zeroth/core/device/planned/planned_device.h"

namespace zeroth {
namespace {

// Grows `buffer` to at least `bytes`. Frees the old buffer before it allocates the new one.
absl::Status Grow(std::shared_ptr<Buffer>& buffer, size_t bytes, Device& device,
                  MemoryCategory category = MemoryCategory::kCommunication) {
  if (buffer != nullptr && buffer->bytes() >= bytes) return absl::OkStatus();
  buffer.reset();
  ZEROTH_ASSIGN_OR_RETURN(buffer, device.allocator().Allocate(bytes, category));
  return absl::OkStatus();
}

// Records a collective's kernel that reads and writes `bytes`. Waiting for it counts as waiting for
// the collective.
void Pass(const char* label, size_t bytes, const Collective& collective, const Machine& machine,
          Stream& stream) {
  PlannedWork work{label, Resource::kCompute, static_cast<double>(bytes) / machine.memory_bandwidth,
                   machine.launch_seconds};
  work.collective = CollectiveOpName(collective.op).data();
  PlannedDevice::Add(stream, std::move(work));
}

// Returns the operation's field of a LinkRate; nullptr if it has none.
double LinkRate::*RateOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllGather:
      return &LinkRate::all_gather;
    case CollectiveOp::kReduceScatter:
      return &LinkRate::reduce_scatter;
    case CollectiveOp::kAllReduce:
      return &LinkRate::all_reduce;
    default:
      return nullptr;
  }
}

// Returns the bandwidth of a call of `bytes`, interpolated between the sizes around it.
double RateAt(const std::vector<LinkRate>& rates, double bytes, double LinkRate::*field) {
  const auto above = std::find_if(rates.begin(), rates.end(),
                                  [&](const LinkRate& rate) { return rate.bytes >= bytes; });
  if (above == rates.begin()) return rates.front().*field;
  if (above == rates.end()) return rates.back().*field;
  const LinkRate& below = *(above - 1);
  const double part = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return std::lerp(below.*field, (*above).*field, part);
}

bool Reduces(const Collective& collective) {
  return collective.op == CollectiveOp::kReduceScatter || collective.op == CollectiveOp::kAllReduce;
}

// True if NCCL's own reduction writes its sum to the destination.
bool InPlace(const Collective& collective) {
  return !collective.accumulate && collective.recv.dtype == collective.send.dtype;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlannedCommunicator>> PlannedCommunicator::CreateWorld(
    const Machine& machine, int size, int rank, const Options& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return InvalidArgument("rank ", rank, " of a world of ", size,
                           ", expected at least 1 rank, and one of them");
  }
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return std::unique_ptr<PlannedCommunicator>(
      new PlannedCommunicator(machine, std::move(members), rank, options));
}

PlannedCommunicator::PlannedCommunicator(const Machine& machine, std::vector<int> members, int rank,
                                         const Options& options)
    : machine_(machine), members_(std::move(members)), rank_(rank), options_(options) {
  const auto node_of = [&](int world_rank) { return world_rank / machine_.devices_per_node; };
  std::vector<std::string> nodes;
  for (const int member : members_) {
    nodes.push_back(absl::StrCat(node_of(member)));
    if (node_of(member) == node_of(world_rank())) ++local_;
  }
  nodes_ = static_cast<int>(std::set<std::string>(nodes.begin(), nodes.end()).size());
  grid_ = {rank_, size(), RanksPerNode(nodes)};
}

std::string PlannedCommunicator::name() const {
  return absl::StrCat("planned group of ", size(), " ranks");
}

absl::StatusOr<std::unique_ptr<Communicator>> PlannedCommunicator::Split(int color, int) {
  std::unique_ptr<Communicator> made;
  if (color >= 0) made.reset(new PlannedCommunicator(machine_, members_, rank_, options_));
  return made;
}

absl::StatusOr<std::unique_ptr<Communicator>> PlannedCommunicator::SplitInto(
    absl::Span<const int> members, int, bool) {
  const auto mine = std::find(members.begin(), members.end(), rank_);
  ZEROTH_CHECK(mine != members.end());
  std::vector<int> of_world;
  for (const int member : members) of_world.push_back(members_[static_cast<size_t>(member)]);
  return std::unique_ptr<Communicator>(new PlannedCommunicator(
      machine_, std::move(of_world), static_cast<int>(mine - members.begin()), options_));
}

double PlannedCommunicator::LinkBandwidth(const Collective& collective) const {
  double LinkRate::*const field = RateOf(collective.op);
  if (machine_.link_rates.empty() || nodes_ > 1 || field == nullptr) return machine_.link_bandwidth;
  const BufferView& full =
      collective.op == CollectiveOp::kAllGather ? collective.recv : collective.send;
  const double rate = RateAt(machine_.link_rates, static_cast<double>(ByteSize(full)), field);
  // A rank on CPUs copies its own piece as well, unless that is there.
  const bool copies_own = !machine_.is_gpu && collective.op == CollectiveOp::kAllGather &&
                          collective.send.data != Piece(full, rank_, collective.send.count).data;
  return copies_own ? rate * (size() - 1) / size() : rate;
}

PlannedCommunicator::Time PlannedCommunicator::TimeOf(const Collective& collective) const {
  Time time;
  const int ranks = size();
  if (ranks == 1) return time;
  const auto bytes = static_cast<double>(TrafficOf(collective));
  const bool twice = collective.op == CollectiveOp::kAllReduce;
  double inside = bytes;
  double outside = nodes_ == 1 ? 0 : bytes / local_;
  if (collective.op == CollectiveOp::kAllToAll ||
      (options_.reduces_by_exchange && Reduces(collective))) {
    // Each piece goes straight to its receiver. The second half of an all-reduce is a ring.
    const double ring_bytes = twice ? bytes / 2 : 0;
    const double direct = bytes - ring_bytes;
    const double piece = direct / (ranks - 1);
    double near = piece * (local_ - 1);
    double far = piece * (ranks - local_);
    if (grid_.has_two_levels() && Reduces(collective)) {
      near = piece * (local_ - 1) * nodes_;
      const DType dtype = collective.send.dtype;
      far = piece * (nodes_ - 1) * static_cast<double>(SizeOf(SumType(dtype))) /
            static_cast<double>(SizeOf(dtype));
    }
    inside = near + ring_bytes;
    outside = nodes_ == 1 ? 0 : far + ring_bytes / local_;
  }
  const double by_link = local_ == 1 ? 0 : inside / LinkBandwidth(collective);
  const double by_network = nodes_ == 1 ? 0 : outside / machine_.network_bandwidth;
  time.seconds = std::max(by_link, by_network);
  time.crosses_nodes = by_network > by_link;
  time.bytes_across = outside;
  const double steps = twice ? 2 : 1;
  const double ring = steps * ((ranks - nodes_) * machine_.link_latency +
                               (nodes_ > 1 ? nodes_ - 1 : 0) * machine_.network_latency);
  const double tree = steps * (std::ceil(std::log2(local_)) * machine_.link_latency +
                               std::ceil(std::log2(nodes_)) * machine_.network_latency);
  const bool may_take_tree =
      collective.op != CollectiveOp::kAllGather && collective.op != CollectiveOp::kReduceScatter;
  time.latency = may_take_tree ? std::min(ring, tree) : ring;
  return time;
}

size_t PlannedCommunicator::ScratchOf(const Collective& collective) const {
  if (!Reduces(collective)) return 0;
  const size_t element = SizeOf(collective.send.dtype);
  const bool scatters = collective.op == CollectiveOp::kReduceScatter;
  switch (options_.reduction) {
    case Options::Reduction::kWithoutScratch:
      return 0;
    case Options::Reduction::kTree: {
      const Pieces pieces = scatters ? Pieces{collective.recv.count, collective.send.count}
                                     : Pieces::OfLines(collective.recv, size());
      if (grid_.has_two_levels()) {
        return TwoLevelReduction::ScratchBytes(grid_, pieces, collective.send.dtype,
                                               LimitsInOrder(grid_));
      }
      return static_cast<size_t>(pieces.piece * (size() - 1)) * element;
    }
    case Options::Reduction::kLibrary:
      return InPlace(collective) ? 0 : static_cast<size_t>(collective.recv.count) * element;
  }
  return 0;
}

absl::Status PlannedCommunicator::Before(const Collective& collective, const Parts& parts,
                                         bool starts, Stream& stream) {
  const bool scatters = collective.op == CollectiveOp::kReduceScatter;
  const auto bytes_of = [](const BufferView& buffer, int64_t most) {
    return static_cast<size_t>(std::min(buffer.count, most)) * SizeOf(buffer.dtype);
  };
  // A unit's buffer lives until the next unit's collective.
  if (options_.copies_in_and_out && scatters) {
    const BufferView& send = collective.send;
    reduce_buffer_.reset();
    if (options_.reduce_bucket > 0) {
      const auto bucket = static_cast<size_t>(options_.reduce_bucket) * SizeOf(send.dtype);
      ZEROTH_RETURN_IF_ERROR(
          Grow(reduce_bucket_, bucket, stream.device(), MemoryCategory::kGradients));
    }
    const int64_t most = options_.reduce_bucket > 0 ? options_.reduce_bucket : send.count;
    ZEROTH_RETURN_IF_ERROR(Grow(reduce_buffer_, bytes_of(send, most), stream.device()));
    Pass("copy into a reduce buffer", 2 * ByteSize(send), collective, machine_, stream);
  }
  if (options_.copies_in_and_out && collective.op == CollectiveOp::kAllGather) {
    gather_buffer_.reset();
    ZEROTH_RETURN_IF_ERROR(
        Grow(gather_buffer_, bytes_of(collective.recv, parts.elements), stream.device()));
  }
  if (starts) staged_bytes_ = 0;
  const size_t scratch = ScratchOf(collective);
  staged_bytes_ += scratch;
  if (grid_.has_two_levels() && options_.reduction == Options::Reduction::kTree) {
    const auto most = static_cast<size_t>(LimitsInOrder(grid_).scratch_bytes);
    staged_bytes_ = std::max(scratch, std::min(staged_bytes_, most));
  }
  return staged_bytes_ == 0 ? absl::OkStatus() : Grow(staging_, staged_bytes_, stream.device());
}

void PlannedCommunicator::After(const Collective& collective, Stream& stream) {
  // The root's reduction is the last of a backward, which waits for it and frees its buffer.
  const bool is_gather = collective.op == CollectiveOp::kAllGather;
  if (collective.call.label == "root" && !is_gather) reduce_buffer_.reset();
  if (options_.reduction == Options::Reduction::kTree && Reduces(collective)) {
    int64_t bytes = ByteSize(collective.send);
    // The sums of nodes are written and read.
    if (grid_.has_two_levels()) {
      const DType sum_type = SumType(collective.send.dtype);
      bytes += 2 * collective.send.count / grid_.per_node * static_cast<int64_t>(SizeOf(sum_type));
    }
    Pass("sum over ranks", static_cast<size_t>(bytes), collective, machine_, stream);
  }
  const bool finishes = !InPlace(collective) || collective.call.reduce == ReduceOp::kMean;
  if (options_.reduction == Options::Reduction::kLibrary && Reduces(collective) && finishes) {
    const auto sum = static_cast<size_t>(collective.recv.count) * SizeOf(collective.send.dtype);
    const size_t stored = ByteSize(collective.recv) * (collective.accumulate ? 2 : 1);
    Pass("finish of a sum over ranks", sum + stored, collective, machine_, stream);
  }
  if (options_.copies_in_and_out && is_gather) {
    Pass("copy out of a gather buffer", 2 * ByteSize(collective.recv), collective, machine_,
         stream);
  }
}

absl::Status PlannedCommunicator::Enqueue(absl::Span<Collective> collectives,
                                          const absl::Status& checked, Stream& stream) {
  ZEROTH_RETURN_IF_ERROR(status_);
  if (!checked.ok()) {
    Break(Annotate(checked, Describe(collectives.front().call)));
    return status_;
  }
  for (const Collective& collective : collectives) {
    const bool starts = &collective == &collectives.front() || !options_.calls_together;
    ZEROTH_RETURN_IF_ERROR(EnqueueOne(collective, starts, stream));
  }
  return absl::OkStatus();
}

absl::Status PlannedCommunicator::EnqueueOne(const Collective& collective, bool starts,
                                             Stream& stream) {
  Count(collective);
  Parts parts;
  if (size() > 1 && options_.parts) parts = options_.parts(collective);
  if (size() > 1) ZEROTH_RETURN_IF_ERROR(Before(collective, parts, starts, stream));
  const Time time = TimeOf(collective);
  PlannedWork work;
  work.label = absl::StrCat(collective.call.operation, " of ", collective.call.label);
  work.resource = !machine_.is_gpu && nodes_ == 1 ? Resource::kCompute
                  : time.crosses_nodes            ? Resource::kNetwork
                                                  : Resource::kLink;
  work.seconds = time.seconds;
  work.collective = CollectiveOpName(collective.op).data();
  work.bytes = TrafficOf(collective);
  work.bytes_across = static_cast<int64_t>(time.bytes_across);
  work.by_copy_engine =
      options_.gathers_by_copy_engine && nodes_ == 1 && collective.op == CollectiveOp::kAllGather;
  const bool waits = starts || work.by_copy_engine;
  work.latency = waits ? parts.collectives * time.latency : 0;
  PlannedDevice::Add(stream, std::move(work));
  if (size() > 1) After(collective, stream);
  return absl::OkStatus();
}

}  // namespace zeroth
