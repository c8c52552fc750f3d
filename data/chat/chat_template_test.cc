// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The formats as their authors describe them: what is expected here was written by hand from the
// model cards of Qwen, Llama 3 and Mistral.

#include "zeroth/data/chat/chat_template.h"

#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

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

// Adds tokens like the first added one to a tokenizer.json, with the ids `id`, `id` + 1, ...
void AddTokens(nlohmann::json& json, int id, std::initializer_list<const char*> texts) {
  for (const char* const text : texts) {
    nlohmann::json token = json["added_tokens"][0];
    token["content"] = text;
    token["id"] = id++;
    json["added_tokens"].push_back(token);
  }
}

// Of a tokenizer that marks the beginning of a text alone, as those that transformers makes of
// Llama 2's with legacy=False, a turn's text has no mark.
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

// The default as published templates have it; what their other branches write is no default.
TEST(ChatTemplateTest, DefaultsOfTheSystemAreRead) {
  const auto tokenizer = Open("qwen2");
  const std::string turns = "{{'<|im_start|>' + message['role'] + '\n' + message['content']}}";
  const auto said = [](const std::string& text) {
    return absl::StrCat("<|im_start|>system\n", text, "<|im_end|>\n");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      // A newline within the string, as Qwen 2's and SmolLM 2's have it.
      {"{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are "
       "small.<|im_end|>\n' }}{% endif %}",
       said("You are small.")},
      // Escapes, as Qwen 2.5 Math's, and quotes.
      {R"({{- '<|im_start|>system\nPut it in \\boxed{}.<|im_end|>\n' }})",
       said("Put it in \\boxed{}.")},
      {R"({{- '<|im_start|>system\nDon\'t say "no".\tEver\d<|im_end|>\n' }})",
       said("Don't say \"no\".\tEver\\d")},
      {R"({{- "<|im_start|>system\n" + "It's in two." + "<|im_end|>\n" }})", said("It's in two.")},
      // Outside of tags.
      {"{% if loop.first %}<|im_start|>system\nPlain.<|im_end|>\n{% endif %}", said("Plain.")},
      // By a name.
      {"{% set system_message = 'Named.' %}{% set system_message = messages[0]['content'] %}"
       "{{ '<|im_start|>system\n' + system_message + '<|im_end|>\n' }}",
       said("Named.")},
      {"{% set ns.content = 'Of a namespace.' %}"
       "{{ '<|im_start|>system\n' + ns.content + '<|im_end|>\n' }}",
       said("Of a namespace.")},
      {"{{ '<|im_start|>system\n<|im_end|>\n' }}", said("")},
      // Qwen 2.5 and 3: with tools, and what the conversation says.
      {R"({%- if tools %}{{- '<|im_start|>system\n' }}{%- if messages[0].role == 'system' %}
          {{- messages[0].content + '\n\n' }}{%- else %}{{- 'With tools' }}{%- endif %}
          {%- else %}{%- if messages[0].role == 'system' %}
          {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}
          {%- endif %})",
       ""},
      {"{{ '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}", ""},
      {"<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n", ""},
      {R"({%- if not tools %}{{- '<|im_start|>system\nWithout.<|im_end|>' }}{%- else %}
          {{- '<|im_start|>system\nTools: ' + tools }}{%- endif %})",
       said("Without.")},
      // Qwen 3 VL, and LFM 2.
      {R"({%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' }}
          {%- if messages[0].content is string %}{{- messages[0].content }}{%- endif %}
          {{- '<|im_end|>\n' }}{%- endif %})",
       ""},
      {R"({% if tools %}{% set s = s + 'Tools: ' + tools %}{% endif %}{% if s %}
          {{- '<|im_start|>system\n' + s + '<|im_end|>\n' }}{% endif %})",
       ""},
      {"{# <|im_start|>system\nNo.<|im_end|> #}", ""}};
  for (const auto& [jinja, system] : cases) {
    SCOPED_TRACE(jinja);
    const auto chat = ChatTemplate::FromJinja(jinja + turns, *tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(SpelledPrompt(*chat, *tokenizer, kQuestion),
              system + "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n");
  }
}

