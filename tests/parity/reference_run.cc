// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/parity/reference_run.h"

#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/optim/muon_plan.h"

namespace zeroth {
namespace {

std::string Path(const std::string& model, const std::string& file) {
  return absl::StrCat("tests/testdata/", model, "/", file);
}

absl::StatusOr<nlohmann::json> LoadObject(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return json;
}

// Runs with another optimizer have a separate folder.
std::string FolderOf(const std::string& model, const std::string& optimizer) {
  return optimizer == "adamw" ? model : absl::StrCat(model, "_", optimizer);
}

absl::StatusOr<nlohmann::json> LoadExpected(const std::string& folder) {
  return LoadObject(Path(folder, "expected.json"));
}

absl::StatusOr<MuonOptions> LoadMuonOptions(const std::string& model) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json expected, LoadExpected(FolderOf(model, "muon")));
  const nlohmann::json& settings = expected["muon"];
  MuonOptions options;
  options.lr = settings["lr"].get<double>();
  options.momentum = settings["momentum"].get<double>();
  options.ns_steps = settings["ns_steps"].get<int>();
  // On every device: bf16 has its own tolerance.
  options.precision = DType::kFloat32;
  for (const nlohmann::json& name : expected["muon_parameters"]) {
    options.patterns.push_back(name.get<std::string>());
  }
  return options;
}

absl::StatusOr<NamedValues> LoadTensors(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  NamedValues values;
  for (const std::string& name : file->names()) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, file->ShapeOf(name));
    ZEROTH_ASSIGN_OR_RETURN(values[name], file->ReadAll(name, shape));
  }
  return values;
}

// The shared result that the ranks of one run write.
struct Collector {
  std::mutex mutex;
  TrainingRecord record;

  void Put(NamedValues& values, const Parameter& parameter, int64_t begin,
           absl::Span<const float> piece) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<float>& whole = values[parameter.name()];
    whole.resize(static_cast<size_t>(parameter.global_numel()));
    std::copy(piece.begin(), piece.end(), whole.begin() + begin);
  }

  // Ranks that decide independently must agree.
  absl::Status Agree(int64_t step, const StepResult& result) {
    std::lock_guard<std::mutex> lock(mutex);
    if (static_cast<int64_t>(record.overflowed.size()) == step) {
      record.overflowed.push_back(result.overflowed);
    }
    if (record.overflowed[static_cast<size_t>(step)] == result.overflowed) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("step ", step, " was skipped on some ranks only"));
  }
};

template <typename T>
absl::StatusOr<std::vector<float>> Widened(const Tensor& tensor) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> values, tensor.ToHost<T>());
  std::vector<float> floats;
  for (const T value : values) floats.push_back(ToFloat(value));
  return floats;
}

// Gradients have the type of their reduction.
absl::StatusOr<std::vector<float>> Floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) return tensor.ToHost<float>();
  return tensor.dtype() == DType::kBFloat16 ? Widened<BFloat16>(tensor) : Widened<Float16>(tensor);
}

// This rank's part of a parameter's gradient, wherever it lies.
absl::StatusOr<std::vector<float>> GradientOf(const Unit& unit, const ShardLayout::Piece& piece) {
  const StateTensor shard =
      unit.GradientShardState(unit.layout().placement(piece.parameter).segment);
  if (!shard.is_offloaded()) return Floats(unit.GradientShardView(piece));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values,
                          Tensor::Empty(unit.device(), Shape({piece.numel()}), shard.dtype(),
                                        MemoryCategory::kOffloadStaging));
  ZEROTH_RETURN_IF_ERROR(shard.Read(piece.shard_offset, values, unit.device().compute_stream()));
  return Floats(values);
}

absl::Status CollectGradients(const Sharding& sharding, Collector& collector) {
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const ShardLayout::Piece piece = unit->PieceOf(i);
      if (piece.numel() == 0 || !unit->parameters()[static_cast<size_t>(i)]->requires_grad()) {
        continue;
      }
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, GradientOf(*unit, piece));
      const Parameter& parameter = *unit->parameters()[static_cast<size_t>(i)];
      for (const ElementRun& run : parameter.GlobalRuns(piece.begin, piece.numel())) {
        collector.Put(
            collector.record.first_gradients, parameter, run.global_begin,
            absl::MakeConstSpan(values).subspan(static_cast<size_t>(run.begin - piece.begin),
                                                static_cast<size_t>(run.numel)));
      }
    }
  }
  return absl::OkStatus();
}

