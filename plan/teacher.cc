// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/teacher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/options/trainer_options.h"

namespace zeroth {
namespace {

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildTeacher(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory directory, OpenModelFiles(options.teacher));
  const nlohmann::json& config = directory.config().json();
  ModelOptions of_teacher;
  of_teacher.fp8 = options.fp8 == Fp8Recipe::kTensorwise;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(config, of_teacher));
  // A model without experts refuses the option.
  if (options.router().fp32 && !ModulesOf<const MoeMlp>(*model).empty()) {
    of_teacher.router.fp32 = true;
    ZEROTH_ASSIGN_OR_RETURN(model, ModelRegistry::Create(config, of_teacher));
  }
  for (Parameter* parameter : model->Parameters()) parameter->set_requires_grad(false);
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> PlanTeacher(Rank& rank, const TrainOptions& options,
                                                     Timeline* timeline) {
  const auto create = [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildTeacher(options));
    return Trainer::Create(rank, std::move(model),
                           FrozenTrainerOptionsFor(options, "teacher", timeline));
  };
  absl::StatusOr<std::unique_ptr<Trainer>> teacher = create();
  ZEROTH_RETURN_IF_ERROR_WITH(teacher.status(), absl::StrCat("--teacher=", options.teacher));
  return teacher;
}

}  // namespace zeroth
