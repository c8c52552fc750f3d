// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/muon.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/newton_schulz.h"
#include "zeroth/optim/parameter_group.h"
#include "zeroth/strategies/offload.h"

namespace zeroth {

// One round, in which each worker computes one matrix or none.
struct Muon::Round {
  int number = 0;
  std::vector<int> matrices;  // by worker; -1 for none
  // How this rank's pieces of u, and the pieces of its matrix, are divided among the owners.
  AllToAllCounts counts;
  Tensor sent;                  // pieces of u
  Tensor whole;                 // u of this rank's matrix, then the result, part after part
  std::vector<Tensor> updates;  // by copy: this rank's pieces of what that copy's owners computed
  std::shared_ptr<Event> arrived;
  std::shared_ptr<Event> returned;
};

namespace {

// Makes `stream` wait for all work enqueued so far on `before`.
absl::Status Order(Stream& before, Stream& stream) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> event, before.Record());
  return stream.Wait(event);
}

absl::Status Refuse(const Parameter& parameter, absl::string_view problem) {
  return Unimplemented("Muon: parameter '", parameter.name(), "' ", problem);
}

}  // namespace

Muon::Muon(Sharding& sharding, Kernels& kernels, const OptimizerOptions& options)
    : Optimizer(sharding, options.lr),
      kernels_(kernels),
      options_(options),
      precision_(options.muon.precision.value_or(
          sharding.device().type() == "cpu" ? DType::kFloat32 : DType::kBFloat16)) {}

absl::StatusOr<std::unique_ptr<Muon>> Muon::Create(Sharding& sharding, Kernels& kernels,
                                                   const OptimizerOptions& options,
                                                   absl::Span<const ParameterGroup> groups) {
  ZEROTH_RETURN_IF_ERROR(ValidateMuonOptions(options.muon));
  if (options.muon.lr > 0 && options.lr == 0) {
    return absl::InvalidArgumentError(
        "Muon: AdamW's lr is 0, to which Muon's is in proportion; expected one above 0");
  }
  if (sharding.offload().options().any()) {
    return absl::UnimplementedError(
        "Muon: parameters, gradients or optimizer state are offloaded; expected all in memory");
  }
  std::unique_ptr<Muon> optimizer(new Muon(sharding, kernels, options));
  const auto is_adamws = [muon = options.muon](const Parameter& parameter) {
    return !UsesMuon(parameter, muon);
  };
  ZEROTH_ASSIGN_OR_RETURN(optimizer->adamw_,
                          AdamW::Create(sharding, kernels, options, groups, is_adamws));
  ZEROTH_RETURN_IF_ERROR(optimizer->AddWeights());
  ZEROTH_RETURN_IF_ERROR(optimizer->SetGroups(groups));
  if (optimizer->ranks_.owners * optimizer->ranks_.copies > 1) {
    ZEROTH_ASSIGN_OR_RETURN(optimizer->exchange_, sharding.device().CreateStream("muon"));
  }
  return optimizer;
}

bool Muon::IsOwn(const Unit& unit, int index) const {
  return unit.takes_gradient(index) && UsesMuon(unit.parameter(index), options_.muon);
}

// Sets ranks_ to those of the matrix that is divided into the most parts, the first if several are.
absl::Status Muon::FindRanks() {
  const Unit* of = nullptr;
  const Parameter* found = nullptr;
  for (const Unit* unit : sharding_.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = unit->parameter(i);
      if (!IsOwn(*unit, i) || (found != nullptr && PartsOf(parameter) <= PartsOf(*found))) continue;
      of = unit;
      found = &parameter;
    }
  }
  if (found == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(ranks_, MuonRanksOf(sharding_.mesh(), *of, *found));
  return absl::OkStatus();
}

