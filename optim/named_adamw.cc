// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/named_adamw.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw/adamw.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<NamedAdamW>> NamedAdamW::Create(
    Device& device, Kernels& kernels, const std::map<std::string, int64_t>& lengths,
    const AdamWOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdamWOptions(options));
  std::unique_ptr<NamedAdamW> optimizer(new NamedAdamW(device, kernels, options));
  for (const auto& [name, length] : lengths) {
    if (length < 0) {
      return InvalidArgument("AdamW: buffer '", name, "' has length ", length,
                             ", expected at least 0");
    }
    State& state = optimizer->states_[name];
    state.stream = HashName(name);
    ZEROTH_RETURN_IF_ERROR(optimizer->ZeroMoments(length, state));
  }
  return optimizer;
}

absl::Status NamedAdamW::ZeroMoments(int64_t length, State& state) const {
  const auto zeros = [&](int64_t numel, DType dtype) {
    return Tensor::Zeros(device_, Shape({numel}), dtype, MemoryCategory::kOptimizer);
  };
  ZEROTH_ASSIGN_OR_RETURN(state.m, zeros(length, options_.state_dtype));
  ZEROTH_ASSIGN_OR_RETURN(state.v, zeros(length, options_.state_dtype));
  if (options_.state_dtype != DType::kUInt8) return absl::OkStatus();
  const int64_t blocks = (length + kMomentBlock - 1) / kMomentBlock;
  ZEROTH_ASSIGN_OR_RETURN(state.m_scale, zeros(blocks, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(state.v_scale, zeros(blocks, DType::kFloat32));
  return absl::OkStatus();
}

absl::Status NamedAdamW::CheckLength(const std::string& name, int64_t length,
                                     const char* what) const {
  const auto state = states_.find(name);
  if (state == states_.end()) {
    const auto append_name = [](std::string* out, const auto& known) { out->append(known.first); };
    return InvalidArgument(
        "AdamW: ", what, " '", name, "' of length ", length,
        " is unknown; the buffers are: ", absl::StrJoin(states_, ", ", append_name));
  }
  const int64_t expected = state->second.m.numel();
  if (length == expected) return absl::OkStatus();
  return InvalidArgument("AdamW: ", what, " '", name, "' is of length ", length,
                         ", expected length ", expected);
}

absl::Status NamedAdamW::Check(const Buffers& buffers, const char* what) const {
  for (const auto& [name, tensor] : buffers) {
    ZEROTH_RETURN_IF_ERROR(CheckLength(name, tensor.numel(), what));
    if (tensor.dtype() == DType::kFloat32) continue;
    return InvalidArgument("AdamW: ", what, " '", name, "' is ", DTypeName(tensor.dtype()),
                           ", expected fp32");
  }
  return absl::OkStatus();
}

absl::Status NamedAdamW::Update(State& state, const Tensor& param, const Tensor& gradient,
                                double lr, double decay) {
  ++state.step;
  const Shape shape({param.numel()});
  AdamWArgs args = AdamWStepArgs(options_, state.step, lr);
  args.param = param.Reshape(shape);
  args.grad = gradient.Reshape(shape);
  args.m = state.m;
  args.v = state.v;
  args.m_scale = state.m_scale;
  args.v_scale = state.v_scale;
  args.stream = state.stream;
  args.weight_decay = decay;
  return kernels::AdamW(kernels_, args);
}

absl::StatusOr<NamedAdamW::Buffers> NamedAdamW::Step(const Buffers& gradients, double lr) {
  ZEROTH_RETURN_IF_ERROR(Check(gradients, "gradient"));
  Buffers updates;
  for (const auto& [name, gradient] : gradients) {
    // A step on zeros yields the update itself.
    ZEROTH_ASSIGN_OR_RETURN(Tensor update, Tensor::Zeros(device_, gradient.shape(), DType::kFloat32,
                                                         MemoryCategory::kWorkspace));
    ZEROTH_RETURN_IF_ERROR_WITH(Update(states_.at(name), update, gradient, lr, 0.0), name);
    updates.emplace(name, std::move(update));
  }
  return updates;
}

absl::Status NamedAdamW::StepOnParams(const Buffers& params, const Buffers& gradients, double lr) {
  ZEROTH_RETURN_IF_ERROR(Check(params, "parameter"));
  ZEROTH_RETURN_IF_ERROR(Check(gradients, "gradient"));
  for (const auto& [name, gradient] : gradients) {
    if (params.count(name) == 0) {
      return InvalidArgument("AdamW: gradient '", name, "' of length ", gradient.numel(),
                             " has no parameter");
    }
  }
  for (const auto& [name, gradient] : gradients) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        Update(states_.at(name), params.at(name), gradient, lr, options_.weight_decay), name);
  }
  return absl::OkStatus();
}

