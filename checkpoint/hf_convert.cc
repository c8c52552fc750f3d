// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_convert.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype) {
  nlohmann::json json = config.json();
  json[config.Has("dtype") && !config.Has("torch_dtype") ? "dtype" : "torch_dtype"] =
      TorchDTypeName(dtype);
  return HfConfig::Parse(json.dump(), config.where());
}

absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options) {
  std::vector<TensorCopy> copies;
  for (const std::string& name : model.weights().names()) {
    TensorCopy copy;
    copy.from = name;
    copy.to = name;
    ZEROTH_ASSIGN_OR_RETURN(copy.dtype, KeepingDType(model.weights(), name));
    copy.dtype = options.dtype.value_or(copy.dtype);
    copies.push_back(std::move(copy));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorDeclaration> tensors,
                          DeclareCopies(model.weights(), copies));
  HfConfig config = model.config();
  if (options.dtype) {
    ZEROTH_ASSIGN_OR_RETURN(config, WithDType(config, *options.dtype));
  }
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<HfDirectoryWriter> writer,
      HfDirectoryWriter::Create(directory, config, std::move(tensors), options.directory));
  for (const std::string& file : model.TokenizerFiles()) {
    ZEROTH_RETURN_IF_ERROR(writer->CopyTokenizerFile(file));
  }
  ZEROTH_RETURN_IF_ERROR(
      CopyTensors(model.weights(), copies,
                  [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
                    return writer->Write(name, begin, values);
                  }));
  return writer->Finish();
}

}  // namespace zeroth
