// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/model/model_flags.h"

#include <string>

#include "absl/flags/flag.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"

ABSL_FLAG(
    std::string, model, "",
    "A Hugging Face directory, a checkpoint of the trainer (step-N), or an adapter of PEFT's. "
    "Required.");
ABSL_FLAG(
    std::string, base, "",
    "Of an adapter: the Hugging Face directory that it is merged into; the one that it names.");
ABSL_FLAG(std::string, tokenizer, "auto",
          "A tokenizer's directory or file, byte, or auto: the model's own.");
ABSL_FLAG(bool, parse_special, false,
          "Text that spells a special token is that token; otherwise it is text like any other.");
ABSL_FLAG(std::string, precision, "fp32", "What the model is computed in: fp32, bf16 or fp16.");
ABSL_FLAG(std::string, device, "cpu", "The kind of device to compute on.");
ABSL_FLAG(int, threads, 0, "Threads of the CPU; 0: one for each core.");

namespace zeroth {

absl::StatusOr<LoadModelOptions> ParseModelFlags(absl::string_view usage, int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(ParseFlags(usage, "tools/", "--model=DIRECTORY", argc, argv));
  LoadModelOptions options;
  options.model = absl::GetFlag(FLAGS_model);
  options.base = absl::GetFlag(FLAGS_base);
  options.tokenizer = absl::GetFlag(FLAGS_tokenizer);
  options.parse_special = absl::GetFlag(FLAGS_parse_special);
  options.precision = absl::GetFlag(FLAGS_precision);
  options.device = absl::GetFlag(FLAGS_device);
  options.threads = absl::GetFlag(FLAGS_threads);
  return options;
}

}  // namespace zeroth
