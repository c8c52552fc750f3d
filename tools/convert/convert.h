// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroth {

struct ConvertOptions {
  // A Hugging Face directory, a checkpoint of the trainer (step-N), an adapter of PEFT's, a GGUF
  // file, or a GPT-2 model of llm.c. The content decides which, not the name.
  std::string in;
  // A GGUF file if `in` is a directory and the name ends in .gguf; otherwise a Hugging Face
  // directory, or a PEFT directory if `in` is a GGUF adapter. Appears complete or not at all.
  std::string out;
  // Replaces what is at `out`, if Convert could have written it.
  bool overwrite = false;
  // The base model of an adapter; empty: the one that the adapter names. A GGUF adapter names none.
  std::string base;
  // For adapters of a checkpoint, or of PEFT: "merged" (a plain model) or "adapter" (the adapters
  // alone; of a PEFT directory, only as a GGUF file).
  std::string lora_export = "merged";
  // "auto" (each tensor keeps its type), "fp32", "fp16" or "bf16"; for a GGUF file of a model also
  // "q8_0" or "q4_k_m" (GgufMix).
  std::string dtype = "auto";
  // Vocabulary of a GGUF file: "files", "byte", "none", or "auto": files if `in` has tokenizer
  // files, else byte if the model has the byte tokenizer's 257 tokens, else none.
  std::string vocabulary = "auto";
  // general.name of a GGUF file; empty: the last part of `in`.
  std::string name;
  // The maximum size of a weight file in a Hugging Face directory, as ParseByteCount reads it; "0":
  // one file.
  std::string max_shard_size = "0";
};

// Converts `in` to `out`. Returns sentences for the user, the first of which says what was written.
// InvalidArgument for options that are wrong or do not apply to `in`; AlreadyExists if `out` may
// not be replaced.
absl::StatusOr<std::vector<std::string>> Convert(const ConvertOptions& options);

}  // namespace zeroth
