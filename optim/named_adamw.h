// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/adamw.h"

namespace zeroth {

// AdamW on flat fp32 buffers of the caller, whole parameters or shards, identified by name. Kernels
// and moments are those of AdamW, so a buffer with a parameter's name gets the same bits: with
// 8-bit moments those of min_8bit_numel = 0, and with moments that are rounded if it begins with
// the parameter, since draws count from the buffer's first element. Used by one thread only.
class NamedAdamW {
 public:
  using Buffers = std::map<std::string, Tensor>;
  // Buffers in host memory, which is copied to the device and back.
  using Spans = std::map<std::string, absl::Span<float>>;
  using ConstSpans = std::map<std::string, absl::Span<const float>>;

  // Allocates zeroed moments for buffers of these lengths. All have moments of
  // AdamWOptions::state_dtype: min_8bit_numel counts the elements of whole parameters, and a buffer
  // may be a shard, whose length depends on the number of ranks. `device` and `kernels` outlive the
  // optimizer. InvalidArgument if a length is negative or an option is out of its range.
  static absl::StatusOr<std::unique_ptr<NamedAdamW>> Create(
      Device& device, Kernels& kernels, const std::map<std::string, int64_t>& lengths,
      const AdamWOptions& options);

  // Returns what to add to each buffer that has a gradient, as new tensors, and advances the
  // moments. Leaves out weight decay, which needs the values. InvalidArgument names a buffer that
  // is unknown or of another length, with both lengths, and changes nothing.
  absl::StatusOr<Buffers> Step(const Buffers& gradients, double lr);
  // Updates `params` in place, weight decay included; every gradient needs its buffer.
  absl::Status StepOnParams(const Buffers& params, const Buffers& gradients, double lr);

  // Like the functions above, with the same errors, but on plain host memory. Synchronous.
  absl::StatusOr<std::map<std::string, std::vector<float>>> Step(const ConstSpans& gradients,
                                                                 double lr);
  absl::Status StepOnParams(const Spans& params, const ConstSpans& gradients, double lr);
  // Calls StepOnParams on every buffer at once: `params` and `gradients` hold them back to back in
  // the order of their names, as a flat shard does. InvalidArgument states both lengths if a span's
  // length is not the total of all buffers.
  absl::Status UpdateShards(absl::Span<float> params, absl::Span<const float> gradients, double lr);

  // Returns the bytes of all moments.
  int64_t MemoryBytes() const;

 private:
  struct State {
    Tensor m;
    Tensor v;
    Tensor m_scale;  // with 8-bit moments
    Tensor v_scale;
    uint64_t stream = 0;  // of the draws that round this buffer's moments
    int64_t step = 0;     // steps of this buffer, without those that it skips; for bias correction
  };

  NamedAdamW(Device& device, Kernels& kernels, const AdamWOptions& options)
      : device_(device), kernels_(kernels), options_(options) {}
  absl::Status ZeroMoments(int64_t length, State& state) const;
  template <typename Span>
  absl::StatusOr<Buffers> Upload(const std::map<std::string, Span>& spans, const char* what) const;
  absl::Status CheckLength(const std::string& name, int64_t length, const char* what) const;
  absl::Status Check(const Buffers& buffers, const char* what) const;
  absl::Status Update(State& state, const Tensor& param, const Tensor& gradient, double lr,
                      double decay);

  Device& device_;
  Kernels& kernels_;
  AdamWOptions options_;
  std::map<std::string, State> states_;
};

}  // namespace zeroth