TEST(ChatTemplateTest, DefaultsOfTheSystemThatCannotBeReadAreRefused) {
  const auto tokenizer = Open("qwen2");
  for (const auto& [jinja, text] : std::vector<std::pair<std::string, std::string>>{
           {R"({{ '<|im_start|>system\nToday is ' + date + '<|im_end|>\n' }})", "comes date"},
           {R"({{ '<|im_start|>system\n' }}{% if x %}{{ 'a' }}{% endif %})", "comes if x"},
           {R"({{ '<|im_start|>system\nYou' }})", "the template's end"},
           {R"({{ '<|im_start|>system\nCaf\xe9<|im_end|>\n' }})", "an escape"},
           {R"({{ '<|im_start|>system\nA<|im_end|>\n<|im_start|>system\nB<|im_end|>' }})", "two"},
           {R"({% set s = 'Today is ' + date %}{{ '<|im_start|>system\n' + s + '<|im_end|>' }})",
            "made from \"Today is \""},
           {R"({% set s = 'A' %}{{ '<|im_start|>system\n' + s + date + '<|im_end|>' }})",
            "more than s"},
           {R"({{ '<|im_start|>system\nA<|im_end|>)", "a string at byte 3 has no end"},
           {R"({{ '<|im_start|>')", "a tag at byte 2 has no end"},
           {R"({# '<|im_start|>')", "a comment at byte 0 has no end"}}) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << jinja;
    EXPECT_THAT(chat.status().message(), HasSubstr(text));
  }
  const TemporaryDirectory dir;
  dir.Write("chat_template.jinja", "<|im_start|>system\nToday is {{ date }}");
  EXPECT_THAT(OpenChatTemplate("auto", dir.path(), *tokenizer).status().message(),
              AllOf(HasSubstr("chat_template.jinja"), HasSubstr("--chat_template=chatml")));
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

// The essential part of Mistral's templates: the text around the user's and before the assistant's
// content, and the user's message that the system's stands before.
std::string MistralJinja(const std::string& before_user, const std::string& place,
                         const std::string& after_user, const std::string& before_reply,
                         const std::string& trim = "") {
  return absl::StrCat(R"({%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {{- '{"type": "function"}}' }}
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
  const auto spelled = [&](const std::string& jinja, const std::vector<ChatMessage>& messages) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    EXPECT_TRUE(chat.ok()) << chat.status();
    return chat.ok() ? Spelled(*chat, *tokenizer, messages) : "";
  };
  // Version 0.3, which trims what the assistant says.
  const std::string v3 = MistralJinja("[INST] ", "last", "[/INST]", "\" \" + ", "|trim");
  EXPECT_EQ(spelled(v3, {{"user", " a "}, {"assistant", " b "}}), "<s>[INST]  a [/INST]{ b</s>}");
  EXPECT_EQ(spelled(v3, kTalk),
            "<s>[INST] Hello![/INST]{ Hi there.</s>}"
            "[INST] Be brief.\n\nBye[/INST]{ See you.</s>}");
  const std::string nemo = MistralJinja("[INST]", "last", "[/INST]", "");
  EXPECT_EQ(spelled(nemo, kTalk),
            "<s>[INST]Hello![/INST]{Hi there.</s>}[INST]Be brief.\n\nBye[/INST]{See you.</s>}");
  const std::string ministral = MistralJinja("[INST]", "last", "[/INST]", "\" \" + ");
  EXPECT_EQ(spelled(ministral, {{"user", "a"}, {"assistant", " b"}}), "<s>[INST]a[/INST]{  b</s>}");
  EXPECT_EQ(spelled(MistralJinja("[INST] ", "first", "[/INST]", "' ' + "), kTalk),
            "<s>[INST] Be brief.\n\nHello![/INST]{ Hi there.</s>}"
            "[INST] Bye[/INST]{ See you.</s>}");
  // Mixtral 8x22B's first template.
  const std::string mixtral =
      "{{bos_token}}{{ ' [INST] ' + message['content'] + ' [/INST]' }}"
      "{{ ' ' + message['content'] + ' ' + eos_token}}";
  EXPECT_EQ(
      spelled(mixtral, {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}),
      "<s> [INST] a [/INST]{ b </s>} [INST] c [/INST]{ d </s>}");
  const auto nowhere = ChatTemplate::FromJinja(mixtral, *tokenizer);
  EXPECT_THAT(nowhere->Render(kTalk).status().message(), HasSubstr("has no place"));
  EXPECT_EQ(nowhere->ReplyOf(" b "), "b");

  // A cache of tokens belongs to one of them. What a model says begins with a template's blank.
  const auto of = [&](const std::string& jinja) {
    return *ChatTemplate::FromJinja(jinja, *tokenizer);
  };
  std::set<std::string> identities = {ChatTemplate::Named("mistral", *tokenizer)->Identity()};
  for (const std::string& jinja :
       {v3, nemo, ministral, mixtral, MistralJinja("[INST]", "first", "[/INST]", "")}) {
    EXPECT_TRUE(identities.insert(of(jinja).Identity()).second) << jinja;
  }
  EXPECT_EQ(of(ministral).ReplyOf(" b"), "b");
  EXPECT_EQ(of(ministral).ReplyOf("b"), "b");
  EXPECT_EQ(of(nemo).ReplyOf(" b"), " b");
}