absl::Status Muon::AddWeights() {
  ZEROTH_RETURN_IF_ERROR(FindRanks());
  bool is_split = false;
  for (Unit* unit : sharding_.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = unit->parameter(i);
      if (!IsOwn(*unit, i)) continue;
      if (unit->precision().master_dtype != DType::kFloat32) {
        return Refuse(parameter, "has masters in bf16, expected fp32");
      }
      if (unit->segment_layout(unit->segment_of(i)).replicated) {
        return Refuse(parameter,
                      "is held whole by every rank, being smaller than min_shard_numel; lower "
                      "that, or give it to AdamW by MuonOptions::patterns");
      }
      ZEROTH_RETURN_IF_ERROR(ExpectRanks(ranks_, sharding_.mesh(), *unit, parameter));
      Weight weight{unit, i, unit->PieceOf(i), {}};
      ZEROTH_ASSIGN_OR_RETURN(weight.momentum,
                              Tensor::Zeros(sharding_.device(), Shape({weight.piece.numel()}),
                                            DType::kFloat32, MemoryCategory::kOptimizer));
      is_split = is_split || parameter.matrix().head_dim > 0;
      std::vector<MuonMatrix> matrices = MatricesOf(parameter, options_.muon);
      for (size_t m = 0; m < matrices.size(); ++m) {
        const std::string place = matrices.size() > 1 ? absl::StrCat("[", m, "]") : "";
        matrices_.push_back({weights_.size(), parameter.name() + place, std::move(matrices[m])});
      }
      weights_.push_back(std::move(weight));
    }
  }
  if (matrices_.empty()) {
    return absl::InvalidArgumentError(
        "Muon: no trainable matrix is its own: a parameter of two dimensions with a number in "
        "its name, as in 'h.0.weight', or one that MuonOptions::patterns names");
  }
  if ((options_.muon.split_qkv || options_.muon.per_head) && !is_split) {
    return absl::InvalidArgumentError(
        "Muon: split_qkv or per_head, but no matrix of the model has heads (Parameter::matrix)");
  }
  return absl::OkStatus();
}

absl::Status Muon::SetGroups(absl::Span<const ParameterGroup> groups) {
  settings_ = {{1.0, options_.weight_decay}};
  for (const ParameterGroup& group : groups) {
    settings_.push_back({group.lr_scale, group.weight_decay.value_or(options_.weight_decay)});
  }
  return coefficients_.Allocate(sharding_.device(), 2 * settings_.size());
}

absl::Status Muon::PrepareStep(int64_t step, double lr, double grad_scale) {
  // ForgetSkippedStep takes skipped steps back from this optimizer only, so AdamW's count follows.
  adamw_->set_step(step - 1);
  ZEROTH_RETURN_IF_ERROR(adamw_->BeginStep(lr, grad_scale));
  const double own_lr = options_.muon.lr > 0 ? lr / options_.lr * options_.muon.lr : lr;
  ZEROTH_ASSIGN_OR_RETURN(std::vector<MuonCoefficients>* const rows, coefficients_.Rows());
  for (size_t i = 0; i < rows->size(); ++i) {
    const Settings& settings = settings_[i / 2];
    MuonCoefficients& row = (*rows)[i];
    row.grad_scale = static_cast<float>(grad_scale);
    row.momentum = static_cast<float>(options_.muon.momentum);
    row.one_minus_momentum = static_cast<float>(1 - options_.muon.momentum);
    row.step = static_cast<float>(own_lr * settings.lr_scale);
    row.decay =
        i % 2 == 0 ? 0.0f : static_cast<float>(own_lr * settings.lr_scale * settings.weight_decay);
  }
  return coefficients_.Upload(kernels_.stream());
}

MuonScalars Muon::ScalarsOf(const Weight& weight, const Tensor& grad_factor) const {
  return {coefficients_.Row(adamw_->RowOf(weight.parameter())), grad_factor};
}

std::vector<std::vector<int>> Muon::Assign() const {
  std::vector<double> costs;
  std::vector<int> trained;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    if (!weights_[matrices_[i].weight].parameter().requires_grad()) continue;
    costs.push_back(matrices_[i].matrix.cost());
    trained.push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> assigned = AssignByCost(costs, ranks_.owners * ranks_.copies);
  for (std::vector<int>& own : assigned) {
    for (int& matrix : own) matrix = trained[static_cast<size_t>(matrix)];
  }
  return assigned;
}

std::vector<std::string> Muon::own_matrices() const {
  const std::vector<std::vector<int>> assigned = Assign();
  std::vector<std::string> names;
  for (const int index : assigned[Worker(ranks_.copy, ranks_.owner)]) {
    names.push_back(matrices_[static_cast<size_t>(index)].name);
  }
  return names;
}

ShardLayout::Piece Muon::PieceOf(const Matrix& matrix, int owner) const {
  const Weight& weight = weights_[matrix.weight];
  const ShardLayout::Piece held =
      weight.unit->layout().PieceOf(weight.index, ranks_.IndexInPart(owner));
  ShardLayout::Piece piece = held;
  const int parts = PartsOf(weight.parameter());
  const int64_t begin = matrix.matrix.begin / parts;
  const int64_t end = begin + matrix.matrix.numel() / parts;
  piece.begin = std::max(held.begin, begin);
  piece.end = std::max(piece.begin, std::min(held.end, end));
  piece.shard_offset += piece.begin - held.begin;
  return piece;
}

