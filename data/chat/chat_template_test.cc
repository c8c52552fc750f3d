// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The formats as their authors describe them: what is expected here was written by hand from the
// model cards of Qwen, Llama 3 and Mistral.

#include "zeroth/data/chat/chat_template.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> Open(const std::string& name) {
  auto tokenizer = OpenTokenizer(absl::StrCat("tests/testdata/tokenizers/", name));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

const std::vector<ChatMessage> kTalk = {{"system", "Be brief."},
                                        {"user", "Hello!"},
                                        {"assistant", "Hi there."},
                                        {"user", "Bye"},
                                        {"assistant", "See you."}};
const std::vector<ChatMessage> kQuestion = {{"user", "Hello!"}};

// What a conversation spells, with what the assistant says in braces.
std::string Spelled(const ChatTemplate& chat, const Tokenizer& tokenizer,
                    const std::vector<ChatMessage>& messages) {
  const auto written = chat.Render(messages);
  EXPECT_TRUE(written.ok()) << written.status();
  if (!written.ok()) return "";
  std::string text;
  std::vector<int32_t> run;
  bool said = false;
  const auto flush = [&] {
    if (run.empty()) return;
    absl::StrAppend(&text, said ? "{" : "", *tokenizer.Decode(run), said ? "}" : "");
    run.clear();
  };
  for (size_t i = 0; i < written->ids.size(); ++i) {
    if (written->by_assistant[i] != said) flush();
    said = written->by_assistant[i];
    run.push_back(written->ids[i]);
  }
  flush();
  return text;
}

std::string SpelledPrompt(const ChatTemplate& chat, const Tokenizer& tokenizer,
                          const std::vector<ChatMessage>& messages) {
  const auto ids = chat.RenderPrompt(messages);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *tokenizer.Decode(*ids) : "";
}

TEST(ChatTemplateTest, ChatMl) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::Named("chatml", *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, *tokenizer, kTalk),
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nHello!<|im_end|>\n"
            "<|im_start|>assistant\n{Hi there.<|im_end|>}\n"
            "<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n{See you.<|im_end|>}\n");
  EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, kQuestion),
            "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(chat->end_of_turn(), tokenizer->Find("<|im_end|>"));
}

// Special tokens are tokens, and between them is the text as the tokenizer encodes it; what spells
// one in a message is text.
TEST(ChatTemplateTest, SpecialTokensAreTokensAndTextIsText) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::Named("chatml", *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const int32_t start = *tokenizer->Find("<|im_start|>");
  const int32_t end = *tokenizer->Find("<|im_end|>");
  std::vector<int32_t> expected;
  const auto add = [&expected](const std::vector<int32_t>& ids) {
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  add({start});
  add(*tokenizer->Encode("user\nSay <|im_end|> now"));
  add({end});
  add(*tokenizer->Encode("\n"));
  add({start});
  add(*tokenizer->Encode("assistant\n"));
  EXPECT_EQ(*chat->RenderPrompt({{"user", "Say <|im_end|> now"}}), expected);
  add(*tokenizer->Encode("No."));
  add({end});
  add(*tokenizer->Encode("\n"));
  EXPECT_EQ(chat->Render({{"user", "Say <|im_end|> now"}, {"assistant", "No."}})->ids, expected);
}

TEST(ChatTemplateTest, QwenTemplatesSayWhatTheirSystemSays) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(
      "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + "
      "messages[0]['content'] + '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>system\\nYou are a "
      "robot.<|im_end|>\\n' }}{%- endif %}",
      *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, kQuestion),
            "<|im_start|>system\nYou are a robot.<|im_end|>\n"
            "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, {{"system", "Own"}, {"user", "x"}}),
            "<|im_start|>system\nOwn<|im_end|>\n"
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, ThoughtsStandBeforeTheLastReplyAlone) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(
      "{{- '<|im_start|>' }}{%- set reasoning_content = "
      "content.split('</think>')[0] %}",
      *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, *tokenizer,
                    {{"user", "a"},
                     {"assistant", "<think>\nfirst\n</think>\n\nb"},
                     {"user", "c"},
                     {"assistant", "<think>\nsecond\n</think>\n\nd"}}),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n"
            "<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n{<think>\nsecond\n</think>\n\nd<|im_end|>}\n");
  EXPECT_EQ(Spelled(*chat, *tokenizer, {{"user", "a"}, {"assistant", "b"}}),
            "<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\n{<think>\n\n</think>\n\nb<|im_end|>}\n");
}

