// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The expected texts were written by Jinja2 3.1 under transformers' settings.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/chat/jinja/render.h"

namespace zeroth {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::string> Rendered(const std::string& jinja) {
  const auto message = [](const std::string& role, const std::string& content) {
    return JinjaValue::Of(JinjaValue::Map{{"role", JinjaValue::String(role)},
                                          {"content", JinjaValue::String(content)}});
  };
  const JinjaValue messages = JinjaValue::Of(
      JinjaValue::List{message("system", "\u3000sys \n"), message("user", " \u00A0hi\u4F60 \n"),
                       message("assistant", "<think>\na\n</think>\n\n yo")});
  const absl::StatusOr<JinjaNode> parsed = ParseJinja(jinja);
  if (!parsed.ok()) return parsed.status();
  return RenderJinja(*parsed, {{"messages", messages}, {"tools", JinjaValue::None()}});
}

TEST(JinjaTest, WritesWhatJinja2Writes) {
  for (const auto& [jinja, expected] : std::vector<std::pair<std::string, std::string>>{
           {"a{% if true %} b {% endif %}\n c", "a b  c"},
           {"  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"},
           {"{{- 'a' }} \n {{ 'b' -}} \n c", "a \n bc"},
           {"a\n  {# c #}\nb", "a\nb"},
           {"a {# c -#}  b", "a b"},
           {"x {%- if true -%} y {%- endif -%} z", "xyz"},
           {"{%+ if true %} a{% endif %}", " a"},
           {" {{ 1 }}  {% if true %} x{% endif %}", " 1   x"},
           {"{{ 'a' + 'b' | upper + 'c' }}", "aBc"},
           {"{{ 1 + 2 * 3 - 4 // 3 % 2 }}", "6"},
           {"{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"},
           {"{{ -7 // 2 }} {{ -7 % 3 }}", "-4 2"},
           {"{{ 'x' if false }}|{{ 'x' if true else 'y' }}", "|x"},
           {"{{ not 'a' in 'abc' }} {{ 'a' not in 'abc' }}", "False False"},
           {"{{ 'abc'[0] ~ 'abc'[-1] ~ 'a\344\275\240b'[1:] ~ 'abc'[::-1] ~ 'abcdef'[1:5:2] ~ "
            "'abc'[5:]}}",
            "ac\344\275\240bcbabd"},
           {"{{ messages[1:]|length }} {{ messages[::-1][0].content }} {{ messages[-1]['role'] }}",
            "2 <think>\na\n</think>\n\n yo assistant"},
           {"{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last "
            "}}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem.role if loop.previtem is "
            "defined }}{{ loop.nextitem.role if loop.nextitem }};{% endfor %}",
            "10TrueFalse33user;21FalseFalse32systemassistant;32FalseTrue31user;"},
           {"{% for m in messages if m.role == 'user' %}{{ m.content }}{{loop.index}}|{% else "
            "%}none{% endfor %}",
            " \302\240hi\344\275\240 \n1|"},
           {"{% for m in [] %}{% else %}none{% endfor %}", "none"},
           {"{% set ns = namespace(a=1, b='x') %}{% for i in range(3) %}{% set ns.a = ns.a + i "
            "%}{% set b = i %}{% endfor %}{{ ns.a }}{{ b }}{{ ns.c is defined }}",
            "4False"},
           {"{% set x = 1 %}{% for i in range(2) %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ "
            "x }}",
            "12121"},
           {"{% if true %}{% set y = 5 %}{% endif %}{{ y }}", "5"},
           {"{% set b %} block {{ 1 }}\n{% endset %}[{{ b }}]", "[ block 1\n]"},
           {"{% macro f(a, b='d', c=none) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ f(1) }}{{ f(1, "
            "c=2) }}{{ f('x', 'y') | upper }}",
            "<1dNone><1d2><XYNONE>"},
           {"{% set q = 3 %}{% macro f() %}{{ q }}{% endmacro %}{% for q in [1] %}{{ f() }}{% "
            "endfor %}",
            "3"},
           {"{% for m in messages %}[{{ m.content | trim }}]{% endfor %}",
            "[sys][hi\344\275\240][<think>\na\n</think>\n\n yo]"},
           {"{% for m in messages %}[{{ m['content'].strip() }}]{{ m.content.lstrip('\\n') }}{{ "
            "m.content.split('</think>')[-1].lstrip('\\n') }}{% endfor %}",
            "[sys]\343\200\200sys \n\343\200\200sys \n[hi\344\275\240] \302\240hi\344\275\240 \n "
            "\302\240hi\344\275\240 \n[<think>\na\n</think>\n\n yo]<think>\na\n</think>\n\n yo yo"},
           {"{{ ' a  b '.split() | join('-') }}{{ 'a,b,,c'.split(',') | join('-') }}{{ "
            "'a,b,c'.split(',', 1)|last }}{{ ' a b c '.split(none, 1)|last }}|",
            "a-ba-b--cb,cb c |"},
           {"{{ 'abc'.startswith('a') }}{{ 'abc'.endswith('bc') }}{{ 'aXbX'.replace('X','--') }}{{ "
            "'hELLO wORLD'.title() }}{{ 'hELLO'|capitalize }}{{ 'abc'.find('c') }}",
            "TrueTruea--b--Hello WorldHello2"},
           {"{{ 'user_id' | title }}|{{ \"don't\" | title }}|{{ 'aB-cD (eF){gH}[iJ]<kL>/mN "
            "3rd\\tx\\ny' | title }}|{{ 'user_id'.title() }}|{{ \"don't\".title() }}",
            "User_id|Don't|Ab-Cd (Ef){Gh}[Ij]<Kl>/mn 3rd\tX\nY|User_Id|Don'T"},
           {"{{ '3.7' | int }},{{ '-3.7e1' | int }},{{ ' +12 ' | int }},{{ '1_000' | int }},{{ "
            "'x' | int }},{{ 'x' | int(7) }},{{ 'x' | int(default=-1) }},{{ '' | int }},{{ 'inf' | "
            "int(6) }},{{ 'nan' | int(4) }},{{ true | int }},{{ none | int }},{{ [1] | int(5) }}",
            "3,-37,12,1000,0,7,-1,0,6,4,1,0,5"},
           {"{{ '0x1F' | int(8) }},{{ '1__0' | int(8) }},{{ '_1' | int(8) }},{{ '1_0.5' | int "
            "}},{{ '1 2' | int(8) }},{{ '+-1' | int(8) }},{{ '1e3' | int }},{{ '.5' | int }},{{ "
            "'5.' | int }},{{ '12abc' | int(9) }},{{ '007' | int }},{{ '1._5' | int(8) }},{{ "
            "'1e_3' | int(8) }},{{ 'nan(1)' | int(8) }},{{ '1e400' | int(3) }}",
            "8,8,8,10,8,8,1000,0,5,9,7,8,8,8,3"},
           {"{{ {'a': 1, 'b': [1, 'x\\n\"', none, true]} | tojson }}",
            "{\"a\": 1, \"b\": [1, \"x\\n\\\"\", null, true]}"},
           {"{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 'z') }}", "1Nonez"},
           {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}{% for k, v in "
            "{'a': 1}|items %}{{ k }}{{ v }}{% endfor %}{% for k in {'x':1} %}{{k}}{% endfor %}",
            "a=1 b=2 a1x"},
           {"{{ x is defined }}{{ x is undefined }}{{ none is none }}{{ 'a' is string }}{{ {} is "
            "mapping }}{{ [] is iterable }}{{ 'a' is iterable }}{{ 1 is iterable }}{{ [] is "
            "sequence }}{{ {} is sequence }}{{ 1 is number }}{{ true is number }}{{ true is "
            "boolean }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 'a' is equalto 'a' "
            "}}{{ 'a' is equalto('b') }}{{ 2 is even }}{{ 1 is integer }}{{ true is integer }}{{ "
            "'a' is in ['a'] }}",
            "FalseTrueTrueTrueTrueTrueTrueFalseTrueTrueTrueTrueTrueTrueFalseTrueTrueFalseTrueTrueFa"
            "lseTrue"},
           {"{{ x | default('d') }}{{ '' | default('d') }}{{ '' | default('d', true) }}{{ "
            "none|default('q') }}",
            "ddNone"},
           {"{{ x }}{{ x | length }}{{ x|trim }}{% for i in x %}a{% endfor %}{{ 'a' in x }}{{ x == "
            "y }}",
            "0FalseTrue"},
           {"{{ messages.foo }}", ""},
           {"{{ 'abc'.foo is defined }}", "False"},
           {"{{ messages[99] is defined }}", "False"},
           {"{{ \"\\x41\\u4f60\\t\\q\" }}", "A\344\275\240\t\\q"},
           {"{{ 'a' 'b' }}", "ab"},
           {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% "
            "break %}{% endif %}{{ i }}{% endfor %}",
            "02"},
           {"{{ 'a' is not none and not false or x.y }}", "True"},
           {"{{ messages | length > 3 }}", "False"},
           {"{{ (messages|length) - 1 - 0 }}{{ ((messages|length - 1) % 2 == 0) }}", "2True"},
           {"{{ messages[0]['role'] == 'system' and messages[0].content }}", "\343\200\200sys \n"},
           {"{% if messages[0].role == 'x' %}1{% elif messages[0].role == 'system' %}2{% else "
            "%}3{% endif %}",
            "2"},
           {"{{ 1 if x is defined else 2 if true else 3 }}", "2"},
           {"a\r\nb\r", "a\nb"},
           {"{{ messages|map(attribute='content')|first }}", "\343\200\200sys \n"},
           {"{{ loop is defined }}", "False"},
           {"{% for m in messages %}{% for n in [1] %}{{ loop.index }}{% endfor %}{{ loop.index "
            "}}{% endfor %}",
            "111213"},
           {"{{ [] or 'e' }}{{ 0 and 1 }}", "e0"},
           {"{{ 'a'|length == 1 }}", "True"},
           {"{{ messages[0]|tojson }}",
            "{\"role\": \"system\", \"content\": \"\343\200\200sys \\n\"}"},
           {"{{ {'a':1}['a'] }}{{ {'a':{'b':2}}.a.b }}", "12"},
           {"{{ {'items': 1}['items'] }}", "1"},
           {"{{ ' \034\302\205\342\200\203x\342\200\213'.strip() }}|", "x\342\200\213|"},
           {"{{ 1 in [true] }}{{ 1 == true }}", "TrueTrue"},
           {"{{ true + 1 }}", "2"},
           {"{{ not x is defined }}", "True"},
           {"{{ (not 'a') is false }}", "True"},
           {"{{ 'a' if 'b' else 'c' ~ 'd' }}", "a"},
           {"{% if x %}{% endif %}\n\nq\n\n", "\nq\n"},
           {"{%- set z = 1 -%}\n\n  {{ z }}", "1"},
           {"\n\n{% set a = 1 %}\n\n{{ a }}\n  {%- if a %}\n  y\n  {%- endif %}\n", "\n\n\n1  y"},
           {"{{ 'a'}}}", "a}"},
           {"{{ {'a':{'b':1}}|tojson }}", "{\"a\": {\"b\": 1}}"},
           {"{{ '}}' }}{{ '%}' }}", "}}%}"},
           {"{# {{ x }} #}k", "k"},
           {"{{ messages[1].content[0:2] }}", " \302\240"},
           {"{% macro g(x) %}{% if x > 0 %}{{ x }}{{ g(x - 1) }}{% endif %}{% endmacro %}{{ g(3) "
            "}}",
            "321"},
           {"{{ {'b': [1, {}], 'a': {'c': []}} | tojson(indent=2) }}",
            "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": {\n    \"c\": []\n  }\n}"},
           {"{{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true) }}",
            "{\"a\":[1,2],\"b\":1}"},
           {"{% for k, v in {'b': 1, 'A': 2, 'c': 3} | dictsort %}{{ k }}{{ v }}{% endfor %}",
            "A2b1c3"},
           {"{{ ['b', 'A', 'c'] | sort | join }}{{ [3, 1, 2] | sort(reverse=true) | join(',') }}",
            "Abc3,2,1"},
           {"{{ messages | sort(attribute='role') | map(attribute='role') | join(',') }}",
            "assistant,system,user"},
           {"{{ ['a', 'B', 'b', 'A', 'c'] | unique | join(',') }}{{ [1, 2, 1] | unique | list | "
            "length }}",
            "a,B,c2"},
           {"{{ ['a', 'b'] | map('upper') | join }}{{ messages | map(attribute='x', default='-') | "
            "join }}",
            "AB---"},
           {"{{ [1, 2, 3, 4] | select('even') | join(',') }}{{ [0, 1, ''] | reject | list | length "
            "}}{{ [1, 2, 3] | select('gt', 1) | join }}",
            "2,4223"},
           {"{{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | "
            "first }}",
            "assistant"},
           {"{{ 'a\\n\\nb\\n' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | "
            "indent('> ', blank=true) }}",
            "a\n\n    b\n|  a\n  b|a\n> \n> b"},
           {"{{ 'abc' | reverse }}{{ '12' | int + 1 }}{{ 'x' | int }}{{ ' 7 ' | int }}{{ '<b>' | "
            "safe }}",
            "cba1307<b>"},
           {"{{ '\303\200\303\211 Stra\303\237e \320\226' | lower }}",
            "\303\240\303\251 stra\303\237e \320\266"},
           {"{{ 'a {} b {} {{}}'.format(1, 'x') }}{{ '{1}{0}{n}'.format('a', 'b', n=2) }}",
            "a 1 b x {}ba2"},
           {"{{ 'xay'.removeprefix('x').removesuffix('y') }}{{ 'a\\r\\nb\\u2028c\\n'.splitlines() "
            "| join('|') }}",
            "aa|b|c"},
           {"{{ '-' * 3 }}{{ 'ab' * 0 }}|", "---|"},
           {"{{ strftime_now('%d %b %Y, %H:%M %A') }}{{ strftime_now is defined }}",
            "26 Jul 2024, 00:00 FridayTrue"},
           {"a{% generation %}b{% set x = 1 %}{% endgeneration %}c{{ x is defined }}", "abcFalse"},
           {"{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(b=3, a=1) }}{{ f(1) }}", "1312"},
           {"{{ 'abcdef'[-2:] }}{{ [1, 2, 3, 4][::-2] | join }}{{ [1, 2, 3][-1:0:-1] | join }}",
            "ef4232"}}) {
    const auto text = Rendered(jinja);
    ASSERT_TRUE(text.ok()) << jinja << ": " << text.status();
    EXPECT_EQ(*text, expected) << jinja;
  }
}

TEST(JinjaTest, TellsWhatGenerationBlocksWrote) {
  const auto parsed = ParseJinja(
      "a{% for i in range(2) %}\n<{% generation %}\xC3\xA9{{ i }}{% endgeneration %}>{% endfor %}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<JinjaSpan> generated;
  EXPECT_EQ(*RenderJinja(*parsed, {}, &generated),
            "a<\xC3\xA9"
            "0><\xC3\xA9"
            "1>");
  ASSERT_EQ(generated.size(), 2u);
  EXPECT_EQ(generated[0].begin, 2u);
  EXPECT_EQ(generated[0].end, 5u);
  EXPECT_EQ(generated[1].begin, 7u);
  EXPECT_EQ(generated[1].end, 10u);
}

TEST(JinjaTest, AGenerationBlockWithinAnotherAddsNothing) {
  const auto parsed =
      ParseJinja("{% generation %}a{% generation %}b{% endgeneration %}c{% endgeneration %}d");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<JinjaSpan> generated;
  EXPECT_EQ(*RenderJinja(*parsed, {}, &generated), "abcd");
  ASSERT_EQ(generated.size(), 1u);
  EXPECT_EQ(generated[0].begin, 0u);
  EXPECT_EQ(generated[0].end, 3u);
}

TEST(JinjaTest, WhatItDoesNotKnowIsRefusedByLine) {
  for (const auto& [jinja, text] : std::vector<std::pair<std::string, std::string>>{
           {"\n{% include 'x' %}", "line 2: the tag {% include %}"},
           {"{{ 'a' | shuffle }}", "line 1: the filter shuffle of a string"},
           {"{{ 1 is prime }}", "the test prime"},
           {"{{ 'a'.swapcase() }}", "the method swapcase of a string"},
           {"{{ cycler(1) }}", "a call of cycler"},
           {"{{ strftime_now() }}", "a call of strftime_now"},
           {"{{ [1, 'a'] | sort }}", "sorts a string among others"},
           {"{{ 'a{!r}'.format(1) }}", "format by"},
           {"{% set x %}{% generation %}a{% endgeneration %}{% endset %}", "{% generation %} in"},
           {"{{ 1.5 }}", "the number 1"},
           {"{{ 3 / 2 }}", "an integer / an integer"},
           {"{{ '\u00E9'.upper() }}", "beyond ASCII"},
           {"{{ [1] }}", "writes a list"},
           {"{{ messages.items }}", "the member by"},
           {"{{ x.y }}", "the member y of x, which is undefined"},
           {"{{ x + 'a' }}", "an undefined value + a string"},
           {"{{ 1 < 2 < 3 }}", "a chain of comparisons"},
           {"{% set a, b = 1, 2 %}", "several names"},
           // Under --config=asan: and nothing leaks.
           {"{% set ns = namespace() %}{% set ns.self = ns %}", "a namespace in another value"},
           {"{% if a %}", "expected"},
           {"{{ (1 }}", "line 1: "},
           {"{{ 'a", "a string has no end"},
           {"{{ 'a' ", "a tag has no end"},
           {"{# a", "a comment has no end"}}) {
    const auto written = Rendered(jinja);
    EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument) << jinja;
    EXPECT_THAT(written.status().message(), HasSubstr(text)) << jinja;
  }
  const auto raised = Rendered("{{ raise_exception('Not so.') }}");
  EXPECT_EQ(raised.status(), absl::FailedPreconditionError("Not so."));
}

TEST(JinjaTest, HostileTemplatesEnd) {
  const std::string again = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}";
  EXPECT_THAT(Rendered(again).status().message(), HasSubstr("nest too deeply"));
  EXPECT_THAT(Rendered("{{ " + std::string(10000, '(') + "1" + std::string(10000, ')') + " }}")
                  .status()
                  .message(),
              HasSubstr("nest too deeply"));
  std::string sum = "{{ 1";
  std::string ifs;
  for (int i = 0; i < 10000; ++i) {
    sum += "+1";
    ifs += "{% if 1 %}";
  }
  EXPECT_THAT(Rendered(sum + " }}").status().message(), HasSubstr("nest too deeply"));
  EXPECT_THAT(Rendered(ifs).status().message(), HasSubstr("nest too deeply"));
  const std::string nested =
      "{% set ns = namespace(a=[]) %}{% for i in range(1000) %}{% set ns.a = [ns.a] %}{% endfor %}";
  EXPECT_THAT(Rendered(nested).status().message(), HasSubstr("nest too deeply"));
  for (const char* const jinja :
       {"{% for i in range(999999999999) %}{% endfor %}",
        "{% for i in range(3000) %}{% for j in range(3000) %}{{ j }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a='xx') %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}"
        "{% endfor %}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}"
        "{% endfor %}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(30) %}{% set ns.a = [ns.a, ns.a] %}"
        "{% endfor %}{{ ns.a | tojson }}",
        "{{ 'x' * 999999999 }}", "{{ range(300000) | list | sort | first }}",
        "{{ ('a\n' * 99999) | indent(1000) }}"}) {
    EXPECT_EQ(Rendered(jinja).status().code(), absl::StatusCode::kResourceExhausted) << jinja;
  }
}

}  // namespace
}  // namespace zeroth
