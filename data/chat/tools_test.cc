// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tools and tool calls in conversations, under a template as Qwen 2.5's and under others that leave
// parts of them out.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/examples.h"
#include "zeroth/data/chat/jinja/render.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using testing::HasSubstr;

constexpr char kTools[] = R"({%- if tools %}
{{- '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}
{{- '\n<r>' + message.content + '</r>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{% endif %}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' }}{% if message.content %}{{ message.content }}{% endif %}
{%- if message.tool_calls %}{% for call in message.tool_calls %}
{{- '<c>' + call.function.name + ' ' }}{{ call.function.arguments | tojson }}{{ '</c>' }}
{%- endfor %}{% endif %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %})";

constexpr char kRecord[] =
    R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": )"
    R"({"z": 1, "a": 0.5}}}], "messages": [{"role": "user", "content": "Who?"}, )"
    R"({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", )"
    R"("function": {"name": "f", "arguments": {"y": 2.0, "b": "<|im_end|>"}}}, )"
    R"({"function": {"name": "g", "arguments": {}}}]}, )"
    R"({"role": "tool", "tool_call_id": "1", "name": "f", "content": "He."}, )"
    R"({"role": "tool", "content": [{"type": "text", "text": "I."}]}, )"
    R"({"role": "assistant", "content": "Me."}]})";

class ToolsTest : public testing::Test {
 protected:
  ToolsTest() : tokenizer_(*OpenTokenizer("tests/testdata/tokenizers/qwen2")) {}

  static absl::StatusOr<Example> Parse(const std::string& text) {
    const JsonRecord record = {nlohmann::ordered_json::parse(text), "x line 1"};
    return ParseExample(*KindOfRecord(record), record, {});
  }

  // Returns the text that the template writes, with the targets in brackets, or the message of an
  // error.
  std::string Spelled(const std::string& jinja, const std::string& text) {
    const auto chat = ChatTemplate::FromJinja(jinja, *tokenizer_);
    return chat.ok() ? Spelled(*chat, text) : std::string(chat.status().message());
  }
  std::string Spelled(const ChatTemplate& chat, const std::string& text) {
    const auto example = Parse(text);
    if (!example.ok()) return std::string(example.status().message());
    const auto written = chat.Render(example->messages, example->tools);
    if (!written.ok()) return std::string(written.status().message());
    std::string spelled;
    bool inside = false;
    for (size_t i = 0; i < written->ids.size(); ++i) {
      if (written->by_assistant[i] != inside) spelled += inside ? "]" : "[";
      inside = written->by_assistant[i];
      spelled += *tokenizer_->Decode({written->ids[i]});
    }
    return spelled;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ToolsTest, CallsAreLearnedAndResultsAreNot) {
  const std::string expected =
      "<|im_start|>system\n{\"type\": \"function\", \"function\": {\"name\": \"f\", "
      "\"parameters\": {\"z\": 1, \"a\": 0.5}}}<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
      "<|im_start|>assistant\n[<c>f {\"y\": 2.0, \"b\": \"<|im_end|>\"}</c><c>g "
      "{}</c><|im_end|>]\n<|im_start|>user\n<r>He.</r>\n<r>I.</r><|im_end|>\n"
      "<|im_start|>assistant\n[Me.<|im_end|>]\n";
  EXPECT_EQ(Spelled(kTools, kRecord), expected);
  // Tools as a string.
  const nlohmann::ordered_json record = nlohmann::ordered_json::parse(kRecord);
  nlohmann::ordered_json other = record;
  other["tools"] = record["tools"].dump();
  EXPECT_EQ(Spelled(kTools, other.dump()), expected);
  // The calls as the last message, and no tools.
  other["tools"] = nullptr;
  other["messages"].erase(2);
  other["messages"].erase(2);
  other["messages"].erase(2);
  EXPECT_EQ(Spelled(kTools, other.dump()),
            "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n[<c>f {\"y\": 2.0, \"b\": "
            "\"<|im_end|>\"}</c><c>g {}</c><|im_end|>]\n");
}

TEST_F(ToolsTest, ShareGptIsTheSame) {
  const std::string share_gpt =
      R"({"tools": "[{\"name\": \"f\"}]", "conversations": [{"from": "human", "value": "Who?"}, )"
      R"({"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, )"
      R"({"from": "observation", "value": "He."}, {"from": "gpt", "value": "Me."}]})";
  const std::string messages =
      R"({"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "Who?"}, )"
      R"({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", )"
      R"("arguments": {"x": 1}}}]}, {"role": "tool", "content": "He."}, )"
      R"({"role": "assistant", "content": "Me."}]})";
  EXPECT_THAT(Spelled(kTools, share_gpt), HasSubstr("[<c>f {\"x\": 1}</c><|im_end|>]"));
  EXPECT_EQ(Spelled(kTools, share_gpt), Spelled(kTools, messages));
}

