// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/moe.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/ops/moe.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {

Experts::Experts(std::string name, const MoeOptions& options) : Module(std::move(name)) {
  for (int64_t expert = 0; expert < options.experts; ++expert) {
    const auto add = [&](const std::string& projection, int64_t out, int64_t in, float std) {
      return AddParameter(absl::StrCat(expert, ".", projection, ".weight"), Shape({out, in}),
                          Initializer::Normal(std));
    };
    gate_.push_back(add(options.gate, options.hidden, options.dim, options.init_std));
    up_.push_back(add(options.up, options.hidden, options.dim, options.init_std));
    out_.push_back(add(options.out, options.dim, options.hidden, options.out_init_std));
  }
}

absl::StatusOr<Value> Experts::Forward(Context& context, const Value& x, const Tensor& offsets) {
  return HookedOne(
      context, x, [this, offsets](Context& c, const Value& in) -> absl::StatusOr<Value> {
        ZEROTH_ASSIGN_OR_RETURN(const Value both, GroupedLinearOp(c, in, offsets, {gate_, up_}));
        ZEROTH_ASSIGN_OR_RETURN(const Value hidden, SwiGluOp(c, both));
        return GroupedLinearOp(c, hidden, offsets, {out_});
      });
}

absl::StatusOr<TensorRanks*> Experts::Ranks(Context& context) const {
  if (!IsDivided(*out_.front())) return nullptr;
  return RanksOf(context, *out_.front());
}

MoeMlp::MoeMlp(std::string name, const MoeOptions& options)
    : MlpLayer(std::move(name)),
      top_k_(options.top_k),
      normalize_(options.normalize),
      balance_(options.balance) {
  router_ = AddParameter(options.router + ".weight", Shape({options.experts, options.dim}),
                         Initializer::Normal(options.init_std));
  experts_ = AddChild(std::make_unique<Experts>(Scoped(options.experts_name), options));
}

absl::StatusOr<Value> MoeMlp::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
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
  const LinearPart router{router_, nullptr};
  ZEROTH_ASSIGN_OR_RETURN(const Value logits,
                          LinearOp(context, all, absl::MakeSpan(&router, 1), WeightLayout::kOutIn));
  ZEROTH_ASSIGN_OR_RETURN(const RoutedTokens routed, RouteOp(context, logits, top_k_, normalize_));
  ZEROTH_RETURN_IF_ERROR(Count(context, routed.routing.experts));
  if (balance_ > 0) ZEROTH_RETURN_IF_ERROR(BalanceOp(context, logits, routed.routing, balance_));
  ZEROTH_ASSIGN_OR_RETURN(const Value grouped,
                          ScatterOp(context, x, all.data, routed.routing, ranks));
  ZEROTH_ASSIGN_OR_RETURN(const Value out,
                          experts_->Forward(context, grouped, routed.routing.offsets));
  return CombineOp(context, out, routed, all.data, ranks);
}

}  // namespace zeroth