TrainerOptions MakeOptions(const RunSetup& setup, const nlohmann::json& expected) {
  TrainerOptions options;
  options.tensor = setup.tensor;
  options.sharding.strategy = setup.strategy;
  options.sharding.strategy_options.shard_size = setup.shard_size;
  options.sharding.strategy_options.shard_optimizer_over_world = setup.shard_optimizer_over_world;
  options.sharding.scheduler.prefetch = setup.prefetch;
  options.sharding.strategy_options.reshard_after_forward = setup.reshard_after_forward;
  options.sharding.mixed_precision = setup.precision;
  options.sharding.min_shard_numel = setup.min_shard_numel;
  options.activation_checkpointing = setup.activation_checkpointing;
  options.sync_every_micro_batch = setup.sync_every_micro_batch;
  options.deterministic_batch = setup.deterministic_batch;
  options.sharding.layout = setup.layout;
  options.sharding.offload = setup.offload;
  if (setup.min_wrap_numel > 0) options.wrap = WrapByMinNumel(setup.min_wrap_numel);
  options.optimizer_options.beta1 = expected["betas"][0].get<double>();
  options.optimizer_options.beta2 = expected["betas"][1].get<double>();
  options.optimizer_options.eps = expected["eps"].get<double>();
  options.optimizer_options.weight_decay = expected["weight_decay"].get<double>();
  options.optimizer_options.state_dtype = setup.state_dtype;
  // Tiny models have 8-bit moments, too.
  options.optimizer_options.min_8bit_numel = 0;
  options.optimizer_options.lr = expected["lr"].get<double>();
  options.optimizer = setup.optimizer;
  options.clip_grad_norm = expected["clip"].get<double>();
  options.fp32_norms = setup.fp32_norms;
  if (setup.loss_scale > 0) {
    options.loss_scaler.emplace();
    options.loss_scaler->initial_scale = setup.loss_scale;
  }
  return options;
}

// The reference updates the same matrices by Muon as Muon's default choice.
absl::Status ExpectMatrices(const LanguageModel& model, const std::vector<std::string>& names) {
  std::set<std::string> chosen;
  for (const Parameter* parameter : model.Parameters()) {
    if (UsesMuon(*parameter, {})) chosen.insert(parameter->name());
  }
  if (chosen == std::set<std::string>(names.begin(), names.end())) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("Muon takes ", chosen.size(), " matrices, and not the ",
                                          names.size(), " of the reference"));
}

absl::Status TrainRank(const RunSetup& setup, const nlohmann::json& expected, Communicator& world,
                       Collector& collector) {
  DeviceOptions device_options;
  device_options.threads = setup.threads;
  device_options.bits_of_any_team = setup.bits_of_any_team;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create(setup.device, device_options));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory directory,
                          HfDirectory::Open(absl::StrCat("tests/testdata/", setup.model)));
  nlohmann::json config = directory.config().json();
  if (!setup.model_type.empty()) config["model_type"] = setup.model_type;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  DataOptions data_options;
  data_options.vocab_size = static_cast<int32_t>(model->vocab_size());
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> tokens,
                          OpenData(Path(setup.model, "tokens.npy"), data_options));
  LoaderOptions loader_options;
  // Micro-batches follow each other in the data, so that together they are the reference's batch.
  const int64_t micro_batches = setup.deterministic_batch > 0
                                    ? setup.deterministic_batch / setup.data_ranks()
                                    : setup.micro_batches;
  loader_options.batch_size = setup.rows_per_rank > 0 ? setup.rows_per_rank
                                                      : expected["global_batch"].get<int64_t>() /
                                                            setup.data_ranks() / micro_batches;
  loader_options.seq_len = expected["seq_len"].get<int64_t>();
  loader_options.world_size = setup.data_ranks();
  loader_options.rank = world.rank() / setup.tensor.size;
  loader_options.shuffle = false;
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(tokens, loader_options));
  TrainerOptions options = MakeOptions(setup, expected);
  if (setup.optimizer == "muon") {
    ZEROTH_ASSIGN_OR_RETURN(options.optimizer_options.muon, LoadMuonOptions(setup.model));
    // By default Muon updates the matrices of the blocks.
    ZEROTH_RETURN_IF_ERROR(ExpectMatrices(*model, options.optimizer_options.muon.patterns));
    options.optimizer_options.muon.patterns.clear();
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        return directory.weights().ReadElements(parameter.name(), begin, out);
      }));

  const auto load = [&](int64_t step) -> absl::StatusOr<std::vector<Batch>> {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < micro_batches; ++i) {
      ZEROTH_ASSIGN_OR_RETURN(Batch batch, loader.Load(step * micro_batches + i));
      batches.push_back(std::move(batch));
    }
    return batches;
  };
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> first, load(0));
  ZEROTH_RETURN_IF_ERROR(trainer->ForwardBackward(first).status());
  ZEROTH_RETURN_IF_ERROR(CollectGradients(trainer->sharding(), collector));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().scheduler().EndStep());

  const int64_t steps = setup.steps > 0 ? setup.steps : expected["steps"].get<int64_t>();
  for (int64_t step = 0; step < steps; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> batch, load(step));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer->Step(batch, expected["lr"].get<double>()));
    ZEROTH_RETURN_IF_ERROR(collector.Agree(step, result));
    if (world.rank() != 0) continue;
    collector.record.losses.push_back(static_cast<double>(result.loss));
    collector.record.grad_norms.push_back(result.grad_norm);
  }
  return trainer->sharding().VisitShards(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        collector.Put(collector.record.final_weights, parameter, begin, values);
        return absl::OkStatus();
      });
}

}  // namespace