template <typename Span>
absl::StatusOr<NamedAdamW::Buffers> NamedAdamW::Upload(const std::map<std::string, Span>& spans,
                                                       const char* what) const {
  // Lengths are checked before anything is copied: the span of an unknown buffer may have any size.
  for (const auto& [name, span] : spans) {
    ZEROTH_RETURN_IF_ERROR(CheckLength(name, static_cast<int64_t>(span.size()), what));
  }
  Buffers buffers;
  for (const auto& [name, span] : spans) {
    ZEROTH_ASSIGN_OR_RETURN(
        buffers[name],
        Tensor::FromHost<float>(device_, Shape({static_cast<int64_t>(span.size())}),
                                absl::Span<const float>(span), MemoryCategory::kWorkspace));
  }
  return buffers;
}

absl::StatusOr<std::map<std::string, std::vector<float>>> NamedAdamW::Step(
    const ConstSpans& gradients, double lr) {
  ZEROTH_ASSIGN_OR_RETURN(const Buffers uploaded, Upload(gradients, "gradient"));
  ZEROTH_ASSIGN_OR_RETURN(const Buffers updates, Step(uploaded, lr));
  std::map<std::string, std::vector<float>> on_host;
  for (const auto& [name, update] : updates) {
    ZEROTH_ASSIGN_OR_RETURN(on_host[name], update.ToHost<float>());
  }
  return on_host;
}

absl::Status NamedAdamW::StepOnParams(const Spans& params, const ConstSpans& gradients, double lr) {
  ZEROTH_ASSIGN_OR_RETURN(const Buffers values, Upload(params, "parameter"));
  ZEROTH_ASSIGN_OR_RETURN(const Buffers uploaded, Upload(gradients, "gradient"));
  ZEROTH_RETURN_IF_ERROR(StepOnParams(values, uploaded, lr));
  for (const auto& [name, gradient] : gradients) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> updated, values.at(name).ToHost<float>());
    std::copy(updated.begin(), updated.end(), params.at(name).begin());
  }
  return absl::OkStatus();
}

absl::Status NamedAdamW::UpdateShards(absl::Span<float> params, absl::Span<const float> gradients,
                                      double lr) {
  size_t total = 0;
  for (const auto& [name, state] : states_) total += static_cast<size_t>(state.m.numel());
  if (params.size() != total || gradients.size() != total) {
    return InvalidArgument("AdamW: flat parameters of length ", params.size(),
                           " and flat gradients of length ", gradients.size(), ", expected length ",
                           total, ", that of all ", states_.size(), " buffers together");
  }
  Spans cut_params;
  ConstSpans cut_gradients;
  size_t begin = 0;
  for (const auto& [name, state] : states_) {
    const size_t length = static_cast<size_t>(state.m.numel());
    cut_params[name] = params.subspan(begin, length);
    cut_gradients[name] = gradients.subspan(begin, length);
    begin += length;
  }
  return StepOnParams(cut_params, cut_gradients, lr);
}

int64_t NamedAdamW::MemoryBytes() const {
  int64_t bytes = 0;
  for (const auto& [name, state] : states_) {
    for (const Tensor* moment : {&state.m, &state.v, &state.m_scale, &state.v_scale}) {
      if (moment->defined()) bytes += static_cast<int64_t>(moment->bytes());
    }
  }
  return bytes;
}

}  // namespace zeroth
