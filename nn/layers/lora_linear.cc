// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/lora_linear.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/lora.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

// "a.b.c" is called "c" and "b.c", but not "b" or ".c".
bool IsCalled(absl::string_view projection, absl::string_view target) {
  return !target.empty() && absl::ConsumeSuffix(&projection, target) &&
         (projection.empty() || absl::EndsWith(projection, "."));
}

absl::string_view ProjectionName(const LinearPart& part) {
  return absl::StripSuffix(part.weight->name(), ".weight");
}

absl::Status CheckTargets(const Module& model, const LoraOptions& options) {
  std::set<std::string> last_names;
  std::set<std::string> found;
  for (const Linear* layer : ModulesOf<const Linear>(model)) {
    for (const LinearPart& part : layer->parts()) {
      const absl::string_view name = ProjectionName(part);
      last_names.emplace(name.substr(name.rfind('.') + 1));
      for (const std::string& target : options.targets) {
        if (IsCalled(name, target)) found.insert(target);
      }
    }
  }
  for (const std::string& target : options.targets) {
    if (found.count(target) > 0) continue;
    return InvalidArgument("LoRA: no linear layer is called '", target, "'; the model has ",
                           absl::StrJoin(last_names, ", "));
  }
  return absl::OkStatus();
}

// Modules match by the ends of their names, as in PEFT, of which "norm" means all norms.
absl::Status TrainSavedModules(const Module& model, const LoraOptions& options) {
  if (options.modules_to_save.empty()) return absl::OkStatus();
  std::set<absl::string_view> adapted;
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    adapted.insert(ModuleNameOf(adapter.weight->name()));
  }
  const std::vector<Parameter*> parameters = model.Parameters();
  for (const std::string& end : options.modules_to_save) {
    std::set<std::string> last_names;
    bool found = false;
    for (Parameter* parameter : parameters) {
      const absl::string_view module = ModuleNameOf(parameter->name());
      last_names.emplace(module.substr(module.rfind('.') + 1));
      if (!absl::EndsWith(module, end)) continue;
      if (adapted.count(module) > 0) {
        return InvalidArgument("LoRA: '", module, "' has an adapter, and is a module to save ('",
                               end, "'); leave it out of one of them");
      }
      found = true;
      parameter->set_requires_grad(true);
    }
    if (found) continue;
    return InvalidArgument("LoRA: no module to save is called '", end, "'; the model has ",
                           absl::StrJoin(last_names, ", "),
                           ". A head that is tied to the embedding is trained with it");
  }
  return absl::OkStatus();
}

}  // namespace

double LoraOptions::scale() const { return LoraScale(alpha, rank, rslora); }

bool LoraOptions::Adapts(absl::string_view projection) const {
  if (!enabled()) return false;
  return targets.empty() ||
         std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return IsCalled(projection, target); });
}

absl::Status ValidateLoraOptions(const LoraOptions& options) {
  // As float, in which layers compute, a dropout just below 1 would be 1.
  const auto dropout = static_cast<float>(options.dropout);
  if (options.rank >= 0 && std::isfinite(options.alpha) && dropout >= 0 && dropout < 1) {
    return absl::OkStatus();
  }
  return InvalidArgument("LoRA: rank = ", options.rank, ", alpha = ", options.alpha,
                         ", dropout = ", options.dropout,
                         "; expected a rank of at least 0, a finite alpha, and a dropout of at "
                         "least 0 and below 1");
}

std::string LoraAdapter::layer() const {
  return std::string(absl::StripSuffix(a->name(), ".lora_A"));
}

