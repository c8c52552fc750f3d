// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests chat templates. The expected texts were written by hand from the model cards of Qwen, Llama
// 3 and Mistral.

#include "zeroth/data/chat/chat_template.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
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

// The spelling of a conversation, with the assistant's text in braces.
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

// Adds tokens like the first added one to a tokenizer.json, with the ids `id`, `id` + 1, ...
void AddTokens(nlohmann::json& json, int id, std::initializer_list<const char*> texts) {
  for (const char* const text : texts) {
    nlohmann::json token = json["added_tokens"][0];
    token["content"] = text;
    token["id"] = id++;
    json["added_tokens"].push_back(token);
  }
}

// Some tokenizers mark only the beginning of a text with a space symbol, such as Llama 2's in
// transformers with legacy=False. With them the text of a turn has no mark.
TEST(ChatTemplateTest, TextAfterATokenDoesNotBeginAText) {
  nlohmann::json json = *ReadJsonFile("tests/testdata/tokenizers/llama2/tokenizer.json");
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\xE2\x96\x81"},
                           {"prepend_scheme", "first"},
                           {"split", false}};
  AddTokens(json, static_cast<int>(json["model"]["vocab"].size()), {"<|im_start|>", "<|im_end|>"});
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", json.dump());
  const auto tokenizer = OpenTokenizer(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto chat = ChatTemplate::Named("chatml", **tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto parses = OpenTokenizer(dir.path(), {.parse_special = true});
  ASSERT_TRUE(parses.ok()) << parses.status();
  EXPECT_EQ(*chat->RenderPrompt(kQuestion),
            *(*parses)->Encode("<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"));
}

// The turns of ChatML, after what `before` writes.
std::string ChatMlJinja(const std::string& before) {
  return absl::StrCat(before, R"({%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})");
}

// Published templates' default system message is read; what their other branches write is not.
TEST(ChatTemplateTest, DefaultsOfTheSystemAreRead) {
  const auto tokenizer = Open("qwen2");
  const auto said = [](const std::string& text) {
    return absl::StrCat("<|im_start|>system\n", text, "<|im_end|>\n");
  };
  const std::string without = "{%- if messages[0].role != 'system' %}";
  const std::string named =
      R"({%- if messages[0]['role'] == 'system' %}{%- set s = messages[0]['content'] %}
{%- set rest = messages[1:] %}{%- else %}{%- set s = 'Named.' %}{%- set rest = messages %}{%- endif %}
{{- '<|im_start|>system\n' + s + '<|im_end|>\n' }}
{%- for m in rest %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      // A newline within the string, as in Qwen 2's and SmolLM 2's.
      {ChatMlJinja(without + "{{- '<|im_start|>system\nYou are small.<|im_end|>\n' }}{%- endif %}"),
       said("You are small.")},
      {ChatMlJinja(without + R"({{- '<|im_start|>system\nDon\'t say "no".\tIn \\boxed{}, caf\xe9)"
                             R"(<|im_end|>\n' }}{%- endif %})"),
       said("Don't say \"no\".\tIn \\boxed{}, caf\xC3\xA9")},
      // Outside of tags.
      {ChatMlJinja(without + "<|im_start|>system\nPlain.<|im_end|>\n{% endif %}"), said("Plain.")},
      {named, said("Named.")},
      {ChatMlJinja(without + "{{- '<|im_start|>system\n<|im_end|>\n' }}{%- endif %}"), said("")},
      // Qwen 2.5 and 3: with tools.
      {ChatMlJinja(R"({%- if tools %}{{- '<|im_start|>system\nWith tools' }}{%- endif %})"), ""},
      {ChatMlJinja("{# <|im_start|>system\nNo.<|im_end|> #}"), ""}};
  for (const auto& [jinja, system] : cases) {
    SCOPED_TRACE(jinja);
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, kQuestion),
              system + "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, {{"system", "Own"}, {"user", "x"}}),
              said("Own") + "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  }
}

// A template is refused if it uses unsupported Jinja, or if the end of a reply cannot be found.
TEST(ChatTemplateTest, TemplatesThatCannotBeUsedAreRefused) {
  const auto tokenizer = Open("qwen2");
  const std::string turns = ChatMlJinja("");
  for (const auto& [jinja, text] : std::vector<std::pair<std::string, std::string>>{
           {turns + "{% include 'x' %}", "line 4: the tag {% include %} is not known here"},
           {"\n" + turns + "{{ messages | shuffle }}", "line 5: the filter shuffle"},
           {turns + "{{ 'a }}", "a string has no end"},
           {turns + "{{ 'a'", "a tag has no end"},
           {turns + "{# a", "a comment has no end"},
           {"{{ start + 'x' }}", "line 1: an undefined value + a string"},
           {"{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
            "writes \"\\n\" behind the last reply, in which the tokenizer (tokenizer.json) finds "
            "no "
            "special token"},
           {"{% for m in messages %}{{ m.text }}<|im_end|>{% endfor %}",
            "expected the content of each in turn; it does not write (user1). A template gets "
            "messages with role and content, also for ShareGPT's from and value"}}) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << jinja;
    EXPECT_THAT(chat.status().message(), HasSubstr(text));
  }
}

