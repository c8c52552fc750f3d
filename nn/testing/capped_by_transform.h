// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A model whose logits are capped by a LogitTransform instead of LanguageModel::LogitCap.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/logit_transform.h"
#include "zeroth/nn/tape.h"

namespace zeroth::testing {

class SoftCap : public LogitTransform {
 public:
  explicit SoftCap(float cap) : cap_(cap) {}

  absl::Status Forward(Context& context, const Tensor& logits, const Tensor& out) const override {
    return kernels::Basic(context.kernels(),
                          {.op = BasicOp::kSoftCap, .a = logits, .out = out, .scalar = cap_});
  }
  // The slope is 1 - tanh(logit / cap)^2.
  absl::Status Backward(Context& context, const Tensor& logits,
                        const Tensor& gradients) const override {
    Kernels& kernels = context.kernels();
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(kernels, {.a = logits, .out = logits, .scalar = 1 / cap_}));
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(kernels, {.op = BasicOp::kTanh, .a = logits, .out = logits}));
    return kernels::Basic(
        kernels, {.op = BasicOp::kTanhBackward, .a = logits, .b = gradients, .out = gradients});
  }

 private:
  const float cap_;
};

// Wraps `model`, which has no cap, and caps its logits by a transform. `config` describes both.
class CappedByTransform : public LanguageModel {
 public:
  CappedByTransform(std::unique_ptr<LanguageModel> model, float cap, nlohmann::json config)
      : LanguageModel(""),
        model_(AddChild(std::move(model))),
        cap_(cap),
        config_(std::move(config)) {}

  int64_t vocab_size() const override { return model_->vocab_size(); }
  int64_t max_seq_len() const override { return model_->max_seq_len(); }
  bool SupportsCache() const override { return model_->SupportsCache(); }
  absl::StatusOr<std::vector<DivisionRule>> DivisionRules() const override {
    return model_->DivisionRules();
  }
  nlohmann::json HfConfig() const override { return config_; }

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override {
    return (model_->*&Protected::Hidden)(context, tokens);
  }
  Parameter& head() override { return (model_->*&Protected::head)(); }
  const LogitTransform* logit_transform() const override { return &cap_; }
  int64_t MatmulWeights() const override { return 0; }
  int64_t AttentionWidth() const override { return 0; }

 private:
  // Makes protected members of another LanguageModel accessible.
  struct Protected : LanguageModel {
    using LanguageModel::head;
    using LanguageModel::Hidden;
  };

  LanguageModel* const model_;
  const SoftCap cap_;
  const nlohmann::json config_;
};

// Returns the model of a config.json of gemma2, whose "final_logit_softcapping" is a transform.
inline absl::StatusOr<std::unique_ptr<LanguageModel>> CapByTransform(const nlohmann::json& config,
                                                                     const ModelOptions& options) {
  const auto cap = config.at("final_logit_softcapping").get<float>();
  nlohmann::json uncapped = config;
  uncapped["model_type"] = "gemma2";
  uncapped["final_logit_softcapping"] = nullptr;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(uncapped, options));
  return std::make_unique<CappedByTransform>(std::move(model), cap, config);
}

}  // namespace zeroth::testing