TEST(ChatTemplateTest, OtherTemplatesWithInstAreRefused) {
  const auto tokenizer = MistralTokenizer();
  const std::string user = "{{ '[INST] ' + message['content'] + '[/INST]' }}";
  const std::string reply = "{{ ' ' + message['content'] + eos_token }}";
  for (const auto& [jinja, text] : std::vector<std::pair<std::string, std::string>>{
           {"[INST] {{ message['content'] }} [/INST]" + reply, "outside of {{"},
           {"{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}" + reply, "bos_token+"},
           {"{% set x = '[INST]' + message['content'] + '[/INST]' %}" + reply, "set x="},
           {user, "nothing writes the assistant's turns"},
           {reply + "[/INST]{# [INST] #}", "nothing writes the user's turns"},
           {user + reply + "{{ message['content'] + eos_token }}", "assistant's turns in two ways"},
           {user + "{{ '[INST]' + message['content'] + '[/INST]' }}" + reply,
            "user's turns in two ways"},
           {user + reply + "{% if message['role'] == 'system' %}", "the message of the system"},
           {MistralJinja("[INST]", "index", "[/INST]", ""), "the message of the system"},
           {"{% set system_message = 'Be nice.' %}" + MistralJinja("[INST]", "last", "[/INST]", ""),
            "system of its own"},
           {user + "{{ ' ' + message['content'] + eos_token + ' ' }}", "assistant's turns"}}) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << jinja;
    EXPECT_THAT(chat.status().message(),
                AllOf(HasSubstr(text), HasSubstr("--chat_template=mistral")));
  }
}

// A tokenizer without a token [INST], as Mistral's before 0.3.
TEST(ChatTemplateTest, MistralInText) {
  const auto tokenizer = Open("llama2");
  const auto chat = ChatTemplate::FromJinja(
      "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
      "{{ message['content'] + eos_token + ' ' }}",
      *tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->name(), "mistral");
  // Version 0.2's, of which the tokenizer writes the blanks that begin a turn.
  const auto blanks =
      ChatTemplate::FromJinja(MistralJinja(" [INST] ", "first", " [/INST]", "' ' + "), *tokenizer);
  ASSERT_TRUE(blanks.ok()) << blanks.status();
  EXPECT_EQ(blanks->Render(kTalk)->ids, chat->Render(kTalk)->ids);
  EXPECT_EQ(blanks->ReplyOf(" Hi there."), "Hi there.");
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
  const auto mistral = MistralTokenizer();
  const auto named = ChatTemplate::Named("mistral", *mistral);
  const auto read = ChatTemplate::FromJinja(named->PlainJinja(), *mistral);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Identity(), named->Identity());
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
