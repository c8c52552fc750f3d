// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/moe.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/ops/moe.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {

Experts::Experts(std::string name, const MoeOptions& options)
    : PackingModule(std::move(name)), lora_(options.lora), swiglu_limit_(options.swiglu_limit) {
  const auto add = [&](int64_t expert, const std::string& projection, int64_t out, int64_t in,
                       float std, ExpertProjection& to) {
    const std::string prefix = absl::StrCat(expert, ".", projection, ".");
    LoraAdapter adapter;
    const PackedFormat format = lora_.FormatOf(Scoped(prefix + "weight"));
    if (format == PackedFormat::kNone) {
      adapter.weight = AddParameter(prefix + "weight", Shape({out, in}), Initializer::Normal(std));
    } else {
      to.packed.push_back(
          AddPackedWeight(prefix + "weight", Shape({out, in}), Initializer::Normal(std), format));
      adapter.weight = to.packed.back()->weight;
    }
    to.weights.push_back(adapter.weight);
    if (options.linear_biases) {
      to.biases.push_back(AddParameter(prefix + "bias", Shape({out}), Initializer::Zeros()));
    }
    if ((lora_.targets.empty() && !lora_.experts) ||
        !lora_.Adapts(ProjectionName(expert, projection))) {
      return;
    }
    adapter.a = AddParameter(prefix + "lora_A", Shape({lora_.rank, in}), InitializerOfA(in));
    adapter.b = AddParameter(prefix + "lora_B", Shape({out, lora_.rank}), Initializer::Zeros());
    adapter.options = &lora_;
    adapter.share = static_cast<double>(options.top_k) / static_cast<double>(options.experts);
    to.a.push_back(adapter.a);
    to.b.push_back(adapter.b);
    adapters_.push_back(adapter);
  };
  for (int64_t expert = 0; expert < options.experts; ++expert) {
    add(expert, options.gate, options.hidden, options.dim, options.init_std, gate_);
    add(expert, options.up, options.hidden, options.dim, options.init_std, up_);
    add(expert, options.out, options.dim, options.hidden, options.out_init_std, out_);
  }
}

std::string Experts::ProjectionName(int64_t expert, const std::string& projection) const {
  return absl::StrCat(name(), ".", expert, ".", projection);
}

std::vector<std::string> Experts::ExtraProjections() const {
  std::vector<std::string> names;
  for (const ExpertProjection* projection : {&gate_, &up_, &out_}) {
    for (const Parameter* weight : projection->weights) {
      names.emplace_back(absl::StripSuffix(weight->name(), ".weight"));
    }
  }
  return names;
}

absl::Status Experts::Validate(const LoraOptions& options) const {
  for (const ExpertProjection* projection : {&gate_, &up_, &out_}) {
    if (!projection->packed.empty() && projection->packed.size() != projection->weights.size()) {
      return InvalidArgument(
          "LoRA: ", projection->packed.size(), " of the ", projection->weights.size(),
          " experts of '", name(), "' are to be kept in few bits, as '",
          projection->packed.front()->weight->name(), "'; expected all of a projection or none");
    }
    if (projection->a.empty() || projection->a.size() == projection->weights.size()) continue;
    return InvalidArgument("LoRA: ", projection->a.size(), " of the ", projection->weights.size(),
                           " experts of '", name(), "' are targets, as '",
                           adapters_.front().layer(),
                           "'; expected the last part of a name, which selects all of them");
  }
  if (adapters_.empty() || (!options.dora && options.dropout == 0)) return absl::OkStatus();
  return Unimplemented(
      "LoRA: '", name(), "' has adapters on experts, which have no ",
      options.dora ? "DoRA: the norms of experts' weights are not computed"
                   : "dropout: an expert's rows are not in the order of tokens that draws have",
      "; leave it out, or leave experts out of the targets (all_but_experts)");
}

absl::StatusOr<Value> Experts::Forward(Context& context, const Value& x, const Tensor& offsets) {
  return HookedOne(
      context, x, [this, offsets](Context& c, const Value& in) -> absl::StatusOr<Value> {
        const auto multiply = [&](const Value& from, std::vector<ExpertProjection> projections) {
          for (ExpertProjection& projection : projections) {
            if (c.adapters_disabled()) projection.a = projection.b = {};
          }
          return GroupedLinearOp(c, from, offsets, projections,
                                 static_cast<float>(lora_.enabled() ? lora_.scale() : 1));
        };
        ZEROTH_ASSIGN_OR_RETURN(const Value both, multiply(in, {gate_, up_}));
        ZEROTH_ASSIGN_OR_RETURN(const Value hidden, SwiGluOp(c, both, swiglu_limit_));
        return multiply(hidden, {out_});
      });
}

absl::StatusOr<TensorRanks*> Experts::Ranks(Context& context) const {
  const Parameter& first = *out_.weights.front();
  if (!IsDivided(first)) return nullptr;
  return RanksOf(context, first);
}

