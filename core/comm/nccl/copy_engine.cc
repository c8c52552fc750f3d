// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/copy_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/comm/process/messages.h"

namespace zeroth::nccl {
namespace {

// The first release of NCCL with CTA policy zero and copy-engine collectives.
constexpr int kFirstVersion = 22800;
// The first driver with batches of copies and of waits for memory, which those collectives use.
constexpr int kFirstDriver = 12050;

std::string NcclVersion(int code) {
  return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

std::string CudaVersion(int code) { return absl::StrCat(code / 1000, ".", code % 1000 / 10); }

std::string ObstacleOfRank(const RankCapabilities& rank) {
  if (rank.compiled_version < kFirstVersion) {
    return absl::StrCat("was built with the header of NCCL ", NcclVersion(rank.compiled_version),
                        ", expected 2.28 or newer");
  }
  if (rank.library_version < kFirstVersion) {
    return absl::StrCat("runs NCCL ", NcclVersion(rank.library_version),
                        ", expected 2.28 or newer");
  }
  if (rank.driver_version < kFirstDriver) {
    return absl::StrCat("has a driver for CUDA ", CudaVersion(rank.driver_version),
                        ", expected 12.5 or newer");
  }
  if (!rank.memory_error.empty()) {
    return absl::StrCat("has no memory to register: ", rank.memory_error);
  }
  return "";
}

absl::Status Refuse(absl::string_view obstacle) {
  return absl::FailedPreconditionError(
      absl::StrCat("nccl_copy_engine is on, but ", obstacle,
                   "; use --nccl_copy_engine=auto to fall back to NCCL kernels, or fix the cause"));
}

}  // namespace

std::string RankCapabilities::Serialize() const {
  WireWriter writer;
  writer.String(mode).String(host).String(boot).I32(compiled_version).I32(library_version);
  writer.I32(driver_version).String(memory_error);
  return writer.bytes();
}

absl::StatusOr<RankCapabilities> RankCapabilities::Parse(absl::string_view bytes) {
  WireReader reader(bytes);
  RankCapabilities capabilities;
  capabilities.mode = reader.String();
  capabilities.host = reader.String();
  capabilities.boot = reader.String();
  capabilities.compiled_version = reader.I32();
  capabilities.library_version = reader.I32();
  capabilities.driver_version = reader.I32();
  capabilities.memory_error = reader.String();
  if (!reader.IsComplete()) return absl::InternalError("a rank's NCCL capabilities are garbled");
  return capabilities;
}

absl::StatusOr<CopyEnginePlan> CopyEnginePlan::Make(std::vector<RankCapabilities> ranks) {
  CopyEnginePlan plan;
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].mode == ranks[0].mode) continue;
    return absl::InvalidArgumentError(absl::StrCat("nccl_copy_engine is ", ranks[0].mode,
                                                   " on rank 0 and ", ranks[i].mode, " on rank ", i,
                                                   "; give all ranks the same"));
  }
  if (ranks.size() < 2 || ranks[0].mode == "off") return plan;
  for (size_t i = 0; i < ranks.size() && plan.obstacle_.empty(); ++i) {
    const std::string obstacle = ObstacleOfRank(ranks[i]);
    if (!obstacle.empty()) plan.obstacle_ = absl::StrCat("rank ", i, " ", obstacle);
  }
  if (ranks[0].mode == "on" && !plan.obstacle_.empty()) return Refuse(plan.obstacle_);
  plan.ranks_ = std::move(ranks);
  return plan;
}

std::string CopyEnginePlan::ObstacleOf(const std::vector<int>& world_ranks) const {
  if (!obstacle_.empty()) return obstacle_;
  const RankCapabilities& first = ranks_[static_cast<size_t>(world_ranks.front())];
  for (const int rank : world_ranks) {
    const RankCapabilities& other = ranks_[static_cast<size_t>(rank)];
    if (other.host == first.host && other.boot == first.boot) continue;
    return absl::StrCat("rank ", world_ranks.front(), " is on ", first.host, " and rank ", rank,
                        " on ",
                        other.host == first.host ? "another machine of that name" : other.host,
                        ", and copy engines reach no other machine");
  }
  return "";
}

bool CopyEnginePlan::Registers(const std::vector<int>& world_ranks) const {
  return !ranks_.empty() && world_ranks.size() > 1 && ObstacleOf(world_ranks).empty();
}

absl::StatusOr<bool> CopyEnginePlan::GathersByCopyEngine(
    const std::vector<int>& world_ranks) const {
  if (ranks_.empty() || world_ranks.size() < 2) return false;
  const std::string obstacle = ObstacleOf(world_ranks);
  if (!obstacle.empty() && ranks_[0].mode == "on") return Refuse(obstacle);
  return obstacle.empty();
}

std::string CopyEnginePlan::Note(const std::vector<int>& world_ranks) const {
  if (ranks_.empty() || world_ranks.size() < 2) return "";
  const std::string obstacle = ObstacleOf(world_ranks);
  if (!obstacle.empty()) return absl::StrCat("by NCCL's kernels: ", obstacle);
  return absl::StrCat("by copy engines (NCCL ", NcclVersion(ranks_[0].library_version),
                      ", registered memory) if NVLink connects the ", world_ranks.size(),
                      " devices, otherwise by NCCL's kernels");
}

}  // namespace zeroth::nccl
