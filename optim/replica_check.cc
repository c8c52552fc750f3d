// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/replica_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/comm/ranks_text.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {
namespace {

constexpr char kLabel[] = "compare replicas";
// State outside of the host's memory is copied there in pieces of this size.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

// One rank's hash of one piece of state, as it is sent. Entries with equal `of` and `owner` must
// have equal hashes.
struct Entry {
  uint64_t of = 0;     // identifies the unit, the segment, and the kind of state
  uint64_t owner = 0;  // this rank's index on the axes over which ranks hold different elements
  uint64_t hash = 0;
};

// An entry, and its description for messages.
struct Subject {
  Entry entry;
  std::string text;
};

absl::StatusOr<uint64_t> HashOf(const StateTensor& state, Device& device) {
  ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
  if (!state.is_offloaded() && device.MemoryIsHost()) {
    const Tensor& tensor = state.tensor();
    return ChecksumOf(absl::MakeConstSpan(static_cast<const uint8_t*>(tensor.raw_data()),
                                          static_cast<size_t>(tensor.bytes())));
  }
  const auto element = static_cast<int64_t>(SizeOf(state.dtype()));
  const int64_t most = std::min(state.numel(), kPieceBytes / element);
  std::vector<uint8_t> host(static_cast<size_t>(most * element));
  ChecksumStream sum;
  for (int64_t begin = 0; begin < state.numel(); begin += most) {
    const int64_t count = std::min(most, state.numel() - begin);
    ZEROTH_RETURN_IF_ERROR(CopyStateToHost(device, state, begin, count, host.data()));
    sum.Add(absl::MakeConstSpan(host).subspan(0, static_cast<size_t>(count * element)));
  }
  return sum.Value();
}

std::string Parameters(const Unit& unit, int segment) {
  const std::vector<int>& indices = unit.segment_layout(segment).parameters;
  if (indices.empty()) return "";
  return absl::StrCat(" (", unit.parameter(indices[0]).name(),
                      indices.size() == 1 ? "" : absl::StrCat(" and ", indices.size() - 1, " more"),
                      ")");
}

// Adds the hash of `state` to `subjects`. `part` distinguishes states of one name. `owners` are the
// axes over which ranks hold different elements.
absl::Status Add(Sharding& sharding, const Unit& unit, int segment, const std::string& what,
                 int64_t part, const Mesh::Axes& owners, const StateTensor& state,
                 std::vector<Subject>& subjects) {
  if (state.numel() == 0) return absl::OkStatus();
  Subject subject;
  subject.entry.of = ChecksumOf(absl::StrCat(unit.index(), " ", segment, " ", part, " ", what));
  subject.entry.owner = static_cast<uint64_t>(sharding.mesh().index(owners));
  ZEROTH_ASSIGN_OR_RETURN(subject.entry.hash, HashOf(state, sharding.device()));
  subject.text = absl::StrCat("unit '", unit.name(), "', its ", what, Parameters(unit, segment));
  subjects.push_back(std::move(subject));
  return absl::OkStatus();
}

// Adds the parameters' shards and `states`, which ranks keep between steps.
absl::Status AddKept(Sharding& sharding, absl::Span<const ShardState> states,
                     std::vector<Subject>& subjects) {
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      ZEROTH_RETURN_IF_ERROR(Add(sharding, *unit, i, "parameters", 0, unit->OwnerAxes(i),
                                 unit->ShardState(i), subjects));
    }
  }
  for (const ShardState& state : states) {
    ZEROTH_RETURN_IF_ERROR(Add(sharding, *state.unit, state.segment,
                               absl::StrCat("state '", state.name, "'"), state.begin,
                               state.unit->OwnerAxes(state.segment), state.shard, subjects));
  }
  return absl::OkStatus();
}

// Gathers each unit, and adds its full parameters, unless these are kept in full anyway.
absl::Status AddGathered(Sharding& sharding, std::vector<Subject>& subjects) {
  Scheduler& scheduler = sharding.scheduler();
  for (Unit* unit : sharding.units()) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*unit, /*expects_backward=*/false));
    for (int i = 0; i < unit->segment_count(); ++i) {
      if (unit->is_full(i)) continue;
      // Tensor parallel parts stay divided; all other axes are gathered.
      Mesh::Axes parts = unit->OwnerAxes(i);
      const Mesh::Axes& gathered = unit->mesh().owner_axes();
      std::erase_if(parts, [&](int axis) { return std::ranges::count(gathered, axis) > 0; });
      ZEROTH_RETURN_IF_ERROR(Add(sharding, *unit, i, "gathered parameters", 0, parts,
                                 unit->segment(i).full, subjects));
    }
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*unit, /*expects_backward=*/false));
  }
  return scheduler.EndStep();
}