std::vector<ShardState> Muon::states() const {
  std::vector<ShardState> states = adamw_->states();
  for (const Weight& weight : weights_) {
    if (weight.piece.numel() == 0) continue;
    const int segment = weight.unit->segment_of(weight.index);
    const std::vector<int> parameters = {weight.index};
    states.push_back({weight.unit, segment, "momentum", weight.momentum, /*block=*/1,
                      StateCoding::kNone, weight.piece.shard_offset, parameters});
  }
  return states;
}

absl::Status Muon::Update(const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  const std::vector<std::vector<int>> assigned = Assign();
  std::vector<Round> rounds;
  for (const std::vector<int>& own : assigned) rounds.resize(std::max(rounds.size(), own.size()));
  for (size_t i = 0; i < rounds.size(); ++i) {
    rounds[i].number = static_cast<int>(i);
    for (const std::vector<int>& own : assigned) {
      rounds[i].matrices.push_back(i < own.size() ? own[i] : -1);
    }
  }
  const absl::Status status = RunRounds(rounds, grad_factor);
  // Exchanges in flight use the rounds' memory.
  if (!status.ok() && exchange_ != nullptr) exchange_->Synchronize().IgnoreError();
  return status;
}

absl::Status Muon::RunRounds(std::vector<Round>& rounds, const Tensor& grad_factor) {
  if (!rounds.empty()) ZEROTH_RETURN_IF_ERROR(Send(rounds[0], grad_factor));
  ZEROTH_RETURN_IF_ERROR(adamw_->Update(grad_factor));
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (i + 1 < rounds.size()) ZEROTH_RETURN_IF_ERROR(Send(rounds[i + 1], grad_factor));
    ZEROTH_RETURN_IF_ERROR(Compute(rounds[i]));
    ZEROTH_RETURN_IF_ERROR(Return(rounds[i]));
    if (i > 0) ZEROTH_RETURN_IF_ERROR(Apply(rounds[i - 1], grad_factor));
  }
  return rounds.empty() ? absl::OkStatus() : Apply(rounds.back(), grad_factor);
}

const Muon::Matrix* Muon::OwnMatrix(const Round& round) const {
  const int index = round.matrices[Worker(ranks_.copy, ranks_.owner)];
  return index < 0 ? nullptr : &matrices_[static_cast<size_t>(index)];
}

std::vector<Muon::HeldPiece> Muon::HeldPieces(const Round& round) const {
  std::vector<HeldPiece> held;
  for (int copy = 0; copy < ranks_.copies; ++copy) {
    int64_t at = 0;
    for (int owner = 0; owner < ranks_.owners; ++owner) {
      const int index = round.matrices[Worker(copy, owner)];
      if (index < 0) continue;
      const Matrix& matrix = matrices_[static_cast<size_t>(index)];
      const ShardLayout::Piece piece = PieceOf(matrix, ranks_.owner);
      if (piece.numel() == 0) continue;
      held.push_back({copy, owner, &weights_[matrix.weight], piece, at});
      at += piece.numel();
    }
  }
  return held;
}

int64_t Muon::HeldNumel(absl::Span<const HeldPiece> held, int copy) {
  int64_t numel = 0;
  for (const HeldPiece& each : held) {
    if (each.copy == copy) numel += each.piece.numel();
  }
  return numel;
}

absl::StatusOr<Tensor> Muon::ExchangeBuffer(int64_t numel) const {
  return Tensor::Empty(sharding_.device(), Shape({numel}), DType::kFloat32,
                       MemoryCategory::kCommunication);
}