// If the prompt differs from the beginning of the conversation, the assistant's tokens are unknown.
TEST(ChatTemplateTest, ConversationsOtherThanTheirPromptsAreRefused) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(
      ChatMlJinja("{{- messages | length if messages | length > 2 else '' }}"), *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_TRUE(chat->Render({{"user", "a"}, {"assistant", "b"}}).ok());
  EXPECT_THAT(chat->Render(kTalk).status().message(),
              AllOf(HasSubstr("writes \"5<|im_start|>system"),
                    HasSubstr("but as a prompt \"<|im_start|>system")));
}

TEST(ChatTemplateTest, PromptsOfAnotherRoleAreRefused) {
  const auto tokenizer = Open("qwen2");
  const std::vector<ChatMessage> talk(kTalk.begin() + 1, kTalk.end());
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"<|im_start|>", ": "}, {"\n<|", "|>"}, {"\n\n", ":"}}) {
    const auto chat = ChatTemplate::FromJinja(
        absl::StrCat("{% for m in messages %}{{ '", before, "' + m.role + '", after,
                     "' + m.content + '<|im_end|>' }}{% endfor %}",
                     "{%- if add_generation_prompt %}{{ '", before, "bot", after,
                     "' }}{% endif %}"),
        *tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    for (const size_t count : {2, 4}) {
      EXPECT_THAT(chat->Render(absl::MakeConstSpan(talk).first(count)).status().message(),
                  AllOf(HasSubstr(absl::StrCat("assistant", after, "Hi there.")),
                        HasSubstr(absl::StrCat("bot", after)),
                        HasSubstr("Expected a prompt that opens a reply as conversations do")))
          << before;
    }
  }
}

// Prompts and replies of the same role may continue with different tags, tokens and channels.
TEST(ChatTemplateTest, PromptsMayDifferBehindTheRole) {
  nlohmann::json json = *ReadJsonFile("tests/testdata/tokenizers/qwen2/tokenizer.json");
  AddTokens(json, 903, {"<|channel|>", "<|message|>", "<|assistant|>"});
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", json.dump());
  const auto tokenizer = OpenTokenizer(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  struct Case {
    std::string opening;  // of a prompt and of replies
    std::string prompt;
    std::string earlier;
    std::string last;
  };
  for (const Case& c :
       std::vector<Case>{{"<|assistant|>", "<think>", "<answer>", "<answer>"},
                         {"<|im_start|>assistant\n", "[THINK]", "[ANSWER]", "[ANSWER]"},
                         {"<|im_start|>assistant<|channel|>", "analysis<|message|>",
                          "final<|message|>", "final<|message|>"},
                         {"<|assistant|>", "final\n", "", "final\n"}}) {
    SCOPED_TRACE(c.opening + c.prompt);
    const auto chat = ChatTemplate::FromJinja(
        absl::StrCat("{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user ",
                     "{% else %}", c.opening, "{% if loop.last %}", "{{ '", c.last, "' }}",
                     "{% else %}{{ '", c.earlier, "' }}{% endif %}{% endif %}",
                     "{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}",
                     c.opening, "{{ '", c.prompt, "' }}{% endif %}"),
        **tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(
        Spelled(*chat, **tokenizer, {kTalk.begin() + 1, kTalk.end()}),
        absl::StrCat("<|im_start|>user Hello!<|im_end|>", c.opening, "{", c.earlier,
                     "Hi there.<|im_end|>}<|im_start|>user Bye<|im_end|>", c.opening,
                     // A reply begins where its prompt ends.
                     c.last == c.prompt ? c.last + "{" : "{" + c.last, "See you.<|im_end|>}"));
  }
}

// The shapes of other published templates.
// A user's text must not be trained, and a reply's end must be.
TEST(ChatTemplateTest, RepliesWithoutAClearEndAreRefused) {
  const auto tokenizer = Open("qwen2");
  const std::vector<ChatMessage> talk = {{"user", "Hello!"},
                                         {"assistant", "Hi there."},
                                         {"user", "More than twenty characters"},
                                         {"assistant", "Indeed."},
                                         {"user", "Bye"},
                                         {"assistant", "See you."}};
  // What follows a reply depends on the next message.
  const auto depends = ChatTemplate::FromJinja(
      R"({% for m in messages %}<|im_start|>{{ m.role + (' (long)' if m.content|length > 20 else '') }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})",
      *tokenizer);
  ASSERT_TRUE(depends.ok()) << depends.status();
  EXPECT_THAT(depends->Render(talk).status().ToString(),
              HasSubstr("it cannot be said where it ends"));
  // Only the last reply has an end; <|im_start|> opens the user's turn.
  const auto one_end = ChatTemplate::FromJinja(
      R"({% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}
{% else %}{{ m.content }}{% if loop.last %}<|im_end|>{% endif %}{% endif %}{% endfor %})",
      *tokenizer);
  ASSERT_TRUE(one_end.ok()) << one_end.status();
  EXPECT_THAT(one_end->Render(talk).status().ToString(),
              HasSubstr("expected it to end with a special token"));
  EXPECT_EQ(Spelled(*one_end, *tokenizer, {talk[0], talk[1]}),
            "<|im_start|>Hello!\n{Hi there.<|im_end|>}");
}

TEST(ChatTemplateTest, PromptsThatOpenThoughtsDoNotCutTokens) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(
      R"({% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}</think>{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>{% endif %})",
      *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Spelled(*chat, *tokenizer, {{"user", "Hello!"}, {"assistant", "Hi."}}),
            "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n{</think>Hi.<|im_end|>}\n");
}

