// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/layers/mlp.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/grouped_linear.h"
#include "zeroth/nn/ops/moe.h"
#include "zeroth/nn/replicated_module.h"

namespace zeroth {

struct MoeOptions {
  int64_t dim = 0;
  int64_t hidden = 0;  // of each expert
  int64_t experts = 0;
  int64_t top_k = 0;  // experts per token
  RouteWeights weights = {.normalize = false};
  // True: a bias of the scores decides with them which experts a token has (RouterBias).
  bool bias = false;
  float balance = 0;  // see BalanceOp; 0: no such loss
  float z_loss = 0;   // see RouterZLossOp; 0: no such loss
  bool fp32_router = false;
  // True: the router and all projections of the experts have biases, "bias" beside "weight".
  bool linear_biases = false;
  float swiglu_limit = 0;  // of the experts, see kernels::SwiGlu
  float init_std = 0.02f;
  float out_init_std = 0.02f;  // of the experts' last matrices
  // Names of parameters, after the module's: ROUTER.weight [experts, dim], and for each expert
  // EXPERTS.N.PROJECTION.weight with the projections gate, up and out.
  std::string router;
  std::string experts_name;
  std::string gate, up, out;
  // The name of the gate of the shared expert, "" for none; see MoeMlp.
  std::string shared_gate;
  LoraOptions lora;
};

// The bias of a router's scores, ROUTER.e_score_correction_bias, fp32 [experts] (Wang et al.,
// "Auxiliary-loss-free load balancing", 2024). It has no gradient; UpdateRouterBiases of api/ moves
// it.
class RouterBias : public Module, public ReplicatedModule {
 public:
  RouterBias(std::string router, int64_t experts);

  // RouteOp with the bias.
  absl::StatusOr<RoutedTokens> Route(Context& context, const Value& logits, int64_t top_k,
                                     const RouteWeights& how);
  Parameter& parameter() const { return *bias_; }

 private:
  Parameter* bias_;
};

// The experts of one layer, by default a separate unit (Role::kExperts). They are gathered
// together, because a batch has tokens for most of them. If options.lora selects a projection, each
// expert has its own adapter for it, with the names and initial values of a LoraLinear's.
// options.lora may also select that frozen weights are packed, each expert's matrix separately.
class Experts : public PackingModule, public AdaptedModule {
 public:
  Experts(std::string name, const MoeOptions& options);

  // x [rows, dim], grouped by `offsets`, → the same shape: out(swiglu(gate(x), up(x))) of each
  // row's expert. If experts are divided, the result is this rank's summand, as from
  // GroupedLinearOp.
  absl::StatusOr<Value> Forward(Context& context, const Value& x, const Tensor& offsets);
  // The ranks that each have a part of every expert; nullptr if experts are not divided.
  absl::StatusOr<TensorRanks*> Ranks(Context& context) const;
  Role role() const override { return Role::kExperts; }

  const std::vector<LoraAdapter>& adapters() const override { return adapters_; }
  std::vector<std::string> ExtraProjections() const override;
  // InvalidArgument for targets that are some of the experts; Unimplemented for DoRA and dropout.
  absl::Status Validate(const LoraOptions& options) const override;

 private:
  std::string ProjectionName(int64_t expert, const std::string& projection) const;

  const LoraOptions lora_;
  const float swiglu_limit_;
  ExpertProjection gate_, up_, out_;
  std::vector<LoraAdapter> adapters_;
};

// x [.., dim] → the same shape: for each token, the weighted sum of its experts' results, plus that
// of an expert which all tokens share, if there is one. With a gate, the latter is multiplied by
// the sigmoid of the product of x and SHARED_GATE.weight [1, dim].
class MoeMlp : public MlpLayer {
 public:
  MoeMlp(std::string name, const MoeOptions& options, std::unique_ptr<MlpLayer> shared = nullptr);

  absl::StatusOr<Value> Forward(Context& context, const Value& x) override;

  // nullptr if the router has none.
  const RouterBias* bias() const { return bias_; }
  // True if a gate weighs the shared expert, which sequence parallelism does not support.
  bool has_shared_gate() const { return shared_gate_ != nullptr; }
  int64_t experts() const { return router_->global_shape().dim(0); }
  // From now on each recorded forward adds the number of tokens that it routes to each expert to
  // `counts`, fp32 [1, experts]. An undefined tensor ends this.
  void set_counts(Tensor counts) { counts_ = std::move(counts); }

 private:
  absl::StatusOr<Value> RouterLogits(Context& context, const Value& x) const;
  absl::Status Count(Context& context, const Tensor& chosen) const;
  absl::StatusOr<Value> Shared(Context& context, const Value& x) const;
  absl::StatusOr<Value> Compute(Context& context, const Value& x);

  const int64_t top_k_;
  const RouteWeights weights_;
  const float balance_;
  const float z_loss_;
  const bool fp32_router_;
  Parameter* router_;
  Parameter* logit_bias_ = nullptr;
  RouterBias* bias_ = nullptr;  // of the choice of experts
  Experts* experts_;
  MlpLayer* shared_ = nullptr;
  Parameter* shared_gate_ = nullptr;
  Tensor counts_;
};

}  // namespace zeroth
