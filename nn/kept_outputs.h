// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Selective activation checkpointing: a forward that will be computed again keeps some outputs of
// its operations, and the second forward computes only the rest.

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

// The outputs that one module's forward has kept. Both forwards make the same calls in the same
// order.
class KeptOutputs {
 public:
  // True for every second product with weights, beginning with the first.
  bool KeepsNextProduct() { return products_++ % 2 == 0; }

  void Keep(Tensor output) { kept_.push_back(std::move(output)); }
  // The second forward begins, and takes the kept outputs, the earliest first.
  void BeginSecond() {
    is_second_ = true;
    products_ = 0;
  }
  bool is_second() const { return is_second_; }
  // FailedPrecondition if the second forward has taken fewer outputs than the first has kept.
  absl::Status ExpectAllTaken() const;
  // FailedPrecondition if the second forward takes more outputs than the first has kept.
  absl::StatusOr<Tensor> Take();

 private:
  std::deque<Tensor> kept_;
  int64_t products_ = 0;
  bool is_second_ = false;
};

// Runs `make`, which writes a product with weights to `outputs`, or takes the kept outputs in its
// place. Undefined outputs are left out. Copies are kept, since a later operation may change an
// output in place.
absl::Status MakeOrTakeProduct(Context& context, absl::Span<const Matrix> outputs,
                               absl::FunctionRef<absl::Status()> make);

// The same for a product with weights whose result is a sum over ranks. It counts as a product, and
// is always kept.
absl::StatusOr<Tensor> MakeOrTakeSum(Context& context,
                                     absl::FunctionRef<absl::StatusOr<Tensor>()> make);

}  // namespace zeroth

#endif  // ZEROTH_NN_KEPT_OUTPUTS_H_