// Updates this rank's momenta of all the round's matrices, and sends its pieces of u to the ranks
// of its copy that compute them.
absl::Status Muon::Send(Round& round, const Tensor& grad_factor) {
  const std::vector<HeldPiece> held = HeldPieces(round);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sent, ExchangeBuffer(HeldNumel(held, ranks_.copy)));
  round.counts.send.resize(static_cast<size_t>(ranks_.owners));
  for (const HeldPiece& each : held) {
    const Weight& weight = *each.weight;
    const Shape shape({each.piece.numel()});
    Tensor u;
    if (each.copy == ranks_.copy) {
      u = sent.View(each.at, shape);
      round.counts.send[static_cast<size_t>(each.owner)] = each.piece.numel();
    }
    ZEROTH_RETURN_IF_ERROR_WITH(
        kernels::MuonMomentum(
            kernels_, ScalarsOf(weight, grad_factor), weight.unit->GradientShardView(each.piece),
            weight.momentum.View(each.piece.begin - weight.piece.begin, shape), u),
        weight.parameter().name());
  }
  if (ranks_.owners == 1) {  // all of the matrix is here
    round.whole = sent;
    return absl::OkStatus();
  }
  round.sent = sent;
  const Matrix* const own = OwnMatrix(round);
  for (int owner = 0; owner < ranks_.owners; ++owner) {
    round.counts.recv.push_back(own == nullptr ? 0 : PieceOf(*own, owner).numel());
  }
  const std::vector<int64_t>& recv = round.counts.recv;
  ZEROTH_ASSIGN_OR_RETURN(round.whole,
                          ExchangeBuffer(std::accumulate(recv.begin(), recv.end(), int64_t{0})));
  ZEROTH_RETURN_IF_ERROR(Order(kernels_.stream(), *exchange_));
  ZEROTH_RETURN_IF_ERROR(ranks_.owners_group->AllToAll(round.sent, round.whole, *exchange_,
                                                       absl::StrCat("muon ", round.number, " in"),
                                                       round.counts));
  ZEROTH_ASSIGN_OR_RETURN(round.arrived, exchange_->Record());
  return absl::OkStatus();
}

absl::Status Muon::Compute(Round& round) {
  if (round.arrived != nullptr) ZEROTH_RETURN_IF_ERROR(kernels_.stream().Wait(round.arrived));
  round.sent = Tensor();
  const Matrix* const own = OwnMatrix(round);
  if (own == nullptr) return absl::OkStatus();
  const Parameter& parameter = weights_[own->weight].parameter();
  if (ranks_.parts > 1) {
    ZEROTH_ASSIGN_OR_RETURN(round.whole, JoinParts(kernels_, parameter, ranks_.parts, round.whole));
  }
  ZEROTH_ASSIGN_OR_RETURN(round.whole, Orthogonalise(kernels_, own->matrix, round.whole,
                                                     options_.muon.ns_steps, precision_));
  if (ranks_.parts > 1) {
    ZEROTH_ASSIGN_OR_RETURN(round.whole,
                            SplitIntoParts(kernels_, parameter, ranks_.parts, round.whole));
  }
  return absl::OkStatus();
}

// Sends the results to the owners of their pieces, and from there to the other copies.
absl::Status Muon::Return(Round& round) {
  const std::vector<HeldPiece> held = HeldPieces(round);
  for (int copy = 0; copy < ranks_.copies; ++copy) {
    Tensor& updates = round.updates.emplace_back();
    const bool is_here = copy == ranks_.copy && ranks_.owners == 1;
    ZEROTH_ASSIGN_OR_RETURN(updates, is_here ? round.whole : ExchangeBuffer(HeldNumel(held, copy)));
  }
  if (exchange_ == nullptr) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(Order(kernels_.stream(), *exchange_));
  if (ranks_.owners > 1) {
    ZEROTH_RETURN_IF_ERROR(ranks_.owners_group->AllToAll(
        round.whole, round.updates[static_cast<size_t>(ranks_.copy)], *exchange_,
        absl::StrCat("muon ", round.number, " out"), {round.counts.recv, round.counts.send}));
  }
  for (int copy = 0; copy < ranks_.copies && ranks_.copies > 1; ++copy) {
    const Tensor& updates = round.updates[static_cast<size_t>(copy)];
    if (updates.numel() == 0) continue;
    ZEROTH_RETURN_IF_ERROR(ranks_.copies_group->Broadcast(
        updates, copy, *exchange_, absl::StrCat("muon ", round.number, " copy")));
  }
  ZEROTH_ASSIGN_OR_RETURN(round.returned, exchange_->Record());
  return absl::OkStatus();
}

absl::Status Muon::Apply(Round& round, const Tensor& grad_factor) {
  if (round.returned != nullptr) ZEROTH_RETURN_IF_ERROR(kernels_.stream().Wait(round.returned));
  for (const HeldPiece& each : HeldPieces(round)) {
    const Tensor& updates = round.updates[static_cast<size_t>(each.copy)];
    ZEROTH_RETURN_IF_ERROR_WITH(
        kernels::MuonUpdate(kernels_, ScalarsOf(*each.weight, grad_factor),
                            updates.View(each.at, Shape({each.piece.numel()})),
                            each.weight->unit->ShardView(each.piece)),
        each.weight->parameter().name());
  }
  round = Round();
  return absl::OkStatus();
}

static const OptimizerRegistration registration("muon", [](auto&&... arguments) {
  return Muon::Create(arguments...);
});

}  // namespace zeroth
