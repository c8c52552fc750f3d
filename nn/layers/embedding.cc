// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/embedding.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/ops/embedding.h"

namespace zeroth {

Embedding::Embedding(std::string name, int64_t vocab, int64_t dim, float init_std)
    : Module(std::move(name)) {
  weight_ = AddParameter("weight", Shape({vocab, dim}), Initializer::Normal(init_std));
}

absl::StatusOr<Value> Embedding::Forward(Context& context, const Tensor& tokens,
                                         Parameter* positions) {
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value out, EmbeddingOp(context, tokens, *weight_, positions));
    return CastOutput(context, out);
  });
}

}  // namespace zeroth
