// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_HF_CONVERT_H_
#define ZEROTH_CHECKPOINT_HF_CONVERT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

struct HfConvertOptions {
  // Type of every tensor: fp32, bf16 or fp16; nothing: each its own. bf16 and fp16 round to
  // nearest; fp16 refuses values that it cannot hold.
  std::optional<DType> dtype;
  HfDirectoryOptions directory;
};

// Writes `model` once more, of any family, with its config and tokenizer files, in another type or
// divided into other files. Streams: a few MiB at a time. InvalidArgument, naming the tensor, for
// one that is not floating-point; OutOfRange for a value beyond fp16's; else as HfDirectoryWriter.
absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options = {});

// The same for a model that comes from elsewhere: writes `copies` of its tensors, whose types are
// those that `options` ask for or else their own, with its config and the files of a tokenizer.
absl::Status WriteHfDirectory(const WeightsSource& source, HfConfig config,
                              std::vector<TensorCopy> copies,
                              const std::vector<std::string>& tokenizer_files,
                              const std::string& directory, const HfConvertOptions& options);

// `config` saying that its weights are of `dtype`, under the key that it says so with already
// ("dtype" since transformers 4.56, "torch_dtype" before, and where there is neither).
absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_HF_CONVERT_H_