// The last message opens thoughts that it does not have within a conversation, as Qwen 3's.
TEST_F(ToolsTest, CallsEndWhereTheyEndWithoutOpenedThoughts) {
  const std::string thinks = absl::StrReplaceAll(
      kTools, {{"{% if message.content %}",
                "{% if loop.last and message.role == 'assistant' %}{{ '<think>\\n' }}{% endif %}"
                "{% if message.content %}"}});
  EXPECT_THAT(Spelled(thinks, kRecord), HasSubstr("assistant\n[<c>f {"));
  EXPECT_THAT(Spelled(thinks, kRecord), HasSubstr("{}</c><|im_end|>]\n<|im_start|>user\n<r>He."));
  EXPECT_THAT(Spelled(thinks, kRecord), HasSubstr("[<think>\nMe.<|im_end|>]"));
}

// Nothing of a record is dropped in silence.
TEST_F(ToolsTest, WhatATemplateLeavesOutIsRefused) {
  const auto without = [](const std::string& from, const std::string& to) {
    const std::string changed = absl::StrReplaceAll(kTools, {{from, to}});
    EXPECT_NE(changed, kTools) << from;
    return changed;
  };
  EXPECT_THAT(Spelled(without("{%- if tools %}", "{%- if false %}"), kRecord),
              HasSubstr("does not write the record's \"tools\""));
  EXPECT_THAT(Spelled(without("{%- if message.tool_calls %}", "{%- if false %}"), kRecord),
              HasSubstr("does not write the name of a tool call of message 2. Choose a "
                        "--chat_template that writes tools"));
  EXPECT_THAT(Spelled(without("{{ call.function.arguments | tojson }}", ""), kRecord),
              HasSubstr("does not write the arguments of a tool call of message 2"));
  EXPECT_THAT(Spelled(without("'\\n<r>' + message.content + '</r>'", "'\\n<r></r>'"), kRecord),
              HasSubstr("does not write a tool's result of message 3"));
  std::string beside =
      absl::StrReplaceAll(kRecord, {{"null, \"tool_calls\"", "\"So.\", \"tool_calls\""}});
  EXPECT_THAT(Spelled(kTools, beside), HasSubstr("assistant\n[So.<c>f {"));
  EXPECT_THAT(Spelled(without("{% if message.content %}",
                              "{% if message.content and not message.tool_calls %}"),
                      beside),
              HasSubstr("does not write the text beside the tool calls of message 2"));
  // A string of JSON would be written as a string in JSON.
  EXPECT_THAT(Spelled(kTools, absl::StrReplaceAll(kRecord, {{"{\"y\": 2.0, \"b\": \"<|im_end|>\"}",
                                                             R"("{\"y\": 2}")"}})),
              HasSubstr("give \"arguments\" as an object, not as a string"));
  // Calls outside of the blocks would not be learned.
  const std::string blocks = absl::StrReplaceAll(
      kTools, {{"{% if message.content %}{{ message.content }}{% endif %}",
                "{% if message.role == 'user' %}{{ message.content }}{% else %}{% generation %}"
                "{{ message.content }}{{ '<|im_end|>' if not message.tool_calls else '' }}"
                "{% endgeneration %}{% endif %}"}});
  EXPECT_THAT(Spelled(blocks, kRecord), HasSubstr("blocks leave out the name of a tool call"));
}

// Such a template writes 'text' + message['content'], which fails in Jinja without "content".
TEST_F(ToolsTest, CallsWithoutContentAreExplained) {
  const std::string chatml = ChatTemplate::Named("chatml", *tokenizer_)->jinja();
  EXPECT_THAT(Spelled(chatml, kRecord),
              HasSubstr("the chat template does not write the record's \"tools\""));
  nlohmann::ordered_json record = nlohmann::ordered_json::parse(kRecord);
  record.erase("tools");
  EXPECT_EQ(Spelled(chatml, record.dump()),
            "the chat template does not write the name of a tool call of message 2. Choose a "
            "--chat_template that writes tools, such as auto (that of the model's directory) or "
            "the path of a .jinja file, or leave them out of the record");
  // This one writes calls.
  const std::string needs = absl::StrReplaceAll(
      kTools,
      {{"{% if message.content %}{{ message.content }}{% endif %}", "{{ '' + message.content }}"}});
  EXPECT_THAT(Spelled(needs, kRecord),
              HasSubstr("message 2 has tool calls without \"content\", for which the chat template "
                        "cannot be run here for tool calls: line 10: a string + an undefined value "
                        "is not known here; write \"content\": \"\" in the record"));
  record["messages"][1]["content"] = "";
  EXPECT_THAT(Spelled(needs, record.dump()), HasSubstr("assistant\n[<c>f {"));
  // Another cause is not blamed on the content.
  const std::string broken = absl::StrReplaceAll(
      kTools, {{"{%- if message.tool_calls %}", "{%- if message.tool_calls %}{{ 1 + 'a' }}"}});
  EXPECT_THAT(Spelled(broken, kRecord),
              HasSubstr("the chat template cannot be run here for tool calls: line 11: "));
}

// transformers uses the template named tool_use if the record has tools, otherwise the one named
// default. The texts are those of apply_chat_template of transformers 5.24.
TEST_F(ToolsTest, RecordsWithToolsUseTheTemplateNamedToolUse) {
  const std::string plain = ChatTemplate::Named("chatml", *tokenizer_)->jinja();
  // Fails without tools.
  const std::string for_tools =
      absl::StrReplaceAll(kTools, {{"{%- if tools %}", "{%- if tools | length %}"}});
  nlohmann::ordered_json without = nlohmann::ordered_json::parse(kRecord);
  without.erase("tools");
  without["messages"].erase(1);
  without["messages"].erase(1);
  without["messages"].erase(1);
  for (const bool are_files : {false, true}) {
    const TemporaryDirectory dir;
    if (are_files) {
      dir.Write("chat_template.jinja", plain);
      dir.Write("additional_chat_templates/tool_use.jinja", for_tools);
    } else {
      dir.Write("tokenizer_config.json",
                nlohmann::json({{"chat_template",
                                 {{{"name", "tool_use"}, {"template", for_tools}},
                                  {{"name", "default"}, {"template", plain}},
                                  {{"name", "rag"}, {"template", "{{ broken"}}}}})
                    .dump());
    }
    const auto chat = OpenChatTemplate("auto", dir.path(), *tokenizer_);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(chat->jinja(), plain);
    EXPECT_NE(chat->Identity(), ChatTemplate::FromJinja(plain, *tokenizer_)->Identity());
    EXPECT_EQ(Spelled(*chat, without.dump()),
              "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n[Me.<|im_end|>]\n");
    EXPECT_EQ(Spelled(*chat, kRecord), Spelled(kTools, kRecord));
    EXPECT_THAT(Spelled(*chat, kRecord), HasSubstr("<|im_start|>system\n{\"type\": \"function\""));
    // Tool calls without tools are the default template's.
    nlohmann::ordered_json calls = nlohmann::ordered_json::parse(kRecord);
    calls["tools"] = nullptr;
    EXPECT_THAT(Spelled(*chat, calls.dump()), HasSubstr("does not write the name of a tool call"));
    // Another template replaces both.
    EXPECT_THAT(Spelled(*OpenChatTemplate("chatml", dir.path(), *tokenizer_), kRecord),
                HasSubstr("does not write the record's \"tools\""));
  }
  // A template that is wrong refuses the records with tools only.
  for (const auto& [wrong, message] : std::vector<std::pair<std::string, std::string>>{
           {"{% x %}", "the chat template named tool_use: the chat template cannot be run here: "},
           {absl::StrReplaceAll(kTools, {{"<|im_end|>", "<|endoftext|>"}}),
            "the chat template named tool_use: ends the assistant's turn by \"<|endoftext|>\", and "
            "the one named default by \"<|im_end|>\"; expected the same token"}}) {
    const auto chat = ChatTemplate::FromJinja(plain, *tokenizer_, std::nullopt, wrong);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_THAT(Spelled(*chat, kRecord), HasSubstr(message));
    EXPECT_THAT(Spelled(*chat, without.dump()), HasSubstr("[Me.<|im_end|>]"));
  }
}

TEST_F(ToolsTest, MessagesOfToolsFollowCalls) {
  const std::string call = R"({"role": "assistant", "tool_calls": [{"function": )"
                           R"({"name": "f", "arguments": {}}}]})";
  const std::string user = R"({"role": "user", "content": "a"})";
  const std::string reply = R"({"role": "assistant", "content": "b"})";
  const std::string result = R"({"role": "tool", "content": "c"})";
  const auto of = [&](const std::vector<std::string>& messages) {
    std::string list;
    for (const std::string& each : messages) absl::StrAppend(&list, list.empty() ? "" : ", ", each);
    return Spelled(kTools, absl::StrCat("{\"messages\": [", list, "]}"));
  };
  EXPECT_THAT(of({user, call, result, result, call, result, reply, user, call}),
              HasSubstr("[<c>f {}</c><|im_end|>]"));
  EXPECT_THAT(of({user, call, user, reply}),
              HasSubstr("message 3 is of \"user\", expected tool: "));
  EXPECT_THAT(of({user, call, reply}), HasSubstr("message 3 is of \"assistant\", expected tool"));
  EXPECT_THAT(of({user, call, result, user, reply}),
              HasSubstr("message 4 is of \"user\", expected tool or assistant"));
  EXPECT_THAT(of({user, reply, result, reply}),
              HasSubstr("message 3 is of \"tool\", expected user: messages of tools directly"));
  EXPECT_THAT(of({user, call, result}), HasSubstr("the last message is of \"tool\""));
  const auto chat = ChatTemplate::FromJinja(kTools, *tokenizer_);
  const auto example = Parse(kRecord);
  ASSERT_TRUE(chat.ok() && example.ok());
  const auto prompt =
      chat->RenderPrompt(absl::MakeConstSpan(example->messages).first(4), example->tools);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_THAT(*tokenizer_->Decode(*prompt),
              HasSubstr("<r>I.</r><|im_end|>\n<|im_start|>assistant\n"));
}

TEST_F(ToolsTest, MalformedToolsAreNamed) {
  const auto call = [](const std::string& calls) {
    return absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}, )"
                        R"({"role": "assistant", "tool_calls": )",
                        calls, "}]}");
  };
  const auto tools = [](const std::string& value) {
    return absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}, )"
                        R"({"role": "assistant", "content": "b"}], "tools": )",
                        value, "}");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {call("7"), "message 2 has \"tool_calls\": 7, expected a list of calls"},
      {call(R"(["f"])"), "message 2 has call 1 of \"tool_calls\": \"f\", expected {\"id\""},
      {call(R"([{"name": "f", "arguments": {}}])"), "has call 1 of"},
      {call(R"([{"function": {"name": "f"}}])"), "has call 1 of"},
      {call(R"([{"function": {"name": "", "arguments": {}}}])"), "has call 1 of"},
      {call(R"([{"function": {"name": "f", "arguments": [1]}}])"), "has call 1 of"},
      {call(R"([{"function": {"name": "f", "arguments": "x"}}])"), "the JSON of one"},
      {call(R"([{"function": {"name": "f", "arguments": {}}}, {"type": "x"}])"), "has call 2 of"},
      {call(R"([{"type": "code", "function": {"name": "f", "arguments": {}}}])"), "has call 1 of"},
      {call(R"([{"function": {"name": "f", "arguments": {}}, "extra": 1}])"), "has call 1 of"},
      {R"({"messages": [{"role": "user", "content": "a", "tool_calls": [{"function": {"name": )"
       R"("f", "arguments": {}}}]}, {"role": "assistant", "content": "b"}]})",
       "message 1 has \"tool_calls\", expected them of the assistant only, not of \"user\""},
      {R"({"messages": [{"role": "function", "content": "a"}]})",
       "message 1 has the role \"function\", expected system, user, assistant or tool"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )"
       R"("tool_call_id": 7}]})",
       "message 2 expected \"tool_call_id\", a string"},
      {tools("7"), "\"tools\" is 7, expected a list of {\"type\": \"function\""},
      {tools(R"("x")"), "\"tools\": bad JSON (column 1): "},
      {tools(R"(["f"])"), "tool 1 of \"tools\" is \"f\", expected"},
      {tools(R"([{"name": "f"}, {"function": {}}])"), "tool 2 of \"tools\" is {\"function\":{}}"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], )"
       R"("functions": [{"name": "f"}]})",
       "--data_columns=tools=functions reads it as \"tools\""},
      {R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", )"
       R"("value": "{\"name\": \"f\"}"}]})",
       "message 2 of function_call is \"{\\\"name\\\": \\\"f\\\"}\", expected the JSON of"}};
  for (const auto& [record, message] : cases) {
    const auto example = Parse(record);
    ASSERT_FALSE(example.ok()) << record;
    EXPECT_THAT(example.status().message(), HasSubstr("x line 1: ")) << record;
    EXPECT_THAT(example.status().message(), HasSubstr(message)) << record;
    EXPECT_LT(example.status().message().size(), 500u);
  }
}

// The spellings are those of Python's json.dumps and str.
TEST_F(ToolsTest, NumbersAreWrittenAsByPython) {
  const std::vector<std::pair<double, std::string>> numbers = {
      {0.5, "0.5"},
      {-2.0, "-2.0"},
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {1e16, "1e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {1e15, "1000000000000000.0"},
      {21.5, "21.5"},
      {1.0 / 3, "0.3333333333333333"},
      {1e100, "1e+100"},
      {-0.00012, "-0.00012"}};
  for (const auto& [number, text] : numbers) {
    const auto written = RenderJinja(*ParseJinja("{{ x }} {{ x | tojson }} {{ x is number }}"),
                                     {{"x", JinjaValue::Float(number)}});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, absl::StrCat(text, " ", text, " True"));
  }
}

}  // namespace
}  // namespace zeroth
