// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/sharding.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/strategies/replica_slices.h"

namespace zeroth {
namespace {

// Host staging of Load and VisitShards: large enough to amortise a call, small compared with
// shards.
constexpr int64_t kStagingNumel = int64_t{1} << 20;

// The axes "replicate" and "shard" of the mesh.
const Mesh::Axes kDataAxes = {0, 1};

// Reads elements [begin, begin + out.size()) of this rank's part of a parameter.
absl::Status ReadRuns(const Parameter& parameter, int64_t begin, const ParameterReader& reader,
                      absl::Span<float> out) {
  for (const ElementRun& run : parameter.GlobalRuns(begin, static_cast<int64_t>(out.size()))) {
    ZEROTH_RETURN_IF_ERROR(reader(
        parameter, run.global_begin,
        out.subspan(static_cast<size_t>(run.begin - begin), static_cast<size_t>(run.numel))));
  }
  return absl::OkStatus();
}

// Sets this rank's piece of a parameter, in place if the host may write its floats, or through
// `staging`.
absl::Status LoadPiece(const Unit& unit, const Parameter& parameter,
                       const ShardLayout::Piece& piece, const ParameterReader& reader,
                       std::vector<float>& staging) {
  const StateTensor shard = unit.ShardState(unit.segment_of(piece.parameter));
  if (piece.numel() > 0 && !shard.is_offloaded() && shard.dtype() == DType::kFloat32 &&
      unit.device().MemoryIsHost()) {
    ZEROTH_RETURN_IF_ERROR(unit.device().compute_stream().Synchronize());
    const Tensor values = unit.ShardView(piece);
    return ReadRuns(parameter, piece.begin, reader,
                    absl::MakeSpan(values.data<float>(), static_cast<size_t>(piece.numel())));
  }
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    staging.resize(static_cast<size_t>(std::min(kStagingNumel, piece.numel() - done)));
    ZEROTH_RETURN_IF_ERROR(
        ReadRuns(parameter, piece.begin + done, reader, absl::MakeSpan(staging)));
    ZEROTH_RETURN_IF_ERROR(
        SetFromHostFloats(unit.device(), staging, shard, piece.shard_offset + done));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sharding>> Sharding::Create(Communicator& world, Device& device,
                                                           const ShardingOptions& options,
                                                           std::vector<UnitSpec> units) {
  std::unique_ptr<Sharding> sharding(new Sharding);
  sharding->device_ = &device;
  const StrategyOptions& strategy_options = options.strategy_options;
  ZEROTH_ASSIGN_OR_RETURN(sharding->strategy_,
                          StrategyRegistry::Create(options.strategy, strategy_options));
  const ShardingStrategy& strategy = *sharding->strategy_;
  for (UnitSpec& spec : units) {
    if (spec.collectives == nullptr) spec.collectives = options.collectives;
  }
  ZEROTH_ASSIGN_OR_RETURN(const int data_parallel_size, DataParallelSize(options, world.size()));
  ZEROTH_RETURN_IF_ERROR(Validate(options, units, strategy, data_parallel_size));
  ZEROTH_ASSIGN_OR_RETURN(const int shard_size,
                          ShardSizeOf(strategy, strategy_options, data_parallel_size));
  // In the order of kDataAxes.
  std::vector<MeshAxis> axes = {{kReplicateAxis, data_parallel_size / shard_size},
                                {kShardAxis, shard_size}};
  axes.insert(axes.end(), options.inner_axes.begin(), options.inner_axes.end());
  ZEROTH_ASSIGN_OR_RETURN(sharding->mesh_, Mesh::Create(world, std::move(axes)));
  for (const UnitSpec& spec : units) {
    ZEROTH_RETURN_IF_ERROR_WITH(sharding->CreateView(spec.axes, strategy_options),
                                absl::StrCat("unit '", spec.name, "'"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Mesh::Axes> part_axes, sharding->PartAxes(units));
  ZEROTH_RETURN_IF_ERROR(sharding->CreateStatisticsGroup(part_axes));
  ZEROTH_ASSIGN_OR_RETURN(sharding->offload_,
                          Offload::Create(device, options.offload, options.scheduler.timeline));
  LayoutOptions layout{.min_shard_numel = options.min_shard_numel,
                       .block_numel = options.block_numel};
  for (UnitSpec& spec : units) {
    const AllocationPlace place(device.allocator(), "parameters of", spec.name);
    const int index = static_cast<int>(sharding->units_.size());
    const MeshView* const view = sharding->views_.at(spec.axes).get();
    layout.shard_count = view->owner_count();
    layout.kind = spec.layout.value_or(options.layout);
    const MixedPrecision precision = spec.precision.value_or(options.mixed_precision);
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Unit> unit,
                            Unit::Create(std::move(spec), index, layout, view->owner_index(),
                                         device, precision, sharding->offload_.get()));
    unit->set_mesh(view, part_axes[static_cast<size_t>(index)]);
    unit->set_tree_micro_batches(strategy_options.tree_micro_batches);
    sharding->unit_pointers_.push_back(unit.get());
    sharding->units_.push_back(std::move(unit));
  }
  ZEROTH_ASSIGN_OR_RETURN(sharding->scheduler_,
                          Scheduler::Create(options.scheduler, *sharding->strategy_,
                                            *sharding->mesh_, device, sharding->unit_pointers_));
  // The strategy makes its groups when it is attached.
  for (Communicator* group : sharding->communicators()) {
    group->stats().set_timeline(options.scheduler.timeline);
  }
  return sharding;
}

absl::Status Sharding::CreateView(const UnitAxes& axes, const StrategyOptions& options) {
  std::unique_ptr<MeshView>& view = views_[axes];
  if (view != nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes replicated, mesh_->Find(axes.replicated));
  ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes sharded, mesh_->Find(axes.sharded));
  Mesh::Axes named = replicated;
  named.insert(named.end(), sharded.begin(), sharded.end());
  const bool in_order = std::is_sorted(replicated.begin(), replicated.end()) &&
                        std::is_sorted(sharded.begin(), sharded.end());
  std::sort(named.begin(), named.end());
  if (!in_order || named != kDataAxes) {
    return InvalidArgument(
        "it is replicated over (", absl::StrJoin(axes.replicated, ", "), ") and sharded over (",
        absl::StrJoin(axes.sharded, ", "), "); expected '", kReplicateAxis, "' and '", kShardAxis,
        "', each in one of the two and in the order of the mesh: gradients are summed over "
        "exactly these axes");
  }
  // Groups of one rank have no order.
  const bool sums_out_of_order = mesh_->size(replicated) > 1 && mesh_->size(sharded) > 1 &&
                                 replicated.front() > sharded.front();
  if (options.tree_micro_batches > 0 && sums_out_of_order) {
    return InvalidArgument("its replicated axis '", axes.replicated.front(),
                           "' comes after the sharded '", axes.sharded.front(),
                           "' in the mesh; expected it first with tree_micro_batches, which sums "
                           "ranks in the order of the mesh");
  }
  ZEROTH_ASSIGN_OR_RETURN(
      view, MeshView::Create(*mesh_, replicated, sharded, options.shard_optimizer_over_world));
  return absl::OkStatus();
}

// The group spans neighbouring axes, as all groups do.
absl::Status Sharding::CreateStatisticsGroup(const std::vector<Mesh::Axes>& part_axes) {
  std::set<int> owners;
  for (const Mesh::Axes& axes : part_axes) owners.insert(axes.begin(), axes.end());
  for (const auto& [axes, view] : views_) {
    owners.insert(view->owner_axes().begin(), view->owner_axes().end());
  }
  if (!owners.empty()) {
    for (int axis = *owners.begin(); axis <= *owners.rbegin(); ++axis) {
      statistics_axes_.push_back(axis);
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(statistics_group_, mesh_->Group(statistics_axes_, Traffic::kReduce));
  return absl::OkStatus();
}

bool Sharding::AddsToStatistics(const Unit& unit, int segment) const {
  const Mesh::Axes owners = unit.OwnerAxes(segment);
  for (const int axis : statistics_axes_) {
    const bool is_copy = std::count(owners.begin(), owners.end(), axis) == 0;
    if (is_copy && mesh_->index({axis}) != 0) return false;
  }
  return true;
}

absl::Status Sharding::Initialize(uint64_t seed) {
  ZEROTH_RETURN_IF_ERROR(Fill(
      [seed](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        parameter.initializer().Fill(seed, parameter.name(), begin, out);
        return absl::OkStatus();
      },
      [](const Unit& unit, int parameter) {
        return std::vector<ShardLayout::Piece>{unit.PieceOf(parameter)};
      }));
  return scheduler_->EndStep();
}

absl::Status Sharding::ExpectBetweenSteps(absl::string_view attempt) const {
  for (const Unit* unit : unit_pointers_) {
    ZEROTH_RETURN_IF_ERROR(unit->ExpectBetweenSteps(attempt));
  }
  return absl::OkStatus();
}

absl::Status Sharding::Load(const ParameterReader& reader) {
  const absl::Status filled = Fill(reader, [](const Unit& unit, int parameter) {
    return ReplicaSlices(unit, unit.segment_of(parameter)).PartsToRead(unit.PieceOf(parameter));
  });
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(mesh_->world(), *device_, filled, "load parameters"));
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      ZEROTH_RETURN_IF_ERROR(
          ReplicaSlices(*unit, i).Exchange(unit->ShardState(i), 1, unit->name()));
    }
  }
  return scheduler_->EndStep();
}

absl::Status Sharding::Fill(const ParameterReader& reader, PartsOf parts) {
  ZEROTH_RETURN_IF_ERROR(ExpectBetweenSteps("load parameters"));
  ZEROTH_RETURN_IF_ERROR(scheduler_->EndStep());  // an inference may have left a gather
  std::vector<float> staging;
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = unit->parameter(i);
      for (const ShardLayout::Piece& piece : parts(*unit, i)) {
        ZEROTH_RETURN_IF_ERROR_WITH(LoadPiece(*unit, parameter, piece, reader, staging),
                                    absl::StrCat("parameter '", parameter.name(), "'"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Sharding::VisitShards(const PieceVisitor& visitor) const {
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const ShardLayout::Piece piece = unit->PieceOf(i);
      const StateTensor shard = unit->ShardState(unit->segment_of(i));
      for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
        const int64_t count = std::min(kStagingNumel, piece.numel() - done);
        ZEROTH_ASSIGN_OR_RETURN(const Tensor window,
                                unit->InMemory(shard, piece.shard_offset + done, count));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToHostFloats(window));
        const Parameter& parameter = unit->parameter(i);
        for (const ElementRun& run : parameter.GlobalRuns(piece.begin + done, count)) {
          const auto offset = static_cast<size_t>(run.begin - piece.begin - done);
          ZEROTH_RETURN_IF_ERROR(
              visitor(parameter, run.global_begin,
                      absl::MakeConstSpan(values).subspan(offset, static_cast<size_t>(run.numel))));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Sharding::VisitFull(const PieceVisitor& visitor) {
  for (Unit* unit : unit_pointers_) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Tensor> masters, scheduler_->GatherMasters(*unit));
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = unit->parameter(i);
      const ShardLayout::Placement& at = unit->layout().placement(i);
      const Tensor view =
          masters[static_cast<size_t>(at.segment)].View(at.offset, parameter.shape());
      ZEROTH_ASSIGN_OR_RETURN(
          const std::vector<float> values,
          parameter.part().has_value() ? GatherUndivided(parameter, view) : ToHostFloats(view));
      ZEROTH_RETURN_IF_ERROR(visitor(parameter, 0, values));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Sharding::GatherUndivided(const Parameter& parameter,
                                                             const Tensor& mine) {
  ParameterPart part = *parameter.part();
  std::vector<int64_t> numels;
  for (part.index = 0; part.index < part.count; ++part.index) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, ShapeOfPart(parameter.global_shape(), part));
    numels.push_back(shape.numel());
  }
  // Parts may differ in size, but an all-gather needs equal ones: pad to the largest.
  const int64_t place = *std::max_element(numels.begin(), numels.end());
  ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes axes, mesh_->Find({part.axis}));
  ZEROTH_ASSIGN_OR_RETURN(Communicator* const group, mesh_->Group(axes, Traffic::kGatherAcross));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor parts,
                          Tensor::Zeros(*device_, Shape({group->size() * place}), mine.dtype(),
                                        MemoryCategory::kGatheredParameters));
  const Tensor own = parts.View(group->rank() * place, Shape({place}));
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(device_->Copy(own.raw_data(), mine.raw_data(), mine.bytes(), stream));
  if (group->size() > 1) {
    ZEROTH_RETURN_IF_ERROR(group->AllGather(own, parts, stream, parameter.name()));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToHostFloats(parts));
  std::vector<float> undivided(static_cast<size_t>(parameter.global_numel()));
  for (part.index = 0; part.index < part.count; ++part.index) {
    const int64_t numel = numels[static_cast<size_t>(part.index)];
    for (const ElementRun& run : RunsOfPart(parameter.global_shape(), part, 0, numel)) {
      std::copy_n(values.begin() + part.index * place + run.begin, run.numel,
                  undivided.begin() + run.global_begin);
    }
  }
  return undivided;
}

absl::StatusOr<StateTensor> Sharding::ZeroState(int64_t numel, DType dtype,
                                                absl::string_view what) {
  if (offload_->options().optimizer) return offload_->Reserve(numel, dtype, what);
  return Tensor::Zeros(*device_, Shape({numel}), dtype, MemoryCategory::kOptimizer);
}

Unit* Sharding::FindUnit(absl::string_view name) const {
  for (Unit* unit : unit_pointers_) {
    if (name == unit->name()) return unit;
  }
  return nullptr;
}

std::vector<Parameter*> Sharding::parameters() const {
  std::vector<Parameter*> parameters;
  for (const Unit* unit : unit_pointers_) {
    parameters.insert(parameters.end(), unit->parameters().begin(), unit->parameters().end());
  }
  return parameters;
}

int64_t Sharding::ShardMemoryBytes() const {
  int64_t bytes = 0;
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const StateTensor shard = unit->ShardState(i);
      if (!shard.is_offloaded()) bytes += shard.bytes();
    }
  }
  return bytes;
}

int64_t Sharding::ReplicatedMemoryBytes() const {
  int64_t bytes = 0;
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const DType dtype = unit->master_dtype(unit->segment_of(i));
      bytes += unit->parameter(i).global_numel() * static_cast<int64_t>(SizeOf(dtype));
    }
  }
  return bytes;
}