TEST(ChatTemplateTest, Llama3) {
  const auto tokenizer = Open("llama3");
  const auto chat = ChatTemplate::Named("llama3", *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, *tokenizer, kTalk),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{Hi there.<|eot_id|>}"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{See you.<|eot_id|>}");
  EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, {{"user", "  Hello!\n"}}),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  const auto dated = ChatTemplate::FromJinja(
      "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}{{- \"Cutting Knowledge Date: "
      "December 2023\\n\" }}",
      *tokenizer);
  ASSERT_TRUE(dated.ok()) << dated.status();
  EXPECT_EQ(SpelledPrompt(*dated, *tokenizer, {{"system", "Be brief."}, {"user", "Hello!"}}),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
            "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

// A tokenizer without a token [INST], as Mistral's before 0.3.
TEST(ChatTemplateTest, MistralInText) {
  const auto tokenizer = Open("llama2");
  const auto chat = ChatTemplate::FromJinja("{{ bos_token }}{{ '[INST] ' }}", *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->name(), "mistral");
  const auto ids = chat->Render(kTalk);
  ASSERT_TRUE(ids.ok()) << ids.status();
  const int32_t begin = *tokenizer->Find("<s>");
  const int32_t end = *tokenizer->Find("</s>");
  std::vector<int32_t> expected = {begin};
  const auto add = [&](const std::string& text) {
    const auto piece = tokenizer->Encode(text);
    expected.insert(expected.end(), piece->begin(), piece->end());
  };
  add("[INST] Be brief.\n\nHello! [/INST]");
  add("Hi there.");
  expected.push_back(end);
  add("[INST] Bye [/INST]");
  const size_t prompt = expected.size();
  add("See you.");
  expected.push_back(end);
  EXPECT_EQ(ids->ids, expected);
  EXPECT_TRUE(ids->by_assistant[prompt]);
  EXPECT_FALSE(ids->by_assistant[prompt - 1]);
  expected.resize(prompt);
  EXPECT_EQ(*chat->RenderPrompt(absl::MakeConstSpan(kTalk).first(kTalk.size() - 1)), expected);
}

TEST(ChatTemplateTest, OthersAreRefusedByName) {
  const auto tokenizer = Open("qwen2");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ '[INST] <<SYS>>' }}", "Llama 2"},
      {"{{ '<start_of_turn>' }}", "Gemma"},
      {"{{ '<|user|>' }}", "Phi 3"},
      {"{{ '<|im_start|>user<|im_sep|>' }}", "Phi 4"},
      {"{{ '[SYSTEM_PROMPT]' }}[INST]", "Mistral's of 2025"},
      {"{{ 'USER: ' }}", "begins with \"{{ \\'USER: \\' }}\""}};
  for (const auto& [jinja, name] : cases) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(chat.status().message(), HasSubstr(name));
    EXPECT_THAT(chat.status().message(), HasSubstr("--chat_template"));
  }
  EXPECT_THAT(ChatTemplate::Named("llama3", *tokenizer).status().message(),
              HasSubstr("<|begin_of_text|>"));
  EXPECT_THAT(ChatTemplate::Named("chatml", ByteTokenizer()).status().message(),
              HasSubstr("<|im_start|>"));
  EXPECT_THAT(ChatTemplate::Named("gemma", *tokenizer).status().message(),
              HasSubstr("chatml, llama3 or mistral"));
}

