// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reverse-mode differentiation by a tape: a forward records how to go back, and a backward plays
// the record in reverse.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/key_value_cache.h"

namespace zeroth {

class KeptOutputs;
class Module;
class Kernels;
class TensorRanks;
class TokenObjective;
struct Distillation;
struct Matrix;

// The gradient of one activation, for as long as backward needs it.
struct GradientNode {
  Tensor grad;  // undefined until the first contribution
  // True for a fused loss, whose forward has computed its gradients, times Context::loss_scale.
  // Backward starts there, and no operation may follow it.
  bool is_end = false;
  // For the output of a fused GELU: the tensor that the activation was applied to.
  Tensor gelu_input;
  // For the same output: the part of the gradient that the next linear layer has multiplied by the
  // GELU's derivative in its matmul. Undefined if there is none; `grad` has the rest.
  Tensor grad_of_gelu_input;
};

// An activation: its data, and the node that collects its gradient (nullptr if nothing needs it).
// Copies share both.
struct Value {
  Tensor data;
  std::shared_ptr<GradientNode> node = nullptr;
};

// Gives a variable another value for as long as the scope exists.
template <typename T>
class [[nodiscard]] ScopedValue {
 public:
  ScopedValue(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, value)) {}
  ~ScopedValue() { variable_ = before_; }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  const T before_;
};

// The record of one forward. Each entry holds the tensors that its backward reads, and nothing
// else. An entry is freed as soon as it has been played, so activations are freed while backward
// proceeds. Entries must hold Parameters by address and read their data when they are played: a
// view that they kept would keep a gather buffer alive. Used by one thread only.
class Tape {
 public:
  using Entry = std::function<absl::Status()>;

  // False for inference: operations record nothing, and their results have no node.
  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  void Record(Entry backward) { entries_.push_back(std::move(backward)); }
  // Counts the fused losses (GradientNode::is_end) since the last backward.
  void RecordEnd() { ++ends_; }
  int ends() const { return ends_; }
  // Adds a function that cleans up what an operation's forward left open for its backward. Cleanups
  // run in reverse order if backward fails or the tape is cleared.
  void RecordCleanup(std::function<void()> cleanup) { cleanups_.push_back(std::move(cleanup)); }

  // Plays all entries, the latest first, and leaves the tape empty. The gradient of the last
  // operation's result must be set; loss operations set it themselves. FailedPrecondition if
  // nothing was recorded.
  absl::Status Backward();
  // Drops the record without playing it, for a forward whose backward will not come.
  void Clear();

 private:
  friend class NoGradient;

  bool recording_ = true;
  std::vector<Entry> entries_;
  std::vector<std::function<void()>> cleanups_;
  int ends_ = 0;
};

// The values on which dropout's draws depend, besides the dropout's name and the element's index.
struct StepDraws {
  uint64_t seed = 0;
  int64_t step = 0;
  // The index of this forward's first sample in the batch of all ranks and micro-batches.
  int64_t first_sample = 0;
};

// Turns recording off while it exists (torch.no_grad), for evaluation and inference.
class NoGradient : public ScopedValue<bool> {
 public:
  explicit NoGradient(Tape& tape) : ScopedValue(tape.recording_, false) {}
};

// The context in which operations run. Each rank has one; everything it refers to outlives it.
class Context {
 public:
  Context(Device& device, Kernels& kernels, Tape& tape)
      : device_(device), kernels_(kernels), tape_(&tape) {}

  Device& device() { return device_; }
  Kernels& kernels() { return kernels_; }
  Tape& tape() { return *tape_; }
  bool recording() const { return tape_->recording(); }

  // Gradients are those of loss_scale * loss.
  float loss_scale() const { return loss_scale_; }
  void set_loss_scale(float scale) { loss_scale_ = scale; }

  // Set before each forward that is trained with dropout; std::nullopt otherwise, as in evaluation.
  const std::optional<StepDraws>& draws() const { return draws_; }
  void set_draws(std::optional<StepDraws> draws) { draws_ = draws; }
  ScopedValue<std::optional<StepDraws>> UseDraws(std::optional<StepDraws> draws) {
    return ScopedValue<std::optional<StepDraws>>(draws_, draws);
  }

  // int32 [batch, seq], as AttentionArgs::starts. Set before a forward whose sequences are packed
  // documents, and left until its backward has run; undefined otherwise. Tokens then attend within
  // their document, where rotary positions begin anew.
  const Tensor& document_starts() const { return document_starts_; }
  void set_document_starts(Tensor starts) { document_starts_ = std::move(starts); }

  // fp32 [1] in device memory: the divisor of a loss, which is a sum over targets. Set for a batch
  // that is part of a larger one, over whose counted targets the mean is. Undefined: the number of
  // this batch's counted targets.
  const Tensor& token_divisor() const { return token_divisor_; }
  void set_token_divisor(Tensor divisor) { token_divisor_ = std::move(divisor); }

  // The model's loss while the result of UseObjective exists; nullptr: the mean over tokens. Only
  // forward reads it.
  TokenObjective* objective() const { return objective_; }
  ScopedValue<TokenObjective*> UseObjective(TokenObjective& objective) {
    return ScopedValue<TokenObjective*>(objective_, &objective);
  }

  // While the result of UseDistillation exists, the loss is that of a student
  // (kernels/distillation), summed and divided as the mean over tokens; nullptr otherwise. Only
  // forward reads it. Not together with an objective.
  const Distillation* distillation() const { return distillation_; }
  ScopedValue<const Distillation*> UseDistillation(const Distillation& distillation) {
    return ScopedValue<const Distillation*>(distillation_, &distillation);
  }

