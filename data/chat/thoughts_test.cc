// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Thoughts of the assistant, under templates of ChatML as those of Qwen 2 and 3.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kPlain[] = R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

constexpr char kOpened[] = R"({{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\n\n</think>\n\n' }}
{%- endif %})";

// The essential part of Qwen 3's template.
std::string Thinking() {
  return absl::StrCat(R"({%- if messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
{%- set ns.multi_step_tool = false %}
{%- set ns.last_query_index = index %}
{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- elif message.role == "assistant" %}
{%- set content = message.content %}
{%- set reasoning_content = '' %}
{%- if message.reasoning_content is string %}
{%- set reasoning_content = message.reasoning_content %}
{%- else %}
{%- if '</think>' in content %}
{%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- endif %}
{%- if loop.index0 > ns.last_query_index %}
{%- if loop.last or (not loop.last and reasoning_content) %}
{{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + content }}
{%- endif %}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + content }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif message.role == "tool" %}
{{- message.content | trim }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
)",
                      kOpened, "{%- endif %}");
}

class ThoughtsTest : public testing::Test {
 protected:
  absl::StatusOr<ChatTemplate> Read(const std::string& jinja) const {
    return ChatTemplate::FromJinja(jinja, *tokenizer_);
  }

  std::string Spelled(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) const {
    const auto written = chat.Render(messages);
    EXPECT_TRUE(written.ok()) << written.status();
    return written.ok() ? *tokenizer_->Decode(written->ids) : "";
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = *OpenTokenizer("tests/testdata/tokenizers/qwen2");
};

// A turn of each in ChatML.
std::string Turns(const std::string& user, const std::string& assistant) {
  return absl::StrCat("<|im_start|>user\n", user, "<|im_end|>\n<|im_start|>assistant\n", assistant,
                      "<|im_end|>\n");
}

TEST_F(ThoughtsTest, StandBeforeTheLastReplyAlone) {
  const auto chat = Read(Thinking());
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, {{"user", "a"},
                            {"assistant", "<think>\nfirst\n</think>\n\nb"},
                            {"user", "c"},
                            {"assistant", "<think>\nsecond\n</think>\n\nd"}}),
            Turns("a", "b") + Turns("c", "<think>\nsecond\n</think>\n\nd"));
  EXPECT_EQ(Spelled(*chat, {{"user", "a"}, {"assistant", "b"}}),
            Turns("a", "<think>\n\n</think>\n\nb"));
}

TEST_F(ThoughtsTest, OfAMessageAreWrittenAndItsContentIsLeftAsItIs) {
  const auto chat = Read(Thinking());
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, {{"user", "a"},
                            {"assistant", "\nb", "first"},
                            {"user", "c"},
                            {"assistant", "\n</think>d", "\n6*7 is\n\n42.\n"}}),
            Turns("a", "\nb") + Turns("c", "<think>\n6*7 is\n\n42.\n</think>\n\n</think>d"));
  EXPECT_EQ(Spelled(*chat, {{"user", "a"}, {"assistant", "</think>b", ""}}),
            Turns("a", "<think>\n\n</think>\n\n</think>b"));
}

TEST_F(ThoughtsTest, ThatNoTemplateWritesAreRefused) {
  const auto plain = Read(kPlain);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(
      plain->Render({{"user", "a"}, {"assistant", "b", "c"}}).status().message(),
      HasSubstr("message 2 has \"reasoning_content\", which the chat template does not write"));
  EXPECT_EQ(Spelled(*plain, {{"user", "a"}, {"assistant", "b", ""}}), Turns("a", "b"));
  const auto thinking = Read(Thinking());
  ASSERT_TRUE(thinking.ok()) << thinking.status();
  EXPECT_THAT(thinking->Render({{"user", "a", "c"}, {"assistant", "b"}}).status().message(),
              HasSubstr("message 1 has \"reasoning_content\""));
}

TEST_F(ThoughtsTest, OfJsonLinesAreRead) {
  const TemporaryDirectory dir;
  const auto chat = Read(Thinking());
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto encode = [&](const std::string& member) {
    const std::string line =
        absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )",
                     R"("content": "42", "reasoning_content": )", member, "}]}\n");
    return EncodeConversations({{dir.Write("c.jsonl", line), DataFileKind::kJsonLines}}, &*chat,
                               *tokenizer_, {.seq_len = 127});
  };
  const auto said = encode("\"6*7\"");
  ASSERT_TRUE(said.ok()) << said.status();
  const std::vector<int32_t> expected =
      chat->Render({{"user", "a"}, {"assistant", "42", "6*7"}})->ids;
  std::vector<int32_t> ids(expected.size());
  ASSERT_TRUE((*said)->Read(0, absl::MakeSpan(ids)).ok());
  EXPECT_EQ(ids, expected);
  EXPECT_TRUE(encode("null").ok());
  EXPECT_THAT(encode("[1]").status().message(),
              AllOf(HasSubstr("line 1: message 2"), HasSubstr("\"reasoning_content\", a string")));
}

// The prompts of models that always think.
TEST_F(ThoughtsTest, PromptsEndAsTheTemplateSays) {
  for (const auto& [opened, end] : std::vector<std::pair<std::string, std::string>>{
           {kOpened, ""}, {R"({{- '<|im_start|>assistant\n<think>\n' }})", "<think>\n"}}) {
    const auto chat = Read(absl::StrReplaceAll(Thinking(), {{kOpened, opened}}));
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(*tokenizer_->Decode(*chat->RenderPrompt({{"user", "a"}})),
              absl::StrCat("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", end));
  }
}

// Before every reply, only if there are any, or cut from all.
TEST_F(ThoughtsTest, AreWrittenAsTheTemplateSays) {
  const auto spelled = [&](const std::string& jinja, const std::string& from,
                           const std::string& to) {
    EXPECT_THAT(jinja, HasSubstr(from));
    const auto chat = Read(absl::StrReplaceAll(jinja, {{from, to}}));
    EXPECT_TRUE(chat.ok()) << chat.status();
    if (!chat.ok()) return std::string();
    return Spelled(*chat, {{"user", "a"},
                           {"assistant", "<think>\nfirst\n</think>\n\nb"},
                           {"user", "c"},
                           {"assistant", "d"}});
  };
  EXPECT_EQ(spelled(Thinking(), "loop.last or (not loop.last and reasoning_content)",
                    "reasoning_content"),
            Turns("a", "b") + Turns("c", "d"));
  EXPECT_EQ(spelled(kPlain, "message.content", "(message.content.split('</think>\\n\\n')|last)"),
            Turns("a", "b") + Turns("c", "d"));
}

}  // namespace
}  // namespace zeroth