TEST(ChatTemplateTest, PlainFormatsAreReadBack) {
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"chatml", "qwen2"}, {"llama3", "llama3"}, {"mistral", "llama2"}};
  for (const auto& [name, tokens] : formats) {
    const auto tokenizer = Open(tokens);
    const auto named = ChatTemplate::Named(name, *tokenizer);
    ASSERT_TRUE(named.ok()) << named.status();
    const auto read = ChatTemplate::FromJinja(named->PlainJinja(), *tokenizer);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->Identity(), named->Identity());
  }
  // The texts that Jinja2 renders as the tests above expect them.
  const auto text_of = [](const std::string& name, const std::string& tokens) {
    const auto tokenizer = Open(tokens);
    return ChatTemplate::Named(name, *tokenizer)->PlainJinja();
  };
  EXPECT_EQ(
      text_of("chatml", "qwen2"),
      "{% for message in messages %}\n"
      "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}\n"
      "{%- endfor %}\n"
      "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  EXPECT_THAT(text_of("llama3", "llama3"),
              HasSubstr("{{- (message['content'] | trim) + '<|eot_id|>' }}"));
  EXPECT_THAT(text_of("mistral", "llama2"),
              AllOf(HasSubstr("message['content'] + ' [/INST]' }}"),
                    HasSubstr("{{- '' + message['content'] + '</s>' }}")));
}

TEST(ChatTemplateTest, SpeakersTakeTurns) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::Named("chatml", *tokenizer);
  const std::vector<std::pair<std::vector<ChatMessage>, std::string>> cases = {
      {{}, "without a message"},
      {{{"assistant", "x"}}, "message 1 is of \"assistant\", expected user"},
      {{{"user", "x"}, {"user", "y"}}, "message 2 is of \"user\", expected assistant"},
      {{{"user", "x"}, {"system", "y"}}, "message 2 is of \"system\""},
      {{{"user", "x"}, {"assistant", "y"}, {"user", "z"}}, "the last message is of \"user\""},
      {{{"system", "x"}}, "the last message is of \"system\""}};
  for (const auto& [messages, text] : cases) {
    const auto written = chat->Render(messages);
    EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(written.status().message(), HasSubstr(text));
  }
  EXPECT_THAT(chat->RenderPrompt({{"user", "x"}, {"assistant", "y"}}).status().message(),
              HasSubstr("the last message is of \"assistant\""));
}

TEST(ChatTemplateTest, OpensWhatIsBesideATokenizer) {
  const auto tokenizer = Open("qwen2");
  const TemporaryDirectory dir;
  const auto none = OpenChatTemplate("auto", dir.path(), *tokenizer);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("--chat_template"));
  EXPECT_EQ(OpenChatTemplate("chatml", dir.path(), *tokenizer)->name(), "chatml");

  dir.Write("tokenizer_config.json", R"({"chat_template": "{{ '<start_of_turn>' }}"})");
  EXPECT_THAT(OpenChatTemplate("auto", dir.path(), *tokenizer).status().message(),
              HasSubstr("tokenizer_config.json"));
  dir.Write("tokenizer_config.json", R"({"chat_template": [{"name": "tools", "template": "[INST]"},
                                      {"name": "default", "template": "<|im_start|>"}]})");
  EXPECT_EQ(OpenChatTemplate("auto", dir.path(), *tokenizer)->name(), "chatml");
  EXPECT_EQ(
      OpenChatTemplate("auto", absl::StrCat(dir.path(), "/tokenizer.json"), *tokenizer)->name(),
      "chatml");
  dir.Write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_FALSE(OpenChatTemplate("auto", dir.path(), *tokenizer).ok());
  // The file of its own comes first, as in transformers.
  dir.Write("chat_template.jinja", "<|im_start|>");
  EXPECT_EQ(OpenChatTemplate("auto", dir.path(), *tokenizer)->name(), "chatml");
}

}  // namespace
}  // namespace zeroth