LoraLinear::LoraLinear(std::string name, const LinearOptions& options, const LoraOptions& lora)
    : Linear(std::move(name), options), lora_(lora) {
  const bool in_out = layout() == WeightLayout::kInOut;
  const float a_std = 1.0f / std::sqrt(3.0f * static_cast<float>(std::max<int64_t>(1, options.in)));
  for (size_t i = 0; i < options.projections.size(); ++i) {
    const LinearOptions::Projection& projection = options.projections[i];
    if (lora.Adapts(ProjectionName(parts()[i]))) {
      const std::string prefix = projection.name.empty() ? "" : projection.name + ".";
      LoraAdapter adapter;
      adapter.weight = parts()[i].weight;
      adapter.a =
          AddParameter(prefix + "lora_A",
                       in_out ? Shape({options.in, lora.rank}) : Shape({lora.rank, options.in}),
                       Initializer::Normal(a_std));
      adapter.b = AddParameter(
          prefix + "lora_B",
          in_out ? Shape({lora.rank, projection.out}) : Shape({projection.out, lora.rank}),
          Initializer::Zeros());
      for (Parameter* half : {adapter.a, adapter.b}) half->set_matrix({in_out});
      adapter.layout = layout();
      adapter.options = &lora_;
      adapters_.push_back(adapter);
    }
  }
}

absl::StatusOr<Value> LoraLinear::Forward(Context& context, const Value& x, Activation activation) {
  if (activation == Activation::kSilu) {
    return Unimplemented("layer '", name(), "' has LoRA adapters, which take no fused SiLU");
  }
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    ZEROTH_ASSIGN_OR_RETURN(Value y, Product(context, in, Activation::kNone));
    ZEROTH_RETURN_IF_ERROR(AddLowRankOp(context, in, y, LowRankParts(), layout(),
                                        static_cast<float>(lora_.scale()),
                                        static_cast<float>(lora_.dropout)));
    if (activation != Activation::kNone) {
      ZEROTH_ASSIGN_OR_RETURN(y, GeluOp(context, y));
    }
    return CastOutput(context, y);
  });
}

std::vector<LowRankPart> LoraLinear::LowRankParts() const {
  std::vector<LowRankPart> low_rank;
  int64_t column = 0;
  auto adapter = adapters_.begin();
  for (const LinearPart& part : parts()) {
    if (adapter != adapters_.end() && adapter->weight == part.weight) {
      low_rank.push_back({adapter->a, adapter->b, column});
      ++adapter;
    }
    column += OutFeatures(part, layout());
  }
  return low_rank;
}

std::unique_ptr<Linear> BuildLinear(std::string name, const LinearOptions& options,
                                    const LoraOptions& lora) {
  const bool adapted =
      std::any_of(options.projections.begin(), options.projections.end(), [&](const auto& part) {
        return lora.Adapts(part.name.empty() ? name : absl::StrCat(name, ".", part.name));
      });
  if (adapted) return std::make_unique<LoraLinear>(std::move(name), options, lora);
  return std::make_unique<Linear>(std::move(name), options);
}

std::vector<LoraAdapter> LoraAdapters(const Module& module) {
  std::vector<LoraAdapter> adapters;
  for (const LoraLinear* layer : ModulesOf<const LoraLinear>(module)) {
    adapters.insert(adapters.end(), layer->adapters().begin(), layer->adapters().end());
  }
  return adapters;
}

std::vector<Parameter*> SavedParameters(const Module& module) {
  std::set<const Parameter*> halves;
  for (const LoraAdapter& adapter : LoraAdapters(module)) {
    halves.insert(adapter.a);
    halves.insert(adapter.b);
  }
  std::vector<Parameter*> saved;
  if (halves.empty()) return saved;
  for (Parameter* parameter : module.Parameters()) {
    if (parameter->requires_grad() && halves.count(parameter) == 0) saved.push_back(parameter);
  }
  return saved;
}

absl::Status FreezeAllButAdapters(const Module& model, const LoraOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckTargets(model, options));
  for (Parameter* parameter : model.Parameters()) parameter->set_requires_grad(false);
  ZEROTH_RETURN_IF_ERROR(TrainSavedModules(model, options));
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    adapter.a->set_requires_grad(true);
    adapter.b->set_requires_grad(true);
  }
  return absl::OkStatus();
}

}  // namespace zeroth