// All-gathers the entries, in the order of ranks. Ranks with fewer entries than others pad with
// zeros.
absl::StatusOr<std::vector<Entry>> Exchange(Sharding& sharding,
                                            const std::vector<Subject>& subjects) {
  Communicator& world = sharding.mesh().world();
  Device& device = sharding.device();
  Stream& stream = device.compute_stream();
  const auto mine = static_cast<int32_t>(subjects.size());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor most, Tensor::FromHost<int32_t>(
                                                 device, Shape({1}), absl::MakeConstSpan(&mine, 1),
                                                 MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(world.AllReduce(most, ReduceOp::kMax, stream, kLabel));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> counts, most.ToHost<int32_t>());
  std::vector<Entry> entries(static_cast<size_t>(counts[0]));
  for (size_t i = 0; i < subjects.size(); ++i) entries[i] = subjects[i].entry;
  const auto size = static_cast<int64_t>(entries.size() * sizeof(Entry));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor send,
                          Tensor::FromHost<uint8_t>(
                              device, Shape({size}),
                              absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(entries.data()),
                                                  static_cast<size_t>(size)),
                              MemoryCategory::kCommunication));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor recv,
                          Tensor::Empty(device, Shape({size * world.size()}), DType::kUInt8,
                                        MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(world.AllGather(send, recv, stream, kLabel));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, recv.ToHost<uint8_t>());
  entries.resize(bytes.size() / sizeof(Entry));
  if (!bytes.empty()) std::memcpy(entries.data(), bytes.data(), bytes.size());
  return entries;
}

// Returns the error for state that ranks should hold alike; `by_hash` lists the ranks of each hash.
absl::Status Differ(const std::string& text, const std::map<uint64_t, std::vector<int>>& by_hash) {
  size_t all = 0;
  const std::vector<int>* most = &by_hash.begin()->second;
  for (const auto& [hash, ranks] : by_hash) {
    all += ranks.size();
    if (ranks.size() > most->size()) most = &ranks;
  }
  std::vector<int> odd;
  std::vector<std::string> values;
  for (const auto& [hash, ranks] : by_hash) {
    if (&ranks != most) odd.insert(odd.end(), ranks.begin(), ranks.end());
    values.push_back(absl::StrCat(ChecksumText(hash), " on ", RanksText(ranks)));
  }
  std::sort(odd.begin(), odd.end());
  const std::string verdict =
      2 * most->size() > all ? absl::StrCat(RanksText(odd), odd.size() == 1 ? " has" : " have",
                                            " other bits than ", RanksText(*most))
                             : "no value is most ranks', so that it is not known which is right";
  return absl::DataLossError(absl::StrCat("replicas differ in ", text, ": ", verdict,
                                          " (hashes: ", absl::StrJoin(values, "; "),
                                          "); memory, a processor or a link has failed in silence, "
                                          "or code on one rank has changed what all must share"));
}

// Returns the error for this rank's first entry whose hash differs on another rank.
absl::Status Compare(const std::vector<Subject>& subjects, const std::vector<Entry>& all,
                     int ranks) {
  // Ranks list their entries in one order, but need not have the same ones.
  std::map<std::pair<uint64_t, uint64_t>, std::map<uint64_t, std::vector<int>>> values;
  const size_t of_rank = all.size() / static_cast<size_t>(ranks);
  for (size_t i = 0; i < all.size(); ++i) {
    values[{all[i].of, all[i].owner}][all[i].hash].push_back(static_cast<int>(i / of_rank));
  }
  for (const Subject& subject : subjects) {
    const auto& by_hash = values.at({subject.entry.of, subject.entry.owner});
    if (by_hash.size() > 1) return Differ(subject.text, by_hash);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReplicas(Sharding& sharding, absl::Span<const ShardState> states) {
  Communicator& world = sharding.mesh().world();
  if (world.size() == 1) return absl::OkStatus();
  std::vector<Subject> subjects;
  ZEROTH_RETURN_IF_ERROR(AddKept(sharding, states, subjects));
  ZEROTH_RETURN_IF_ERROR(AddGathered(sharding, subjects));
  ZEROTH_ASSIGN_OR_RETURN(const auto all, Exchange(sharding, subjects));
  return AgreeOnStatus(world, sharding.device(), Compare(subjects, all, world.size()), kLabel);
}

}  // namespace zeroth