std::string RunSetup::ToString() const {
  std::string text = absl::StrCat(model, "_", strategy, "_world", world_size);
  if (shard_size > 0) absl::StrAppend(&text, "_shard", shard_size);
  // Records are kept by this name: whatever changes a run must be in it.
  if (!model_type.empty()) absl::StrAppend(&text, "_as_", model_type);
  if (tensor.size > 1) absl::StrAppend(&text, "_tensor", tensor.size);
  if (tensor.deterministic > 0) absl::StrAppend(&text, "_pieces", tensor.deterministic);
  if (tensor.sequence) absl::StrAppend(&text, "_sequence");
  if (steps > 0) absl::StrAppend(&text, "_steps", steps);
  if (rows_per_rank > 0) absl::StrAppend(&text, "_rows", rows_per_rank);
  if (min_wrap_numel > 0) absl::StrAppend(&text, "_wrap", min_wrap_numel);
  if (min_shard_numel > 0) absl::StrAppend(&text, "_whole", min_shard_numel);
  if (!prefetch) absl::StrAppend(&text, "_no_prefetch");
  if (shard_optimizer_over_world) absl::StrAppend(&text, "_optimizer_over_world");
  if (!reshard_after_forward) absl::StrAppend(&text, "_kept");
  if (activation_checkpointing != ActivationCheckpointing::kNone) {
    absl::StrAppend(&text, "_recompute", static_cast<int>(activation_checkpointing));
  }
  if (micro_batches > 1) {
    absl::StrAppend(&text, "_micro", micro_batches, sync_every_micro_batch ? "_every" : "_last");
  }
  if (deterministic_batch > 0) absl::StrAppend(&text, "_deterministic", deterministic_batch);
  if (threads > 1) absl::StrAppend(&text, "_threads", threads);
  if (bits_of_any_team) absl::StrAppend(&text, "_any_team");
  if (layout == LayoutKind::kRows) absl::StrAppend(&text, "_rows_layout");
  if (offload.any()) {
    absl::StrAppend(&text, "_offload", offload.parameters ? "p" : "", offload.gradients ? "g" : "",
                    offload.optimizer ? "o" : "");
  }
  if (loss_scale > 0) absl::StrAppend(&text, "_scale", loss_scale);
  if (fp32_norms) absl::StrAppend(&text, "_fp32_norms");
  if (!precision.keep_low_precision_grads) absl::StrAppend(&text, "_fp32_gradients");
  const MixedPrecision plain;
  if (precision.param_dtype != plain.param_dtype || precision.reduce_dtype != plain.reduce_dtype) {
    absl::StrAppend(&text, "_", DTypeName(precision.param_dtype), "_reduced_in_",
                    DTypeName(precision.reduce_dtype));
  }
  if (precision.master_dtype != plain.master_dtype) {
    absl::StrAppend(&text, "_", DTypeName(precision.master_dtype), "_masters");
  }
  if (optimizer != "adamw") absl::StrAppend(&text, "_", optimizer);
  if (state_dtype != DType::kFloat32) {
    absl::StrAppend(&text, "_", DTypeName(state_dtype), "_moments");
  }
  return text;
}

absl::StatusOr<TrainingRecord> LoadReference(const std::string& model,
                                             const std::string& optimizer) {
  const std::string folder = FolderOf(model, optimizer);
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json expected, LoadExpected(folder));
  TrainingRecord record;
  record.losses = expected["loss"].get<std::vector<double>>();
  record.grad_norms = expected["grad_norm_before_clip"].get<std::vector<double>>();
  ZEROTH_ASSIGN_OR_RETURN(record.first_gradients,
                          LoadTensors(Path(model, "grads_step0.safetensors")));
  ZEROTH_ASSIGN_OR_RETURN(record.final_weights, LoadTensors(Path(folder, "final.safetensors")));
  return record;
}

absl::StatusOr<NamedIndices> LoadSensitive(const std::string& model) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json sensitive,
                          LoadObject(Path(model, "sensitive.json")));
  return sensitive.get<NamedIndices>();
}

absl::StatusOr<TrainingRecord> Train(const RunSetup& setup) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json expected, LoadExpected(setup.model));
  Collector collector;
  ZEROTH_RETURN_IF_ERROR_WITH(RunLocalRanks(setup.world_size,
                                            [&](Communicator& world) {
                                              return TrainRank(setup, expected, world, collector);
                                            }),
                              setup.ToString());
  return std::move(collector.record);
}

}  // namespace zeroth
