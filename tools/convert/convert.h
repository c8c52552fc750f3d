// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_CONVERT_CONVERT_H_
#define ZEROTH_TOOLS_CONVERT_CONVERT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroth {

struct ConvertOptions {
  // A Hugging Face directory, a checkpoint of the trainer (step-N), an adapter of PEFT's, a GGUF
  // file, or a GPT-2 model of llm.c: told apart by what they are, not by their names.
  std::string in;
  // A GGUF file if `in` is a directory and the name ends in .gguf, a Hugging Face directory
  // otherwise. Appears whole or not at all.
  std::string out;
  // Of an adapter: the model that it is merged into; empty: the one that it names.
  std::string base;
  // Of a checkpoint with adapters: "merged" into the model, or "adapter": these alone.
  std::string lora_export = "merged";
  // "auto" (each tensor its own), "fp32", "fp16", "bf16".
  std::string dtype = "auto";
  // Of a GGUF file: "files", "byte", "none", or "auto": the files of `in` if it has them, otherwise
  // byte if the model has that tokenizer's 257 tokens, otherwise none.
  std::string vocabulary = "auto";
  // general.name of a GGUF file; empty: the last part of `in`.
  std::string name;
  // Of a Hugging Face directory: most bytes of a weight file, as ParseByteCount reads them; "0":
  // one file.
  std::string max_shard_size = "0";
};

// Converts. Returns what the user should know, in sentences, what was written first.
// InvalidArgument for options that are wrong or do not apply to what `in` is.
absl::StatusOr<std::vector<std::string>> Convert(const ConvertOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_CONVERT_CONVERT_H_