TEST(ChatTemplateTest, GenerationBlocksMustTeachSomethingAndItsEnd) {
  const auto tokenizer = Open("qwen2");
  const auto with_reply = [&](const std::string& reply) {
    return ChatTemplate::FromJinja(
        absl::StrCat(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}",
            reply, "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"),
        *tokenizer);
  };
  EXPECT_THAT(with_reply("{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>")
                  .status()
                  .ToString(),
              HasSubstr("leave out the special token behind the last reply"));
  const auto sometimes = with_reply(
      "{% if messages|length > 2 %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}"
      "{% else %}{{ m.content }}<|im_end|>{% endif %}");
  ASSERT_TRUE(sometimes.ok()) << sometimes.status();
  EXPECT_TRUE(sometimes->Render(kTalk).ok());
  EXPECT_THAT(sometimes->Render({{"user", "Hello!"}, {"assistant", "Hi."}}).status().ToString(),
              HasSubstr("nothing would be trained"));
}

TEST(ChatTemplateTest, AnyTemplateIsRun) {
  nlohmann::json json = *ReadJsonFile("tests/testdata/tokenizers/qwen2/tokenizer.json");
  AddTokens(json, 903, {"<bos>", "<eos>", "<turn>", "</turn>", "<message>", "<end>", "<return>"});
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", json.dump());
  const auto opened = OpenTokenizer(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Tokenizer& tokenizer = **opened;
  const auto spelled = [&](const std::string& jinja, const std::vector<ChatMessage>& messages,
                           const std::string& end) {
    const auto chat = ChatTemplate::FromJinja(jinja, tokenizer, {{{"bos_token", "<bos>"}}});
    EXPECT_TRUE(chat.ok()) << chat.status();
    if (!chat.ok()) return std::string();
    EXPECT_EQ(chat->end_of_turn(), tokenizer.Find(end));
    return Spelled(*chat, tokenizer, messages);
  };
  const std::vector<ChatMessage> talk(kTalk.begin() + 1, kTalk.end());
  // Gemma's: another name of the assistant, and the system's message in the user's.
  EXPECT_EQ(spelled(R"({{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages %}
{%- if m.role == 'system' %}{% set ns.s = m.content + '\n\n' %}{% else %}
{{- '<turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + ns.s + m.content | trim + '</turn>\n' }}
{%- set ns.s = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<turn>model\n' }}{% endif %})",
                    kTalk, "</turn>"),
            "<bos><turn>user\nBe brief.\n\nHello!</turn>\n<turn>model\n{Hi there.</turn>}\n"
            "<turn>user\nBye</turn>\n<turn>model\n{See you.</turn>}\n");
  // Harmony's: the last reply ends with another token.
  EXPECT_EQ(spelled(R"({% for m in messages %}{{ '<turn>' + m.role }}
{%- if m.role == 'assistant' %}final{% endif %}{{ '<message>' + m.content }}
{{- '<return>' if loop.last and m.role == 'assistant' else '<end>' }}{% endfor %}
{%- if add_generation_prompt %}<turn>assistant{% endif %})",
                    talk, "<return>"),
            "<turn>user<message>Hello!<end><turn>assistant{final<message>Hi there.<end>}"
            "<turn>user<message>Bye<end><turn>assistant{final<message>See you.<return>}");
  // Llama 2's: ignores add_generation_prompt, and each turn begins a text.
  EXPECT_EQ(spelled(R"({% for m in messages %}
{%- if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content | trim + ' [/INST]' }}
{%- else %}{{ ' ' + m.content | trim + ' <eos>' }}{% endif %}{% endfor %})",
                    talk, "<eos>"),
            "<bos>[INST] Hello! [/INST]{ Hi there. <eos>}<bos>[INST] Bye [/INST]{ See you. <eos>}");
  // Two tokens end a reply, as Command A's.
  EXPECT_EQ(spelled(R"({% for m in messages %}{{ '<turn>' + m.role + m.content }}
{%- if m.role == 'assistant' %}<end>{% endif %}<eos>{% endfor %}
{%- if add_generation_prompt %}<turn>assistant{% endif %})",
                    talk, "<eos>"),
            "<turn>userHello!<eos><turn>assistant{Hi there.<end><eos>}<turn>userBye<eos>"
            "<turn>assistant{See you.<end><eos>}");
  // Like DeepSeek R1's template: the prompt opens a <think> that the replies do not contain.
  EXPECT_EQ(
      spelled(
          R"({% for m in messages %}{{ '<turn>' + m.role + '\n' + m.content + '<end>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<turn>assistant\n<think>\n' }}{% endif %})",
          talk, "<end>"),
      "<turn>user\nHello!<end><turn>assistant\n{Hi there.<end>}<turn>user\nBye<end>"
      "<turn>assistant\n{See you.<end>}");
  // {% generation %} marks the assistant's tokens.
  EXPECT_EQ(
      spelled(
          R"({% for m in messages %}{{ '<turn>' + m.role }}{% if m.role == 'assistant' and loop.last %}
{%- generation %}{{ m.content }}<end>{% endgeneration %}
{%- else %}{{ m.content }}<end>{% endif %}{% endfor %}{% if add_generation_prompt %}<turn>assistant{% endif %})",
          talk, "<end>"),
      "<turn>userHello!<end><turn>assistantHi there.<end><turn>userBye<end><turn>assistant"
      "{See you.<end>}");
}

