// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/nn/generate.h"
#include "zeroth/tools/model/loaded_model.h"
#include "zeroth/train/text_generation.h"

ABSL_FLAG(std::string, prompt, "",
          "The text that the model continues; empty: it starts a new text.");
ABSL_FLAG(int64_t, max_tokens, 200, "Largest number of tokens to generate.");
ABSL_FLAG(
    double, temperature, 0.8,
    "Logits are divided by this before a token is drawn; 0: always choose the likeliest token.");
ABSL_FLAG(int64_t, top_k, 0, "Draw among this many of the likeliest tokens; 0: all.");
ABSL_FLAG(double, top_p, 1.0,
          "Draw among the fewest likeliest tokens whose probabilities add up to this; 1: all.");
ABSL_FLAG(uint64_t, seed, 0, "Seed of the draws.");
ABSL_FLAG(bool, chat, false,
          "Answer as the assistant of a conversation: once to --prompt, or to each line of the "
          "standard input, with the conversation so far as context.");
ABSL_FLAG(
    std::string, chat_template, "auto",
    "With --chat, the format of conversations: auto (the model's own template), chatml, llama3, "
    "mistral, or the path of a .jinja file.");
ABSL_FLAG(std::string, system, "",
          "With --chat, the system message at the beginning; empty: none.");

namespace zeroth {
namespace {

// Returns the number of bytes at the end of `text` that are the beginning of an incomplete UTF-8
// character.
size_t UnfinishedLength(absl::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // inside a character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

// Prints text as its tokens arrive. A character may need several tokens.
class TokenPrinter {
 public:
  TokenPrinter(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt)
      : tokenizer_(tokenizer), prompt_(prompt) {}

  absl::Status Add(int32_t token) {
    tokens_.push_back(token);
    return Print(/*end=*/false);
  }
  // Prints the rest, even if it is an incomplete character.
  absl::Status End() { return Print(/*end=*/true); }
  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  absl::Status Print(bool end) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string text,
                            DecodeContinuation(tokenizer_, prompt_, tokens_));
    const absl::string_view all(text);
    const absl::string_view rest = all.substr(std::min(printed_, all.size()));
    const size_t ready = rest.size() - (end ? 0 : UnfinishedLength(rest));
    std::fputs(Printable(rest.substr(0, ready)).c_str(), stdout);
    std::fflush(stdout);
    printed_ += ready;
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const std::vector<int32_t>& prompt_;
  std::vector<int32_t> tokens_;
  size_t printed_ = 0;  // bytes of the text
};

// Prints the continuation of `prompt`, and returns its tokens.
absl::StatusOr<std::vector<int32_t>> Continue(LoadedModel& loaded, const Tokenizer& tokenizer,
                                              const GenerateOptions& options,
                                              const std::vector<int32_t>& prompt) {
  TokenPrinter printer(tokenizer, prompt);
  // The first token needs a forward over the prompt, each later one a forward of one position.
  const absl::Time begin = absl::Now();
  absl::Time first = begin;
  const absl::StatusOr<std::vector<int32_t>> generated = Generate(
      loaded.model(), prompt, options,
      [&](absl::Span<const int32_t> tokens, int64_t from, KeyValueCache* cache) {
        return loaded.Logits(tokens, from, cache);
      },
      [&](int32_t token) {
        if (printer.tokens() == 0) first = absl::Now();
        return printer.Add(token);
      });
  ZEROTH_RETURN_IF_ERROR(printer.End());
  std::fputc('\n', stdout);
  std::fflush(stdout);  // before output to stderr
  ZEROTH_RETURN_IF_ERROR(generated.status());
  const double prompt_seconds = absl::ToDoubleSeconds(first - begin);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - first);
  const int64_t later = printer.tokens() - 1;
  std::string speed;
  if (later > 0) {
    speed = absl::StrFormat(", then %.1f tokens/s", static_cast<double>(later) / seconds);
  }
  absl::FPrintF(stderr, "%d tokens; %d of the prompt in %.2f s%s\n", printer.tokens(),
                prompt.size(), prompt_seconds, speed);
  return generated;
}

// Answers --prompt, or each line of the standard input with the conversation so far as context.
absl::Status Chat(LoadedModel& loaded, const Tokenizer& tokenizer, GenerateOptions options) {
  ZEROTH_ASSIGN_OR_RETURN(const ChatTemplate chat,
                          loaded.OpenChat(absl::GetFlag(FLAGS_chat_template), tokenizer));
  options.stop_tokens.push_back(chat.end_of_turn());
  std::vector<ChatMessage> messages;
  const std::string system = absl::GetFlag(FLAGS_system);
  if (!system.empty()) messages.push_back({"system", system});
  const auto answer = [&](const std::string& text) -> absl::Status {
    messages.push_back({"user", text});
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, chat.RenderPrompt(messages));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> reply,
                            Continue(loaded, tokenizer, options, prompt));
    ZEROTH_ASSIGN_OR_RETURN(const std::string said, DecodeContinuation(tokenizer, prompt, reply));
    messages.push_back({"assistant", std::string(chat.ReplyOf(said))});
    return absl::OkStatus();
  };
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  if (!prompt.empty()) return answer(prompt);
  std::fputs("> ", stderr);
  for (std::string line; std::getline(std::cin, line); std::fputs("> ", stderr)) {
    if (!line.empty()) ZEROTH_RETURN_IF_ERROR(answer(line));
  }
  return absl::OkStatus();
}

absl::Status RunGenerate(int argc, char** argv) {
  ZEROTH_ASSIGN_OR_RETURN(
      const LoadModelOptions load,
      ParseModelFlags("Continues a text with a model.\n\n"
                      "  ./bazelw run //tools/generate -- --model=zeroth_out/latest/final "
                      "--prompt='Once upon a'",
                      argc, argv));
  GenerateOptions options;
  options.max_tokens = absl::GetFlag(FLAGS_max_tokens);
  options.sampling.temperature = absl::GetFlag(FLAGS_temperature);
  options.sampling.top_k = absl::GetFlag(FLAGS_top_k);
  options.sampling.top_p = absl::GetFlag(FLAGS_top_p);
  options.seed = absl::GetFlag(FLAGS_seed);
  // Checked before a large model is read.
  ZEROTH_RETURN_IF_ERROR(ValidateGenerate(options));
  const bool has_system = !absl::GetFlag(FLAGS_system).empty();
  if (!absl::GetFlag(FLAGS_chat) && (has_system || absl::GetFlag(FLAGS_chat_template) != "auto")) {
    return InvalidArgument(has_system ? "--system" : "--chat_template",
                           " needs --chat: without it, the model continues --prompt as it is");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> loaded, LoadedModel::Open(load));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, loaded->OpenTokenizer());
  options.vocab_size = tokenizer->vocab_size();
  ZEROTH_ASSIGN_OR_RETURN(options.stop_tokens, loaded->StopTokens(*tokenizer));
  if (absl::GetFlag(FLAGS_chat)) return Chat(*loaded, *tokenizer, options);
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, PromptTokens(*tokenizer, prompt));
  std::fputs(Printable(prompt).c_str(), stdout);
  return Continue(*loaded, *tokenizer, options, ids).status();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::RunGenerate(argc, argv); });
}
