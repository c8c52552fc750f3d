// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tools/convert/convert.h"

ABSL_FLAG(
    std::string, in, "",
    "What to convert: a Hugging Face directory, a checkpoint of the trainer (step-N), an "
    "adapter of PEFT's, which is merged into its base model, a GGUF file of a model or an adapter, "
    "or a GPT-2 model of llm.c (.bin). Required.");
ABSL_FLAG(std::string, out, "",
          "What to write: a GGUF file (.gguf) or a Hugging Face directory. Required.");
ABSL_FLAG(
    bool, overwrite, false,
    "Replace the model or GGUF file at --out; false: refuse. Anything else is never replaced.");
ABSL_FLAG(std::string, base, "",
          "Hugging Face directory of the base model of an adapter. Empty: the one that the adapter "
          "names; a GGUF adapter names none.");
ABSL_FLAG(std::string, lora_export, "merged",
          "For a checkpoint with LoRA adapters, or an adapter of PEFT's: merged (a plain model) or "
          "adapter (the adapters alone, in PEFT's format or as a GGUF file).");
ABSL_FLAG(
    std::string, dtype, "auto",
    "Type of the tensors: fp32, fp16, bf16, or auto (each tensor keeps its type). Vectors and "
    "position embeddings of a GGUF file are always fp32. For a GGUF file also q8_0 or q4_k_m, "
    "which quantise its matrices as llama.cpp does.");
ABSL_FLAG(std::string, vocabulary, "auto",
          "Vocabulary of a GGUF file: files (tokenizer.json, or tokenizer.model, or vocab.json and "
          "merges.txt, of --in), byte (the trainer's byte tokenizer), none (token ids only), or "
          "auto: the first of these "
          "that fits the model.");
ABSL_FLAG(std::string, name, "", "Name of the model in a GGUF file. Empty: the last part of --in.");
ABSL_FLAG(
    std::string, max_shard_size, "0",
    "Largest size of a weight file in a Hugging Face directory, such as 5GB or 500MiB; a larger "
    "model is split into several files with an index. 0: one file.");

namespace zeroth {
namespace {

absl::Status RunConvert(int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(ParseFlags(
      "Converts models between Hugging Face directories and GGUF files, from llm.c's files, and "
      "between types.\n\n"
      "  ./bazelw run //tools/convert -- --in=zeroth_out/latest/final --out=model.gguf\n"
      "  ./bazelw run //tools/convert -- --in=zeroth_out/latest/final --out=model --dtype=bf16\n"
      "  ./bazelw run //tools/convert -- --in=zeroth_out/latest/final --out=model.gguf "
      "--dtype=q4_k_m",
      "tools/convert/main.cc", "--in=DIRECTORY", argc, argv));
  ConvertOptions options;
  options.in = absl::GetFlag(FLAGS_in);
  options.out = absl::GetFlag(FLAGS_out);
  options.overwrite = absl::GetFlag(FLAGS_overwrite);
  options.base = absl::GetFlag(FLAGS_base);
  options.lora_export = absl::GetFlag(FLAGS_lora_export);
  options.dtype = absl::GetFlag(FLAGS_dtype);
  options.vocabulary = absl::GetFlag(FLAGS_vocabulary);
  options.name = absl::GetFlag(FLAGS_name);
  options.max_shard_size = absl::GetFlag(FLAGS_max_shard_size);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> notes, Convert(options));
  for (const std::string& note : notes) std::printf("%s\n", note.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::RunConvert(argc, argv); });
}
