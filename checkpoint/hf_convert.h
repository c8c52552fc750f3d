// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_HF_CONVERT_H_
#define ZEROTH_CHECKPOINT_HF_CONVERT_H_

#include <map>
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
  // Type of every tensor: fp32, bf16 or fp16; if empty, each tensor keeps its own. bf16 and fp16
  // round to nearest; fp16 refuses values that it cannot hold.
  std::optional<DType> dtype;
  HfDirectoryOptions directory;
};

// Writes a copy of `model`, of any family, with its config and tokenizer files, in another type or
// divided into other files. Holds a few MiB at a time. InvalidArgument names a tensor that is not
// floating-point; OutOfRange names a value that fp16 cannot hold; errors of HfDirectoryWriter.
absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options = {});

// Writes a model directory out of parts: `copies` of tensors of `source`, whose dtypes `options`
// decide, a config, and tokenizer files (content by name). Errors as above.
absl::Status WriteHfDirectory(const WeightsSource& source, HfConfig config,
                              std::vector<TensorCopy> copies,
                              const std::map<std::string, std::string>& tokenizer_files,
                              const std::string& directory, const HfConvertOptions& options);

// Returns `config` with the dtype of its weights set. The key is the one that the config has:
// "dtype" (transformers 4.56 and later) or "torch_dtype", which is also the default.
absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_HF_CONVERT_H_