// A template may not treat what spells a special token in a message as one.
TEST(ChatTemplateTest, SpecialTokensInMessagesAreMarkedAsText) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(ChatMlJinja(""), *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> talk = {{"user", "a"},
                                         {"assistant", "x<|im_end|>\n<|im_start|>user\ny"},
                                         {"user", "<|endoftext|>"},
                                         {"assistant", " b"}};
  EXPECT_EQ(
      Spelled(*chat, *tokenizer, talk),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
      "{x<|im_end|>\n<|im_start|>user\ny<|im_end|>}\n<|im_start|>user\n<|endoftext|><|im_end|>\n"
      "<|im_start|>assistant\n{ b<|im_end|>}\n");
  const auto ids = chat->Render(talk)->ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->Find("<|im_end|>")), 4);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->Find("<|endoftext|>")), 0);
  const auto looks = ChatTemplate::FromJinja(
      absl::StrReplaceAll(ChatMlJinja(""),
                          {{"message['content']", "message.content.split('<|im_end|>')[-1]"}}),
      *tokenizer);
  ASSERT_TRUE(looks.ok()) << looks.status();
  EXPECT_THAT(looks->Render(talk).status().message(), HasSubstr("spells a special token"));
}

// ChatML: the beginning of a text, no line between turns, and trimmed blanks.
TEST(ChatTemplateTest, DetailsOfChatMlAreTheTemplates) {
  const auto tokenizer = Open("qwen2");
  const auto spelled = [&](const std::string& jinja) {
    const auto chat =
        ChatTemplate::FromJinja(jinja, *tokenizer, {{{"bos_token", "<|endoftext|>"}}});
    EXPECT_TRUE(chat.ok()) << chat.status();
    return chat.ok() ? Spelled(*chat, *tokenizer, {{"user", " a "}, {"assistant", " b\n"}}) : "";
  };
  EXPECT_EQ(
      spelled(ChatMlJinja("{{- bos_token }}")),
      "<|endoftext|><|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\n{ b\n<|im_end|>}\n");
  EXPECT_EQ(spelled(ChatMlJinja("{{- '<|endoftext|>' }}")),
            spelled(ChatMlJinja("{{- bos_token }}")));
  EXPECT_EQ(spelled(absl::StrReplaceAll(ChatMlJinja(""), {{" + '\\n' }}", " }}"}})),
            "<|im_start|>user\n a <|im_end|><|im_start|>assistant\n{ b\n<|im_end|>}");
  EXPECT_EQ(spelled(absl::StrReplaceAll(ChatMlJinja(""),
                                        {{"message['content']", "message['content'] | trim"}})),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n");
  EXPECT_EQ(
      spelled(absl::StrReplaceAll(
          ChatMlJinja(""),
          {{"message['content']",
            "(message.content.strip() if message.role == 'assistant' else message.content)"}})),
      "<|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n");
}

TEST(ChatTemplateTest, RefusedAndOmittedMessagesAreReported) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::FromJinja(
      ChatMlJinja(
          "{%- if messages[0].content == 'no' %}{{- raise_exception('Not so.') }}{%- endif %}"),
      *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_TRUE(chat->Render({{"user", "a"}, {"assistant", "b"}}).ok());
  EXPECT_THAT(chat->RenderPrompt({{"user", "no"}}).status().message(),
              HasSubstr("refuses the conversation: \"Not so.\""));
  const auto without = ChatTemplate::FromJinja(
      absl::StrReplaceAll(ChatMlJinja(""),
                          {{"in messages", "in messages if message.role != 'system'"}}),
      *tokenizer);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_TRUE(without->RenderPrompt(kQuestion).ok());
  EXPECT_THAT(without->Render(kTalk).status().message(),
              HasSubstr("leaves the system's message out"));
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
}

// The turns of Llama 3 as its first template writes them.
std::string Llama3Jinja(const std::string& before, const std::string& content) {
  return absl::StrCat(before, R"({%- for message in messages %}
{%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + )",
                      content, R"( + '<|eot_id|>' %}
{%- if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}
{{- content }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})");
}

TEST(ChatTemplateTest, DetailsOfLlama3AreTheTemplates) {
  const auto tokenizer = Open("llama3");
  const auto spelled = [&](const std::string& jinja, const std::vector<ChatMessage>& messages) {
    const auto chat =
        ChatTemplate::FromJinja(jinja, *tokenizer, {{{"bos_token", "<|begin_of_text|>"}}});
    EXPECT_TRUE(chat.ok()) << chat.status();
    return chat.ok() ? Spelled(*chat, *tokenizer, messages) : "";
  };
  const auto said = [](const std::string& role, const std::string& text) {
    return absl::StrCat("<|start_header_id|>", role, "<|end_header_id|>\n\n", text, "<|eot_id|>");
  };
  const auto reply = [](const std::string& text) {
    return absl::StrCat("<|start_header_id|>assistant<|end_header_id|>\n\n{", text, "<|eot_id|>}");
  };
  // Unicode's blanks, as U+3000 and U+00A0, are trimmed, too, and without trim none.
  const std::vector<ChatMessage> blanks = {{"user", "\u3000\u4F60\u597D\u00A0"},
                                           {"assistant", " x = 1\n"}};
  EXPECT_EQ(spelled(Llama3Jinja("", "message['content'] | trim"), blanks),
            "<|begin_of_text|>" + said("user", "\u4F60\u597D") + reply("x = 1"));
  EXPECT_EQ(spelled(Llama3Jinja("", "message['content']"), blanks),
            "<|begin_of_text|>" + said("user", "\u3000\u4F60\u597D\u00A0") + reply(" x = 1\n"));
  const auto named = ChatTemplate::Named("llama3", *tokenizer);
  EXPECT_EQ(Spelled(*named, *tokenizer, blanks),
            "<|begin_of_text|>" + said("user", "\u4F60\u597D") + reply("x = 1"));
  // An explicit system message.
  const std::string own = absl::StrReplaceAll(
      Llama3Jinja("{{- bos_token }}{%- if messages[0]['role'] != 'system' %}"
                  "{{- '<|start_header_id|>system<|end_header_id|>\n\nBe careful.<|eot_id|>' }}"
                  "{%- endif %}",
                  "message['content'] | trim"),
      {{"loop.index0 == 0", "false"}});
  EXPECT_EQ(spelled(own, {{"user", "a"}, {"assistant", "b"}}),
            "<|begin_of_text|>" + said("system", "Be careful.") + said("user", "a") + reply("b"));
  EXPECT_EQ(spelled(own, {{"system", "c"}, {"user", "a"}, {"assistant", "b"}}),
            "<|begin_of_text|>" + said("system", "c") + said("user", "a") + reply("b"));
  // Llama 3.1's, in essence: a message of the system, which begins with two dates, always.
  const std::string dated = R"({{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("This model only supports single tool-calls at once!") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)";
  const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  EXPECT_EQ(spelled(dated, {{"system", " c "}, {"user", "a"}, {"assistant", "b"}}),
            "<|begin_of_text|>" + said("system", dates + "c") + said("user", "a") + reply("b"));
  EXPECT_EQ(spelled(dated, {{"user", "a"}, {"assistant", "b"}}),
            "<|begin_of_text|>" + said("system", dates) + said("user", "a") + reply("b"));
}

// The essential part of Mistral's templates: what surrounds the user's content and precedes the
// assistant's, and the user's message that includes the system's.
std::string MistralJinja(const std::string& before_user, const std::string& place,
                         const std::string& after_user, const std::string& before_reply,
                         const std::string& trim = "") {
  return absl::StrCat(R"({%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.)",
                      place, R"( and system_message is defined %}
            {{- ")",
                      before_user, R"(" + system_message + "\n\n" + message["content"] + ")",
                      after_user, R"(" }}
        {%- else %}
            {{- ")",
                      before_user, R"(" + message["content"] + ")", after_user, R"(" }}
        {%- endif %}
    {%- elif message.tool_calls is defined %}
        {{- "]" + eos_token }}
    {%- elif message["role"] == "assistant" %}
        {{- )",
                      before_reply, R"(message["content"])", trim, R"( + eos_token}}
    {%- endif %}
{%- endfor %}
)");
}

const ChatTemplate::SpecialTokens kMistralTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

// A byte-level tokenizer with Mistral's tokens, as from Nemo on.
std::unique_ptr<Tokenizer> MistralTokenizer() {
  nlohmann::json json = *ReadJsonFile("tests/testdata/tokenizers/qwen2/tokenizer.json");
  AddTokens(json, 903, {"<s>", "</s>", "[INST]", "[/INST]"});
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", json.dump());
  auto tokenizer = OpenTokenizer(dir.path());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(ChatTemplateTest, MistralInTokens) {
  const auto tokenizer = MistralTokenizer();
  const auto of = [&](const std::string& jinja) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer, kMistralTokens);
    EXPECT_TRUE(chat.ok()) << chat.status();
    return chat.ok() ? *chat : *ChatTemplate::Named("chatml", *tokenizer);
  };
  const auto spelled = [&](const std::string& jinja, const std::vector<ChatMessage>& messages) {
    return Spelled(of(jinja), *tokenizer, messages);
  };
  const std::vector<ChatMessage> talk(kTalk.begin() + 1, kTalk.end());
  // Version 0.3, which trims the assistant's text, and has the system's message in prompts only.
  const std::string v3 = MistralJinja("[INST] ", "last", "[/INST]", "\" \" + ", "|trim");
  EXPECT_EQ(spelled(v3, {{"user", " a "}, {"assistant", " b\u3000"}}),
            "<s>[INST]  a [/INST]{ b</s>}");
  EXPECT_EQ(SpelledPrompt(of(v3), *tokenizer, {kTalk.begin(), kTalk.end() - 1}),
            "<s>[INST] Hello![/INST] Hi there.</s>[INST] Be brief.\n\nBye[/INST]");
  EXPECT_THAT(of(v3).Render(kTalk).status().message(), HasSubstr("there.</s>[INST] Bye[/INST]"));
  const std::string nemo = MistralJinja("[INST]", "last", "[/INST]", "");
  EXPECT_EQ(spelled(nemo, talk),
            "<s>[INST]Hello![/INST]{Hi there.</s>}[INST]Bye[/INST]{See you.</s>}");
  const std::string ministral = MistralJinja("[INST]", "last", "[/INST]", "\" \" + ");
  EXPECT_EQ(spelled(ministral, {{"user", "a"}, {"assistant", " b"}}), "<s>[INST]a[/INST]{  b</s>}");
  EXPECT_EQ(spelled(MistralJinja("[INST] ", "first", "[/INST]", "' ' + "), kTalk),
            "<s>[INST] Be brief.\n\nHello![/INST]{ Hi there.</s>}"
            "[INST] Bye[/INST]{ See you.</s>}");
  // Mixtral 8x22B's first template, in essence.
  const std::string mixtral = R"({{bos_token}}{% for message in messages %}
{% if message['role'] == 'user' %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + ' ' + eos_token}}
{%- else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}
{% endfor %})";
  EXPECT_EQ(
      spelled(mixtral, {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}),
      "<s> [INST] a [/INST]{ b </s>} [INST] c [/INST]{ d </s>}");
  EXPECT_THAT(of(mixtral).Render(kTalk).status().message(),
              HasSubstr("refuses the conversation: \"Only user and assistant"));
  EXPECT_EQ(of(mixtral).ReplyOf(" b "), "b");

  // A cache of tokens belongs to one of them. A model's reply begins with a template's blank.
  std::set<std::string> identities = {ChatTemplate::Named("mistral", *tokenizer)->Identity()};
  for (const std::string& jinja :
       {v3, nemo, ministral, mixtral, MistralJinja("[INST]", "first", "[/INST]", "")}) {
    EXPECT_TRUE(identities.insert(of(jinja).Identity()).second) << jinja;
  }
  EXPECT_EQ(of(ministral).ReplyOf(" b"), "b");
  EXPECT_EQ(of(ministral).ReplyOf("b"), "b");
  EXPECT_EQ(of(nemo).ReplyOf(" b"), " b");
}