RouterBias::RouterBias(std::string router, int64_t experts) : Module(std::move(router)) {
  bias_ = AddParameter("e_score_correction_bias", Shape({experts}), Initializer::Zeros());
  bias_->set_requires_grad(false);
}

absl::StatusOr<RoutedTokens> RouterBias::Route(Context& context, const Value& logits, int64_t top_k,
                                               const RouteWeights& how) {
  return Hooked(context, [&]() -> absl::StatusOr<RoutedTokens> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor bias, FullValues(*bias_));
    return RouteOp(context, logits, top_k, how, bias);
  });
}

MoeMlp::MoeMlp(std::string name, const MoeOptions& options, std::unique_ptr<MlpLayer> shared)
    : MlpLayer(std::move(name)),
      top_k_(options.top_k),
      weights_(options.weights),
      balance_(options.balance),
      z_loss_(options.z_loss),
      fp32_router_(options.fp32_router) {
  router_ = AddParameter(options.router + ".weight", Shape({options.experts, options.dim}),
                         Initializer::Normal(options.init_std));
  if (options.linear_biases) {
    logit_bias_ = AddParameter(options.router + ".bias", Shape({options.experts}),
                               Initializer::Normal(options.init_std));
  }
  if (options.bias) {
    bias_ = AddChild(std::make_unique<RouterBias>(Scoped(options.router), options.experts));
  }
  experts_ = AddChild(std::make_unique<Experts>(Scoped(options.experts_name), options));
  if (shared == nullptr) return;
  shared_ = AddChild(std::move(shared));
  if (options.shared_gate.empty()) return;
  shared_gate_ = AddParameter(options.shared_gate + ".weight", Shape({1, options.dim}),
                              Initializer::Normal(options.init_std));
}

absl::StatusOr<Value> MoeMlp::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> MoeMlp::RouterLogits(Context& context, const Value& x) const {
  if (fp32_router_) return Fp32RouterOp(context, x, *router_, logit_bias_);
  const LinearPart router{router_, logit_bias_};
  return LinearOp(context, x, absl::MakeSpan(&router, 1), WeightLayout::kOutIn);
}

absl::Status MoeMlp::Count(Context& context, const Tensor& chosen) const {
  // A forward that is recomputed in backward is recorded only there.
  if (!counts_.defined() || !context.recording() || chosen.numel() == 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor counts, context.EmptyLike(counts_));
  ZEROTH_RETURN_IF_ERROR(kernels::CountExperts(
      context.kernels(),
      {.experts = chosen, .sequence = chosen.dim(0), .scale = 1, .counts = counts}));
  return kernels::Add(context.kernels(), counts_, counts, counts_);
}

absl::StatusOr<Value> MoeMlp::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(TensorRanks* const ranks, experts_->Ranks(context));
  // Every rank routes all tokens.
  ZEROTH_ASSIGN_OR_RETURN(const Value all, AllRowsOp(context, x, router_->name()));
  ZEROTH_ASSIGN_OR_RETURN(const Value logits, RouterLogits(context, all));
  ZEROTH_ASSIGN_OR_RETURN(const RoutedTokens routed,
                          bias_ == nullptr ? RouteOp(context, logits, top_k_, weights_)
                                           : bias_->Route(context, logits, top_k_, weights_));
  ZEROTH_RETURN_IF_ERROR(Count(context, routed.routing.experts));
  if (balance_ > 0) ZEROTH_RETURN_IF_ERROR(BalanceOp(context, logits, routed.routing, balance_));
  if (z_loss_ > 0) ZEROTH_RETURN_IF_ERROR(RouterZLossOp(context, logits, z_loss_));
  ZEROTH_ASSIGN_OR_RETURN(const Value grouped,
                          ScatterOp(context, x, all.data, routed.routing, ranks));
  ZEROTH_ASSIGN_OR_RETURN(const Value out,
                          experts_->Forward(context, grouped, routed.routing.offsets));
  ZEROTH_ASSIGN_OR_RETURN(const Value sum, CombineOp(context, out, routed, all.data, ranks));
  if (shared_ == nullptr) return sum;
  ZEROTH_ASSIGN_OR_RETURN(const Value shared, Shared(context, x));
  return AddOp(context, sum, shared);
}

absl::StatusOr<Value> MoeMlp::Shared(Context& context, const Value& x) const {
  ZEROTH_ASSIGN_OR_RETURN(const Value out, shared_->Forward(context, x));
  if (shared_gate_ == nullptr) return out;
  // Routing each token to one of one expert gives it the sigmoid as its weight.
  const LinearPart gate{shared_gate_, nullptr};
  ZEROTH_ASSIGN_OR_RETURN(const Value logits,
                          LinearOp(context, x, absl::MakeSpan(&gate, 1), WeightLayout::kOutIn));
  ZEROTH_ASSIGN_OR_RETURN(
      const RoutedTokens routed,
      RouteOp(context, logits, 1, {.scores = ExpertScores::kSigmoid, .normalize = false}));
  return CombineOp(context, out, routed, x.data, nullptr);
}

}  // namespace zeroth
