// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/init_adapter.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/layers/lora_linear.h"

namespace zeroth {
namespace {

// Of a flag that has another value than its default, the adapter's must be the same.
template <typename T>
absl::Status Adopt(const char* flag, const T& unset, const T& value, T& option) {
  if (option == unset || option == value) {
    option = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", option, ", but that of --init_adapter is ", value, "; leave the flag out"));
}

absl::Status AdoptBase(const std::string& base, TrainOptions& options) {
  if (!options.init_from.empty()) return absl::OkStatus();
  const std::string adapter = absl::StrCat("--init_adapter=", options.init_adapter);
  if (!options.model.empty() || base.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        adapter,
        options.model.empty()
            ? " does not say which model it was made for"
            : absl::StrCat(" and --model=", options.model, ": it belongs to a trained model"),
        "; give --init_from=DIRECTORY"));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(base, error)) {
    return absl::NotFoundError(absl::StrCat(adapter, " was made for ", base,
                                            ", which is no directory here; give "
                                            "--init_from=DIRECTORY"));
  }
  options.init_from = base;
  return absl::OkStatus();
}

std::set<std::string> Without(const std::set<std::string>& all, const std::set<std::string>& some) {
  std::set<std::string> rest;
  for (const std::string& name : all) {
    if (some.count(name) == 0) rest.insert(name);
  }
  return rest;
}

}  // namespace

absl::StatusOr<TrainOptions> WithInitAdapter(TrainOptions options) {
  if (options.init_adapter.empty()) return options;
  const absl::StatusOr<PeftDirectory> opened = PeftDirectory::Open(options.init_adapter);
  ZEROTH_RETURN_IF_ERROR_WITH(opened.status(), "--init_adapter");
  const PeftAdapter& adapter = opened->adapter();
  if (adapter.dropout != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init_adapter=", options.init_adapter, ": was trained with a dropout of ",
                     adapter.dropout,
                     ", and Zeroth has none; to go on without, set \"lora_dropout\" to 0 in its "
                     "adapter_config.json"));
  }
  const TrainOptions unset;
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_rank", unset.lora_rank, adapter.rank, options.lora_rank));
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_alpha", unset.lora_alpha, adapter.alpha, options.lora_alpha));
  // Names in another order, or ends of other lengths, may mean the same layers: Open compares them.
  if (options.lora_targets == unset.lora_targets) {
    options.lora_targets = absl::StrJoin(PeftTargets(adapter), ",");
  }
  ZEROTH_RETURN_IF_ERROR(AdoptBase(adapter.base_model, options));
  return options;
}

absl::StatusOr<std::shared_ptr<const InitAdapter>> InitAdapter::Open(const std::string& path,
                                                                     const LanguageModel& model) {
  ZEROTH_ASSIGN_OR_RETURN(PeftDirectory opened, PeftDirectory::Open(path));
  std::shared_ptr<InitAdapter> adapter(new InitAdapter(std::move(opened)));
  const WeightsSource& weights = *adapter->adapter_.weights();
  const std::vector<std::string>& names = adapter->adapter_.adapter().layers;
  const std::set<std::string> stored(names.begin(), names.end());
  std::set<std::string> adapted;
  for (const LoraAdapter& part : LoraAdapters(model)) {
    adapted.emplace(absl::StripSuffix(part.a->name(), ".lora_A"));
  }
  if (adapted != stored) {
    const auto listed = [](const char* what, const std::set<std::string>& layers) {
      return layers.empty() ? "" : absl::StrCat("\n  ", what, ": ", absl::StrJoin(layers, ", "));
    };
    return absl::InvalidArgumentError(
        absl::StrCat("--init_adapter=", path, " adapts other layers than this model's adapters",
                     listed("only the adapter", Without(stored, adapted)),
                     listed("only the model", Without(adapted, stored))));
  }
  for (const LoraAdapter& part : LoraAdapters(model)) {
    const std::string layer(absl::StripSuffix(part.a->name(), ".lora_A"));
    const bool transposed = part.layout == WeightLayout::kInOut;
    for (const auto& [parameter, name] :
         {std::pair(part.a, PeftNameOfA(layer)), std::pair(part.b, PeftNameOfB(layer))}) {
      ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(name));
      const Shape& own = parameter->global_shape();
      const Shape expected = transposed ? Shape({own.dim(1), own.dim(0)}) : own;
      if (shape != expected) {
        return absl::InvalidArgumentError(absl::StrCat("--init_adapter=", path, ": tensor \"", name,
                                                       "\" has shape ", shape.ToString(),
                                                       ", expected ", expected.ToString()));
      }
      adapter->halves_[parameter->name()] = {name, transposed};
    }
  }
  return adapter;
}

absl::Status InitAdapter::Read(const Parameter& parameter, int64_t begin,
                               absl::Span<float> out) const {
  const Half& half = halves_.at(parameter.name());
  const WeightsSource& weights = *adapter_.weights();
  if (!half.transposed) return weights.ReadElements(half.stored, begin, out);
  const int64_t rows = parameter.global_shape().dim(0);
  const int64_t columns = parameter.global_shape().dim(1);
  // Halves are small.
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                          weights.ReadAll(half.stored, Shape({columns, rows})));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t element = begin + static_cast<int64_t>(i);
    out[i] = values[static_cast<size_t>(element % columns * rows + element / columns)];
  }
  return absl::OkStatus();
}

}  // namespace zeroth