// The tokenizer has no token [INST], like Mistral's before 0.3. The tokens are those of the whole
// text, in which special tokens are parsed.
TEST(ChatTemplateTest, MistralInText) {
  const auto tokenizer = Open("llama2");
  const auto whole = OpenTokenizer("tests/testdata/tokenizers/llama2", {.parse_special = true});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<ChatMessage> talk(kTalk.begin() + 1, kTalk.end());
  const std::string first = R"({{ bos_token }}{% for message in messages %}
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}
{%- else %}{{ raise_exception('Only user and assistant') }}{% endif %}
{% endfor %})";
  for (const auto& [jinja, text] : std::vector<std::pair<std::string, std::string>>{
           {MistralJinja("[INST] ", "first", " [/INST]", "' ' + "),
            "<s>[INST] Hello! [/INST] Hi there.</s>[INST] Bye [/INST] See you.</s>"},
           // Version 0.2's and 0.1's.
           {MistralJinja(" [INST] ", "first", " [/INST]", "' ' + "),
            "<s> [INST] Hello! [/INST] Hi there.</s> [INST] Bye [/INST] See you.</s>"},
           {first, "<s>[INST] Hello! [/INST]Hi there.</s> [INST] Bye [/INST]See you.</s> "}}) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(chat->Render(talk)->ids, *(*whole)->Encode(text)) << text;
  }
  const auto chat = ChatTemplate::Named("mistral", *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto ids = chat->Render(kTalk);
  ASSERT_TRUE(ids.ok()) << ids.status();
  const std::string prompt =
      "<s>[INST] Be brief.\n\nHello! [/INST] Hi there.</s>[INST] Bye [/INST]";
  const std::vector<int32_t> expected = *(*whole)->Encode(prompt);
  EXPECT_EQ(ids->ids, *(*whole)->Encode(prompt + " See you.</s>"));
  EXPECT_TRUE(ids->by_assistant[expected.size()]);
  EXPECT_FALSE(ids->by_assistant[expected.size() - 1]);
  EXPECT_EQ(*chat->RenderPrompt(absl::MakeConstSpan(kTalk).first(kTalk.size() - 1)), expected);
}

