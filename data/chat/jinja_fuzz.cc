// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/chat/jinja/render.h"

namespace zeroth {
namespace {

constexpr size_t kMostWritten = size_t{64} << 20;

bool Run(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const absl::StatusOr<JinjaNode> parsed = ParseJinja(text);
  if (!parsed.ok()) return false;
  const JinjaValue message = JinjaValue::Of(JinjaValue::Map{
      {"role", JinjaValue::String("user")}, {"content", JinjaValue::String(" a</think>b ")}});
  const JinjaValue tools = JinjaValue::OfJson(nlohmann::ordered_json::array(
      {{{"name", "f"}, {"parameters", {{"x", 1.5}, {"y", nullptr}, {"z", true}}}}}));
  const auto written =
      RenderJinja(*parsed, {{"messages", JinjaValue::Of(JinjaValue::List{message, message})},
                            {"tools", tools},
                            {"add_generation_prompt", JinjaValue::Bool(true)}});
  ZEROTH_CHECK(!written.ok() || written->size() <= kMostWritten);
  return written.ok();
}

std::vector<std::string> Seeds() {
  return {
      "{%- for m in messages if m.role != 'x' %}\n{{- '<' + m['role'] + '>' ~ m.content | trim }}\n"
      "{%- if loop.last or not loop.first %}{{ loop.index0 - 1 }}{% else %}b{% endif %}\n"
      "{%- endfor %}\n{%- if add_generation_prompt %}{{ 'a' }}{% endif %}",
      "{# c #}{% set ns = namespace(i=0, a=[1, (2, 3)]) %}{% macro f(a, b='x') %}{{ a ~ b }}"
      "{% endmacro %}{% for m in messages[::-1] %}{% set ns.i = ns.i + 1 %}{{ f(ns.i) }}"
      "{{ m.content.split('</think>')[-1].strip('\\n') }}{% endfor %}{{ {'a': [ns.i]} | tojson }}"
      "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
      "{% set b %}{{ range(3) | join(', ') }}{% endset %}{{ b.replace('1', 'z') if b is string }}",
      "{% generation %}{{ {'b': 1, 'a': [2]} | dictsort | tojson(indent=2) }}{% endgeneration %}"
      "{{ ['b', 'A', 'a'] | unique | sort(reverse=true) | map('upper') | join('\n') | indent(2) }}"
      "{{ '{} {0} {a}'.format(1, a='x') * 3 ~ strftime_now('%d %b %Y') }}"
      "{{ 'a\nb'.splitlines() | select('in', ['a']) | list | length }}",
      "{%- if tools %}{% for tool in tools %}{{ tool | tojson(indent=4) }}"
      "{% for k, v in tool.parameters.items() %}{{ k }}{{ v is number and v is float }}{{ v }}"
      "{% endfor %}{% endfor %}{% endif %}"};
}

}  // namespace

// A rendering stays within its bounds, which do not depend on the template's size.
ZEROTH_FUZZ_TARGET(Jinja) { return {Run, Seeds, nullptr, size_t{1} << 18, size_t{1} << 20}; }

}  // namespace zeroth