std::string Sharding::ProgramsText() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> programs;  // and the units' names
  for (const Unit* unit : units()) {
    std::string text = strategy_->ProgramsText(*unit);
    const auto same = std::find_if(programs.begin(), programs.end(),
                                   [&](const auto& known) { return known.first == text; });
    if (same != programs.end()) {
      same->second.push_back(unit->name());
    } else {
      programs.push_back({std::move(text), {unit->name()}});
    }
  }
  std::string all;
  for (const auto& [text, names] : programs) {
    absl::StrAppend(&all, names.size() == 1 ? "unit " : "units ", absl::StrJoin(names, ", "), "\n",
                    text);
  }
  return all;
}

std::vector<Communicator*> Sharding::communicators() const {
  std::vector<Communicator*> all = mesh_->communicators();
  for (Communicator* own : strategy_->ExtraGroups()) all.push_back(own);
  return all;
}

ShardingStats Sharding::stats() const {
  ShardingStats stats;
  for (const Communicator* group : communicators()) {
    const CommStats::Counters counters = group->stats().counters();
    for (size_t op = 0; op < counters.size(); ++op) {
      stats.collectives[op].calls += counters[op].calls;
      stats.collectives[op].bytes += counters[op].bytes;
    }
  }
  stats.memory = device_->allocator().stats();
  stats.offload = offload_->stats();
  for (const Unit* unit : unit_pointers_) {
    stats.local_numel += unit->local_numel();
    stats.total_numel += unit->total_numel();
    stats.padding_numel += unit->layout().padding_numel();
  }
  if (stats.total_numel > 0) {
    stats.local_ratio =
        static_cast<double>(stats.local_numel) / static_cast<double>(stats.total_numel);
  }
  return stats;
}

}  // namespace zeroth