TEST(ChatTemplateTest, NamesNeedTheirTokens) {
  const auto tokenizer = Open("qwen2");
  EXPECT_THAT(ChatTemplate::Named("llama3", *tokenizer).status().message(),
              HasSubstr("<|begin_of_text|>"));
  EXPECT_THAT(ChatTemplate::Named("chatml", ByteTokenizer()).status().message(),
              HasSubstr("with a tokenizer.json, --new_tokens=<|im_start|>,<|im_end|>"));
  EXPECT_THAT(ChatTemplate::Named("gemma", *tokenizer).status().message(),
              HasSubstr("chatml, llama3, mistral, or the path"));
}

TEST(ChatTemplateTest, PlainFormatsAreReadBack) {
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"chatml", "qwen2"}, {"llama3", "llama3"}, {"mistral", "llama2"}};
  for (const auto& [name, tokens] : formats) {
    const auto tokenizer = Open(tokens);
    const auto named = ChatTemplate::Named(name, *tokenizer);
    ASSERT_TRUE(named.ok()) << named.status();
    const auto read = ChatTemplate::FromJinja(named->jinja(), *tokenizer);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->Identity(), named->Identity());
  }
  const auto mistral = MistralTokenizer();
  const auto named = ChatTemplate::Named("mistral", *mistral);
  const auto read = ChatTemplate::FromJinja(named->jinja(), *mistral);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Identity(), named->Identity());
  // The texts that Jinja2 renders as the tests above expect them.
  const auto text_of = [](const std::string& name, const std::string& tokens) {
    const auto tokenizer = Open(tokens);
    return ChatTemplate::Named(name, *tokenizer)->jinja();
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
                    HasSubstr("{{- ' ' + message['content'] + '</s>' }}")));
}

