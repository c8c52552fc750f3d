// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Selective activation checkpointing: what a forward that will be computed again keeps of its
// operations' outputs, so that the second forward computes only the rest.

#ifndef ZEROTH_NN_KEPT_OUTPUTS_H_
#define ZEROTH_NN_KEPT_OUTPUTS_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Of one module's forward. Both forwards make the same calls in the same order.
class KeptOutputs {
 public:
  // Of the products with weights every second one is kept, and the first is.
  bool KeepsNextProduct() { return products_++ % 2 == 0; }

  void Keep(Tensor output) { kept_.push_back(std::move(output)); }
  // From now on the forward is the second one, which takes what was kept, earliest first.
  void BeginSecond() {
    is_second_ = true;
    products_ = 0;
  }
  bool is_second() const { return is_second_; }
  // FailedPrecondition if the second forward has ended before it took all.
  absl::Status ExpectAllTaken() const;
  // FailedPrecondition if the second forward asks for more than the first has kept.
  absl::StatusOr<Tensor> Take();

 private:
  std::deque<Tensor> kept_;
  int64_t products_ = 0;
  bool is_second_ = false;
};

// Has operations keep their outputs, or take them, while it exists. `kept` may be null.
class KeptOutputsScope {
 public:
  KeptOutputsScope(Context& context, KeptOutputs* kept)
      : context_(context), previous_(context.kept_outputs()) {
    context.set_kept_outputs(kept);
  }
  ~KeptOutputsScope() { context_.set_kept_outputs(previous_); }
  KeptOutputsScope(const KeptOutputsScope&) = delete;
  KeptOutputsScope& operator=(const KeptOutputsScope&) = delete;

 private:
  Context& context_;
  KeptOutputs* const previous_;
};

// A product with weights that `make` writes to `outputs`; undefined ones are left out. Kept are
// copies, since what follows may change an output in place.
absl::Status MakeOrTakeProduct(Context& context, absl::Span<const Matrix> outputs,
                               absl::FunctionRef<absl::Status()> make);

// A product with weights whose result is a sum over ranks. It counts as a product, and is always
// kept.
absl::StatusOr<Tensor> MakeOrTakeSum(Context& context,
                                     absl::FunctionRef<absl::StatusOr<Tensor>()> make);

}  // namespace zeroth

#endif  // ZEROTH_NN_KEPT_OUTPUTS_H_
