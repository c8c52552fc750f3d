// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A model that predicts from the last token only: an embedding, one hidden layer and a head. Its
// config.json:
// {"model_type": "bigram", "vocab_size": 257, "hidden_size": 64, "logit_scale": 2}.

#include <memory>
#include <string>

#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/logit_transform.h"
#include "zeroth/nn/ops/embedding.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

class Block : public Module {
 public:
  Block(const std::string& name, int64_t dim, const LoraOptions& lora) : Module(name) {
    linear_ = AddChild(BuildLinear(Scoped("linear"), LinearOptions{dim, {{"", dim}}}, lora));
  }
  Role role() const override { return Role::kBlock; }

  absl::StatusOr<Value> Forward(Context& context, const Value& x) {
    return HookedOne(context, x, [this](Context& c, const Value& in) {
      return linear_->Forward(c, in, Activation::kGelu);
    });
  }

 private:
  Linear* linear_;
};

// Multiplies the logits, in fp32.
struct LogitScale : LogitTransform {
  absl::Status Forward(Context& context, const Tensor& logits, const Tensor& out) const override {
    return kernels::Basic(context.kernels(),
                          {.op = BasicOp::kScale, .a = logits, .out = out, .scalar = scale});
  }
  absl::Status Backward(Context& context, const Tensor& /*logits*/,
                        const Tensor& gradients) const override {
    return Forward(context, gradients, gradients);
  }

  float scale = 1;
};

// What the trainer asks of a model.
class Bigram : public LanguageModel {
 public:
  Bigram(int64_t vocab, int64_t dim, float logit_scale, const LoraOptions& lora)
      : LanguageModel(""), vocab_(vocab), dim_(dim) {
    scale_.scale = logit_scale;
    embedding_ = AddParameter("embedding.weight", Shape({vocab, dim}), Initializer::Normal(0.3f));
    block_ = AddChild(std::make_unique<Block>("block", dim, lora));
    head_ = AddParameter("head.weight", Shape({vocab, dim}), Initializer::Normal(0.1f));
  }

  int64_t vocab_size() const override { return vocab_; }
  int64_t max_seq_len() const override { return int64_t{1} << 20; }
  nlohmann::json HfConfig() const override {
    return {{"model_type", "bigram"},
            {"vocab_size", vocab_},
            {"hidden_size", dim_},
            {"logit_scale", scale_.scale}};
  }

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override {
    ZEROTH_ASSIGN_OR_RETURN(const Value x, EmbeddingOp(context, tokens, *embedding_, nullptr));
    return block_->Forward(context, x);
  }
  Parameter& head() override { return *head_; }
  const LogitTransform* logit_transform() const override {
    return scale_.scale == 1 ? nullptr : &scale_;
  }
  int64_t MatmulWeights() const override { return (dim_ + vocab_) * dim_; }
  int64_t AttentionWidth() const override { return 0; }

 private:
  int64_t vocab_;
  int64_t dim_;
  LogitScale scale_;
  Parameter* embedding_;
  Block* block_;
  Parameter* head_;
};

absl::StatusOr<std::unique_ptr<LanguageModel>> Create(const nlohmann::json& config,
                                                      const ModelOptions& options) {
  const int64_t vocab = config.value("vocab_size", int64_t{0});
  const int64_t dim = config.value("hidden_size", int64_t{0});
  if (vocab < 1 || dim < 1) {
    return absl::InvalidArgumentError(
        "bigram: vocab_size and hidden_size are missing, expected numbers of at least 1");
  }
  const nlohmann::json scale = config.value("logit_scale", nlohmann::json(1));
  if (!scale.is_number() || scale.get<float>() <= 0) {
    return InvalidArgument("bigram: logit_scale is ", scale.dump(), ", expected a number above 0");
  }
  return std::make_unique<Bigram>(vocab, dim, scale.get<float>(), options.lora);
}

const ModelRegistration registration(
    "bigram", Create,
    {{"my_bigram",
      R"({"model_type": "bigram", "vocab_size": 257, "hidden_size": 64, "logit_scale": 2})"}});

}  // namespace