  // True: layers with adapters compute without them, as the model before fine-tuning.
  bool adapters_disabled() const { return adapters_disabled_; }
  ScopedValue<bool> DisableAdapters() { return ScopedValue<bool>(adapters_disabled_, true); }

  // fp32 [1]: modules add auxiliary losses here, which are added to the model's loss. Undefined
  // outside of a forward that is trained, and while activations are recomputed.
  const Tensor& extra_loss() const { return extra_loss_; }
  void set_extra_loss(Tensor loss) { extra_loss_ = std::move(loss); }

  // Set while a model computes tokens that follow those of a cache; null otherwise.
  KeyValueCache* cache() const { return cache_; }
  ScopedValue<KeyValueCache*> UseCache(KeyValueCache* cache) {
    return ScopedValue<KeyValueCache*>(cache_, cache);
  }
  // Returns FailedPrecondition unless operations may use the cache: it is set, sequences are not
  // packed documents, and nothing is recorded.
  absl::Status CheckCacheUse() const;
  // The position of the first token of a sequence that this forward computes.
  int64_t first_position() const { return cache_ == nullptr ? 0 : cache_->size(); }

  // Set in both forwards of a module with selective activation checkpointing; null otherwise.
  KeptOutputs* kept_outputs() const { return kept_outputs_; }
  ScopedValue<KeptOutputs*> UseKeptOutputs(KeptOutputs* kept) {
    return ScopedValue<KeptOutputs*>(kept_outputs_, kept);
  }

  // Activation checkpointing computes a module twice, the second time only for what backward reads.
  // This is the module whose result backward does not read: the module that is computed twice, or
  // one that makes its result. Set in both forwards, of which only the second one records; null
  // otherwise.
  const Module* unread_result() const { return unread_result_; }
  ScopedValue<const Module*> UseUnreadResult(const Module* module) {
    return ScopedValue<const Module*>(unread_result_, module);
  }

  // Operations record on another tape while the result exists.
  ScopedValue<Tape*> UseTape(Tape& tape) { return ScopedValue<Tape*>(tape_, &tape); }

  // The tensor-parallel group of this rank; nullptr: no tensor parallelism. It must outlive its use
  // here.
  TensorRanks* tensor_ranks() const { return tensor_ranks_; }
  void set_tensor_ranks(TensorRanks* ranks) { tensor_ranks_ = ranks; }
  // True with sequence parallelism (TensorParallelOptions::sequence): each tensor rank holds a
  // share of the rows of activations between layers. Set by a model's forward, and kept until its
  // backward has run, which reads it; a forward without a backward changes it only while it runs.
  bool rows_are_shared() const { return rows_are_shared_; }
  void set_rows_are_shared(bool shared) { rows_are_shared_ = shared; }
  ScopedValue<bool> UseRowsAreShared(bool shared) {
    return ScopedValue<bool>(rows_are_shared_, shared);
  }

  // An uninitialised activation. Activations have the type that the parameters of their layer are
  // computed in; statistics and losses are fp32.
  absl::StatusOr<Tensor> Empty(Shape shape, DType dtype);
  absl::StatusOr<Tensor> EmptyLike(const Tensor& x) { return Empty(x.shape(), x.dtype()); }
  // A value with a node if the tape is recording.
  Value MakeValue(Tensor data);
  // Like MakeValue, for a loss whose gradients were computed together with it
  // (GradientNode::is_end).
  Value MakeEnd(Tensor data);

 private:
  Device& device_;
  Kernels& kernels_;
  Tape* tape_;
  float loss_scale_ = 1.0f;
  std::optional<StepDraws> draws_;
  Tensor document_starts_;
  Tensor token_divisor_;
  TokenObjective* objective_ = nullptr;
  const Distillation* distillation_ = nullptr;
  bool adapters_disabled_ = false;
  Tensor extra_loss_;
  KeyValueCache* cache_ = nullptr;
  KeptOutputs* kept_outputs_ = nullptr;
  const Module* unread_result_ = nullptr;
  TensorRanks* tensor_ranks_ = nullptr;
  bool rows_are_shared_ = false;
};

// Where an operation's backward writes its contribution to a gradient. With `accumulate` it adds to
// the tensor's values, and may change them in place.
using NodeSlot = Parameter::GradientSlot;
// Returns where to write a contribution to the gradient of `activation`, which has its shape and
// type.
absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node,
                                      const Tensor& activation);
// Like the function above, for an operation that has not kept the activation.
absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node, const Shape& shape,
                                      DType dtype);
// Records how to go back from an operation's result: `backward` gets the result's gradient, which
// the node gives up, and adds to the gradients of the operation's inputs. It is not called if
// nothing has used the result. Call it once for each result. Does nothing while recording is off.
void RecordBackward(Context& context, const Value& result,
                    std::function<absl::Status(const Tensor& dresult)> backward);
// Adds a finished tensor to a gradient. The first contribution becomes the gradient itself: do not
// write to it afterwards.
absl::Status AddGradient(Context& context, GradientNode& node, Tensor contribution);

// Plays the backward of everything recorded, from loss_scale * `loss`, which has one element.
// FailedPrecondition if `loss` was not recorded, or if another fused loss was; then the record is
// dropped.
absl::Status Backward(Context& context, const Value& loss);

// Returns a contiguous copy of a matrix.
absl::StatusOr<Tensor> CopyOf(Context& context, const Matrix& matrix);
// Returns x cast to `dtype`, or x itself if it has that type.
absl::StatusOr<Tensor> CastTo(Context& context, const Tensor& x, DType dtype);
// Returns the full values of a parameter. FailedPrecondition if its unit is not gathered.
absl::StatusOr<Tensor> FullValues(const Parameter& parameter);

}  // namespace zeroth
