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
  const auto visit = [&](absl::string_view name) {
    last_names.emplace(name.substr(name.rfind('.') + 1));
    for (const std::string& target : options.targets) {
      if (IsCalled(name, target)) found.insert(target);
    }
  };
  for (const Linear* layer : ModulesOf<const Linear>(model)) {
    for (const LinearPart& part : layer->parts()) visit(ProjectionName(part));
  }
  for (const AdaptedModule* module : ModulesOf<const AdaptedModule>(model)) {
    for (const std::string& name : module->ExtraProjections()) visit(name);
    ZEROTH_RETURN_IF_ERROR(module->Validate(options));
  }
  for (const std::string& target : options.targets) {
    if (found.count(target) > 0) continue;
    return InvalidArgument("LoRA: no linear layer is called '", target, "'; the model has ",
                           absl::StrJoin(last_names, ", "));
  }
  return absl::OkStatus();
}

// Matches modules by the end of their names, as PEFT does: "norm" matches all norms. Never matches
// a module that contains others, even if it has parameters itself (attention with sinks), because
// PEFT would train everything inside it.
absl::Status TrainSavedModules(const Module& model, const LoraOptions& options) {
  if (options.modules_to_save.empty()) return absl::OkStatus();
  std::set<absl::string_view> adapted;
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    adapted.insert(ModuleNameOf(adapter.weight->name()));
  }
  const std::vector<Parameter*> parameters = model.Parameters();
  std::set<absl::string_view> containers;
  for (const Parameter* parameter : parameters) {
    absl::string_view name = ModuleNameOf(parameter->name());
    for (size_t dot = name.rfind('.'); dot != name.npos; dot = name.rfind('.')) {
      name = name.substr(0, dot);
      containers.insert(name);
    }
  }
  for (const std::string& end : options.modules_to_save) {
    std::set<std::string> last_names;
    bool found = false;
    for (Parameter* parameter : parameters) {
      const absl::string_view module = ModuleNameOf(parameter->name());
      if (containers.count(module) > 0) continue;
      last_names.emplace(module.substr(module.rfind('.') + 1));
      if (!absl::EndsWith(module, end)) continue;
      if (adapted.count(module) > 0) {
        return InvalidArgument("LoRA: '", module, "' has an adapter, and is a module to save ('",
                               end, "'); leave it out of one of them");
      }
      if (parameter->dtype() == DType::kUInt8) {
        return InvalidArgument(
            "LoRA: '", module, "' is a module to save ('", end,
            "'), but its weight is kept in few bits and cannot be trained; leave "
            "it out");
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

PackedFormat LoraOptions::FormatOf(absl::string_view weight) const {
  const auto format = base_formats.find(weight);
  return format == base_formats.end() ? base_format : format->second;
}

absl::Status ValidateLoraOptions(const LoraOptions& options) {
  if (options.dora && options.dropout > 0) {
    return Unimplemented("LoRA: DoRA with a dropout of ", options.dropout,
                         "; the norms are those of the whole weight, so leave one of them out");
  }
  if (options.packs()) {
    const absl::string_view format = options.base_format == PackedFormat::kNone
                                         ? "blocks of the model's file"
                                         : PackedFormatName(options.base_format);
    if (options.rank == 0) {
      return InvalidArgument("LoRA: weights are to be kept as ", format,
                             ", which are not trained, and the rank of adapters is 0; expected a "
                             "rank of at least 1");
    }
    if (options.dora) {
      return Unimplemented("LoRA: DoRA's norms are those of weights in full, not of ", format,
                           "; leave one of them out");
    }
  }
  // Layers compute in float, where a dropout just below 1 would round to 1.
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

Initializer InitializerOfA(int64_t in) {
  return Initializer::Normal(1.0f / std::sqrt(3.0f * static_cast<float>(std::max<int64_t>(1, in))));
}

LoraLinear::LoraLinear(std::string name, const LinearOptions& options, const LoraOptions& lora)
    : Linear(std::move(name), options), lora_(lora) {
  const bool in_out = layout() == WeightLayout::kInOut;
  for (size_t i = 0; i < options.projections.size(); ++i) {
    const LinearOptions::Projection& projection = options.projections[i];
    if (lora.Adapts(ProjectionName(parts()[i]))) {
      const std::string prefix = projection.name.empty() ? "" : projection.name + ".";
      LoraAdapter adapter;
      adapter.weight = parts()[i].weight;
      adapter.a =
          AddParameter(prefix + "lora_A",
                       in_out ? Shape({options.in, lora.rank}) : Shape({lora.rank, options.in}),
                       InitializerOfA(options.in));
      adapter.b = AddParameter(
          prefix + "lora_B",
          in_out ? Shape({lora.rank, projection.out}) : Shape({projection.out, lora.rank}),
          Initializer::Zeros());
      for (Parameter* matrix : {adapter.a, adapter.b}) matrix->set_matrix({in_out});
      if (lora.dora) {
        adapter.magnitude = AddParameter(prefix + "lora_magnitude_vector", Shape({projection.out}),
                                         Initializer::Zeros());
        adapter.magnitude->set_keeps_fp32(true);
      }
      adapter.layout = layout();
      adapter.options = &lora_;
      adapters_.push_back(adapter);
    }
    matmul_parts_.push_back(parts()[i]);
    if (lora.dora && lora.Adapts(ProjectionName(parts()[i]))) matmul_parts_.back().bias = nullptr;
  }
}

absl::StatusOr<Value> LoraLinear::Forward(Context& context, const Value& x, Activation activation) {
  if (activation == Activation::kSilu) {
    return Unimplemented("layer '", name(),
                         "' has LoRA adapters, which do not support the fused SiLU");
  }
  if (context.adapters_disabled()) return Linear::Forward(context, x, activation);
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    ZEROTH_ASSIGN_OR_RETURN(Value y, Matmul(context, in, matmul_parts_, Activation::kNone));
    ZEROTH_RETURN_IF_ERROR(AddLowRankOp(context, in, y, LowRankParts(), layout(),
                                        static_cast<float>(lora_.scale()),
                                        static_cast<float>(lora_.dropout)));
    if (lora_.dora) {
      ZEROTH_ASSIGN_OR_RETURN(y, MagnitudeOp(context, y, MagnitudeParts(), layout(),
                                             static_cast<float>(lora_.scale())));
    }
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

std::vector<MagnitudePart> LoraLinear::MagnitudeParts() const {
  std::vector<MagnitudePart> magnitudes;
  const std::vector<LowRankPart> low_rank = LowRankParts();
  for (size_t i = 0; i < adapters_.size(); ++i) {
    const LoraAdapter& adapter = adapters_[i];
    const auto part = std::find_if(parts().begin(), parts().end(), [&](const LinearPart& one) {
      return one.weight == adapter.weight;
    });
    magnitudes.push_back(
        {adapter.weight, adapter.a, adapter.b, adapter.magnitude, part->bias, low_rank[i].column});
  }
  return magnitudes;
}

std::unique_ptr<Linear> BuildLinear(std::string name, LinearOptions options,
                                    const LoraOptions& lora) {
  for (LinearOptions::Projection& part : options.projections) {
    part.packed =
        lora.FormatOf(absl::StrCat(name, part.name.empty() ? "" : ".", part.name, ".weight"));
  }
  const bool adapted =
      std::any_of(options.projections.begin(), options.projections.end(), [&](const auto& part) {
        return lora.Adapts(part.name.empty() ? name : absl::StrCat(name, ".", part.name));
      });
  if (adapted) return std::make_unique<LoraLinear>(std::move(name), options, lora);
  return std::make_unique<Linear>(std::move(name), options);
}

std::vector<LoraAdapter> LoraAdapters(const Module& module) {
  std::vector<LoraAdapter> adapters;
  for (const AdaptedModule* part : ModulesOf<const AdaptedModule>(module)) {
    adapters.insert(adapters.end(), part->adapters().begin(), part->adapters().end());
  }
  return adapters;
}

absl::Status InitialMagnitudes(
    const LoraAdapter& adapter, int64_t begin, absl::Span<float> out,
    const std::function<absl::Status(int64_t begin, absl::Span<float> values)>& read) {
  const bool in_out = adapter.layout == WeightLayout::kInOut;
  const int64_t columns = adapter.weight->global_shape().dim(1);
  const auto count = static_cast<int64_t>(out.size());
  const int64_t first_row = in_out ? 0 : begin;
  const int64_t rows = in_out ? adapter.weight->global_shape().dim(0) : count;
  constexpr int64_t kBlock = int64_t{1} << 20;
  const int64_t step = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, columns));
  std::vector<double> sums(out.size());
  std::vector<float> block;
  for (int64_t row = 0; row < rows; row += step) {
    block.resize(static_cast<size_t>(std::min(step, rows - row) * columns));
    ZEROTH_RETURN_IF_ERROR(read((first_row + row) * columns, absl::MakeSpan(block)));
    for (size_t i = 0; i < block.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t output = in_out ? at % columns - begin : row + at / columns;
      if (output < 0 || output >= count) continue;
      sums[static_cast<size_t>(output)] += static_cast<double>(block[i]) * block[i];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(std::sqrt(sums[i]));
  return absl::OkStatus();
}

std::vector<Parameter*> SavedParameters(const Module& module) {
  std::set<const Parameter*> of_adapters;
  for (const LoraAdapter& adapter : LoraAdapters(module)) {
    of_adapters.insert(adapter.a);
    of_adapters.insert(adapter.b);
    of_adapters.insert(adapter.magnitude);
  }
  std::vector<Parameter*> saved;
  if (of_adapters.empty()) return saved;
  for (Parameter* parameter : module.Parameters()) {
    if (parameter->requires_grad() && of_adapters.count(parameter) == 0) saved.push_back(parameter);
  }
  return saved;
}

absl::Status FreezeAllButAdapters(const Module& model, const LoraOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidatePackedWeights(model));
  ZEROTH_RETURN_IF_ERROR(CheckTargets(model, options));
  if (LoraAdapters(model).empty()) {
    return Unimplemented(
        "LoRA: no layer of this model has adapters; leave --lora_rank out to train all weights, or "
        "let the model pass ModelOptions::lora to BuildLinear");
  }
  for (Parameter* parameter : model.Parameters()) parameter->set_requires_grad(false);
  ZEROTH_RETURN_IF_ERROR(TrainSavedModules(model, options));
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    adapter.a->set_requires_grad(true);
    adapter.b->set_requires_grad(true);
    if (adapter.magnitude != nullptr) adapter.magnitude->set_requires_grad(true);
  }
  return absl::OkStatus();
}

}  // namespace zeroth