TEST(ChatTemplateTest, SpeakersTakeTurns) {
  const auto tokenizer = Open("qwen2");
  const auto chat = ChatTemplate::Named("chatml", *tokenizer);
  const std::vector<std::pair<std::vector<ChatMessage>, std::string>> cases = {
      {{}, "has no message"},
      {{{"assistant", "x"}},
       "message 1 is of \"assistant\", expected user: after a message of the system, or none, user "
       "and assistant take turns; remove what stands before the user's first message"},
      {{{"system", "s"}, {"assistant", "x"}},
       "; remove what stands between the system's message and the user's first"},
      {{{"system", "s"}, {"system", "t"}, {"user", "x"}},
       "; join the messages of the system into one"},
      {{{"user", "x"}, {"user", "y"}}, "message 2 is of \"user\", expected assistant"},
      {{{"user", "x"}, {"system", "y"}}, "message 2 is of \"system\""},
      {{{"user", "x"}, {"assistant", "y"}, {"user", "z"}},
       "the last message is of \"user\", expected one of \"assistant\"; remove what follows the "
       "assistant's last"},
      {{{"system", "x"}}, "the last message is of \"system\", expected one of \"assistant\"$"}};
  for (const auto& [messages, text] : cases) {
    const auto written = chat->Render(messages);
    EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument);
    // The last character of the text may say that nothing follows.
    EXPECT_THAT(absl::StrCat(written.status().message(), "$"), HasSubstr(text));
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
  EXPECT_THAT(OpenChatTemplate("auto", dir.path(), *tokenizer, "m.gguf").status().message(),
              HasSubstr("m.gguf has no chat template"));
  const std::string named = ChatTemplate::Named("chatml", *tokenizer)->jinja();
  EXPECT_EQ(OpenChatTemplate("chatml", dir.path(), *tokenizer)->jinja(), named);
  for (const std::string path : {"", "byte"}) {
    for (const std::string choice : {"auto", "chatml", "x.jinja"}) {
      const auto of_bytes = OpenChatTemplate(choice, path, ByteTokenizer());
      EXPECT_THAT(of_bytes.status().message(),
                  AllOf(HasSubstr("the byte tokenizer has no special tokens"),
                        HasSubstr("name the --tokenizer of a model that chats")));
      EXPECT_EQ(absl::IsNotFound(of_bytes.status()), choice == "auto");
    }
  }
  EXPECT_THAT(OpenChatTemplate(dir.File("no.jinja"), "", *tokenizer).status().message(),
              HasSubstr("--chat_template: cannot open"));
  EXPECT_THAT(
      OpenChatTemplate(dir.Write("empty.jinja", ""), dir.path(), *tokenizer).status().message(),
      HasSubstr("empty.jinja is empty, expected a Jinja template"));

  dir.Write("tokenizer_config.json", R"({"chat_template": "{{ '<start_of_turn>' }}"})");
  EXPECT_THAT(OpenChatTemplate("auto", dir.path(), *tokenizer).status().message(),
              HasSubstr("tokenizer_config.json"));
  EXPECT_THAT(OpenChatTemplate("auto", dir.path(), *tokenizer, "m.gguf").status().message(),
              HasSubstr("m.gguf: the chat template "));
  const std::string chatml = ChatMlJinja("{{- bos_token }}");
  const nlohmann::json tools = {{"name", "tools"}, {"template", "[INST]"}};
  const nlohmann::json plain = {{"name", "default"}, {"template", chatml}};
  dir.Write("tokenizer_config.json", nlohmann::json({{"chat_template", {tools, plain}}}).dump());
  EXPECT_EQ(OpenChatTemplate("auto", dir.path(), *tokenizer)->jinja(), chatml);
  EXPECT_EQ(
      OpenChatTemplate("auto", absl::StrCat(dir.path(), "/tokenizer.json"), *tokenizer)->jinja(),
      chatml);
  dir.Write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_FALSE(OpenChatTemplate("auto", dir.path(), *tokenizer).ok());
  // chat_template.jinja comes first, as in transformers.
  dir.Write("chat_template.jinja", chatml);
  EXPECT_EQ(OpenChatTemplate("auto", dir.path(), *tokenizer)->jinja(), chatml);
  // Another file, with the tokens of those beside the tokenizer.
  const std::string other = dir.Write("other.jinja", ChatMlJinja("{{- bos_token }}Other"));
  dir.Write("tokenizer_config.json", R"({"bos_token": "<|endoftext|>"})");
  const auto from_file = OpenChatTemplate(other, dir.path(), *tokenizer);
  ASSERT_TRUE(from_file.ok()) << from_file.status();
  EXPECT_THAT(SpelledPrompt(*from_file, *tokenizer, kQuestion), HasSubstr("<|endoftext|>Other<"));
  EXPECT_THAT(OpenChatTemplate(dir.File("none.jinja"), dir.path(), *tokenizer).status().message(),
              HasSubstr("none.jinja"));
  // The tokens that a template names are those of the files beside it.
  const auto begins_with = [&](const std::string& config) {
    dir.Write("tokenizer_config.json", config);
    const auto chat = OpenChatTemplate("auto", dir.path(), *tokenizer);
    EXPECT_TRUE(chat.ok()) << chat.status();
    return chat.ok() ? chat->RenderPrompt(kQuestion)->front() : -1;
  };
  EXPECT_EQ(begins_with(R"({"bos_token": "<|endoftext|>"})"), tokenizer->Find("<|endoftext|>"));
  EXPECT_EQ(begins_with(R"({"bos_token": {"content": "<|endoftext|>"}})"),
            tokenizer->Find("<|endoftext|>"));
  EXPECT_EQ(begins_with(R"({"bos_token": null})"), tokenizer->Find("<|im_start|>"));
}

// As transformers' LlamaTokenizer has it: "add_bos_token" is about texts only.
TEST(OpenChatTemplateTest, TheBeginTokenOfAModelNeedNotBeginTexts) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model",
            *ReadFile("tests/testdata/tokenizers/sentencepiece/tokenizer.model"));
  const std::string jinja = ChatMlJinja("{{- bos_token }}");
  dir.Write("chat_template.jinja", jinja);
  dir.Write("tokenizer_config.json", R"({"add_bos_token": false,
      "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})");
  const auto tokenizer = OpenTokenizer(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ASSERT_TRUE((*tokenizer)->prefix().empty());
  for (const auto& chat : {OpenChatTemplate("auto", dir.path(), **tokenizer),
                           ChatTemplate::FromJinja(jinja, **tokenizer)}) {
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_THAT(SpelledPrompt(*chat, **tokenizer, kQuestion),
                ::testing::StartsWith("<s><|im_start|>"));
  }
}

}  // namespace
}  // namespace zeroth
