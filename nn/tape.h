// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reverse-mode differentiation by a tape: forward records how to go back, backward plays the record
// in reverse.

#ifndef ZEROTH_NN_TAPE_H_
#define ZEROTH_NN_TAPE_H_

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
class Kernels;
class TensorRanks;

// The gradient of one activation, while backward has use for it.
struct GradientNode {
  Tensor grad;  // undefined until the first contribution
  // Of a loss whose gradients were computed together with it, for Context::loss_scale: backward
  // starts from it, and no operation can follow it.
  bool is_end = false;
  // Of the output of a fused GELU: what the activation was applied to.
  Tensor gelu_input;
  // The part of the gradient that a linear layer has multiplied by the GELU's derivative already,
  // in the product that made it; undefined if there is none. `grad` holds the rest.
  Tensor grad_of_gelu_input;
};

// An activation: its data, and where its gradient goes (nullptr where none is wanted). Copies share
// both.
struct Value {
  Tensor data;
  std::shared_ptr<GradientNode> node = nullptr;
};

// The record of one forward. Each entry holds what its backward reads, and nothing else; it is
// freed as soon as it was played, so activations go away while backward proceeds. Entries must hold
// Parameters by address and read their data when played: a kept view would keep a gather buffer.
// Used by one thread only.
class Tape {
 public:
  using Entry = std::function<absl::Status()>;

  // Off: operations record nothing and results have no node (inference).
  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  void Record(Entry backward) { entries_.push_back(std::move(backward)); }
  // Called, latest first, if backward fails or the record is dropped: puts right what forward has
  // left in progress.
  void RecordCleanup(std::function<void()> cleanup) { cleanups_.push_back(std::move(cleanup)); }

  // Plays everything back and leaves the tape empty. The gradient of the last operation's result
  // must be set, which the loss operations do themselves. FailedPrecondition if nothing was
  // recorded.
  absl::Status Backward();
  // Drops the record without playing it, for a forward whose backward will not come.
  void Clear();

 private:
  void Fail();

  bool recording_ = true;
  std::vector<Entry> entries_;
  std::vector<std::function<void()>> cleanups_;
};

// What dropout's draws are a function of, besides the place in the model and the element.
struct StepDraws {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sample = 0;  // of this forward's batch, in the batch of all ranks and micro-batches
};

// While it exists, nothing is recorded: evaluation and inference.
class NoGradient {
 public:
  explicit NoGradient(Tape& tape) : tape_(tape), before_(tape.recording()) {
    tape_.set_recording(false);
  }
  ~NoGradient() { tape_.set_recording(before_); }
  NoGradient(const NoGradient&) = delete;
  NoGradient& operator=(const NoGradient&) = delete;

 private:
  Tape& tape_;
  const bool before_;
};

// What an operation runs with. Everything outlives the context; one per rank.
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

  // Set before each forward that is trained with dropout; none otherwise, as in evaluation.
  const std::optional<StepDraws>& draws() const { return draws_; }
  void set_draws(std::optional<StepDraws> draws) { draws_ = draws; }

  // Set before a forward whose sequences are packed documents, and left until its backward has run:
  // [batch, seq], int32, as AttentionArgs::starts; undefined otherwise. Tokens then attend within
  // their document, and rotary positions begin anew with it.
  const Tensor& document_starts() const { return document_starts_; }
  void set_document_starts(Tensor starts) { document_starts_ = std::move(starts); }

  // What a loss, a sum over targets, is divided by, fp32 [1] in device memory: where a batch is a
  // part of a larger one over whose targets the mean is. Undefined: by how many of its own count.
  const Tensor& loss_divisor() const { return loss_divisor_; }
  void set_loss_divisor(Tensor divisor) { loss_divisor_ = std::move(divisor); }

  // Where parts of a model add losses of their own, fp32 [1], which the model's loss then has;
  // undefined outside of a forward that is trained, and while activations are computed again.
  const Tensor& extra_loss() const { return extra_loss_; }
  void set_extra_loss(Tensor loss) { extra_loss_ = std::move(loss); }

  // Set while a model computes tokens that follow those of a cache; null otherwise.
  KeyValueCache* cache() const { return cache_; }
  void set_cache(KeyValueCache* cache) { cache_ = cache; }
  // The position of a sequence's first token here.
  int64_t first_position() const { return cache_ == nullptr ? 0 : cache_->size(); }

  // Set while a module is computed whose second forward takes some of the first's outputs; null
  // otherwise.
  KeptOutputs* kept_outputs() const { return kept_outputs_; }
  void set_kept_outputs(KeptOutputs* kept) { kept_outputs_ = kept; }

  // Who shares the layers with this rank; nullptr: nobody. Outlives its use.
  TensorRanks* tensor_ranks() const { return tensor_ranks_; }
  void set_tensor_ranks(TensorRanks* ranks) { tensor_ranks_ = ranks; }
  // Whether these ranks share out the rows of what is between layers (TensorParallelOptions). Set
  // by a model's forward, and left until its backward has run.
  bool rows_are_shared() const { return rows_are_shared_; }
  void set_rows_are_shared(bool shared) { rows_are_shared_ = shared; }

  // An uninitialised activation. Activations are of the type that the parameters they meet are
  // computed in; statistics and losses are fp32.
  absl::StatusOr<Tensor> Empty(Shape shape, DType dtype);
  // A value with a node if the tape is recording.
  Value MakeValue(Tensor data);

 private:
  Device& device_;
  Kernels& kernels_;
  friend class TapeScope;
  Tape* tape_;
  float loss_scale_ = 1.0f;
  std::optional<StepDraws> draws_;
  Tensor document_starts_;
  Tensor loss_divisor_;
  Tensor extra_loss_;
  KeyValueCache* cache_ = nullptr;
  KeptOutputs* kept_outputs_ = nullptr;
  TensorRanks* tensor_ranks_ = nullptr;
  bool rows_are_shared_ = false;
};

// Has operations record on another tape while it exists.
class TapeScope {
 public:
  TapeScope(Context& context, Tape& tape) : context_(context), previous_(context.tape_) {
    context.tape_ = &tape;
  }
  ~TapeScope() { context_.tape_ = previous_; }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  Context& context_;
  Tape* const previous_;
};

// Where an operation's backward writes its contribution to the gradient of `activation`, whose
// shape and type it has. With `accumulate`, it adds to what is there; the tensor is then safe to
// change in place.
struct NodeSlot {
  Tensor tensor;
  bool accumulate = false;
};
absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node,
                                      const Tensor& activation);
// The same for an operation that has not kept the activation.
absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node, const Shape& shape,
                                      DType dtype);
// Records how to go back from an operation's result: `backward` is called with the result's
// gradient and adds to those of the operation's inputs; not called if nothing has used the result.
// Does nothing while recording is off.
void RecordBackward(Context& context, const Value& result,
                    std::function<absl::Status(const Tensor& dresult)> backward);
// A finished tensor as a contribution. It becomes the gradient itself if it is the first: do not
// write to it afterwards.
absl::Status AddGradient(Context& context, GradientNode& node, Tensor contribution);

// The backward of all that was recorded, of loss_scale * `loss`, one element. FailedPrecondition if
// `loss` was not recorded.
absl::Status Backward(Context& context, const Value& loss);

// The full values of a parameter; FailedPrecondition if nobody has made them available.
absl::StatusOr<Tensor> FullValues(const Parameter& parameter);

}  // namespace zeroth

#endif  // ZEROTH_NN_TAPE_H_
