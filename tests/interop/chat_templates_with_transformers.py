# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Applies the chat templates of installed packages by transformers: TOKENIZER_JSON OUT_DIRECTORY.

Writes tokenizer.json, to which the tokens of all templates are added, and cases.jsonl: a template
a line, with conversations, their texts, tokens and masks of what the assistant says.
"""

import datetime
import glob
import importlib.util
import json
import os
import re
import sys

import transformers
from transformers.utils import chat_template_utils


class Midsummer(datetime.datetime):
    """strftime_now is of a fixed day in Zeroth."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Midsummer

# The special tokens that templates spell.
MARKERS = [
    r"<\|[A-Za-z_]+\|>",
    r"<\uff5c[^\uff5c<>]+\uff5c>",
    r"\[\|[a-z]+\|\]",
    r"\[/?[A-Z_]+\]",
    r"</?(?:start|end)_of_turn>|<\|turn>|<turn\|>|</?s>",
]
SYSTEMS = [None, "Be brief.", " \n s\u00a0\n\n"]
TURNS = [
    [("Hi", "Hello.")],
    [("Hi", "Hello."), ("And?", "Yes."), ("Bye", "See you.")],
    [(" \n x\n\n y\t\n", "\n  z \n"), ("\n\nu ", " v\n\n")],
    [("\u3000\u4f60\u597d\u00a0", "\u4eca\u65e5 caf\u00e9 \U0001f600"), ("\u05d0", "\u2028c")],
    [("Hi", "")],
    [("Hi", ""), ("And?", "b")],
    [("Hi", "<think>\nt\n</think>\n\na"), ("And?", "<think>\n\nu\n\n</think>\n\nb")],
    [("Code", "```\n  x = {'a': [1, 2]}\n```"), ('{"q": "\\n"}', "1. a\n2. b")],
    [("{{ user }} {% if %} {# c #}", "<b>&amp;</b> $x$ \\n"), ("user:", "assistant\n")],
    [("\u0391\u0392", "e\u0301 \u00e9"), ("a\tb", "c\r\nd"), ("?", "!"), ("0", "1")],
    [(" ", "  "), ("a ", " b")],
]
THOUGHTS = [[("Hi", "a", "t\n t"), ("And?", "b", " u ")], [("Hi", "b", "only")]]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a day, in \"degrees\" \u00b0C.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "days": {"type": "integer", "description": "From now on", "minimum": 0},
                    "least": {"type": "number", "description": "Share", "default": 0.5},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(*functions, first=1, **more):
    """The assistant's message that calls functions of these names and arguments."""
    calls = [
        {
            "id": f"call{number:05}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(functions, first)
    ]
    return {"role": "assistant", **more, "tool_calls": calls}


def result(content, name="get_weather", number=1):
    return say("tool", content, tool_call_id=f"call{number:05}", name=name)


PARIS = ("get_weather", {"city": "Paris"})
ASK = say("user", "How is Paris?")
END = say("assistant", "It is 21 degrees.")
SYSTEM = say("system", "Be brief.")
RESULT = result('{"degrees": 21.5}')
MIXED = {"city": "\u4eac \"q\" \\", "days": -3, "least": 1e-7, "far": 1e22, "all": True, "of": [None, {}]}
TALKS_WITH_TOOLS = [
    [say("user", "Hi"), say("assistant", "Hello.")],
    [SYSTEM, say("user", "Hi"), say("assistant", "Hello."), say("user", "Bye"), END],
    [ASK, call(PARIS), RESULT, END],
    [SYSTEM, ASK, call(PARIS), RESULT, END],
    [ASK, call(PARIS, content=None), RESULT, END],
    [ASK, call(PARIS, content=""), result("21"), END],
    [ASK, call(PARIS, content="I look."), RESULT, END],
    [ASK, call(PARIS, ("now", {})), RESULT, result("7 am", "now", 2), END],
    [ASK, call(PARIS), RESULT, call(("now", {}), first=2), result("7 am", "now", 2), END],
    [ASK, call(PARIS)],
    [SYSTEM, ASK, call(PARIS, content="")],
    [ASK, call(("get_weather", '{"city": "Paris"}')), RESULT, END],
    [ASK, call(("get_weather", MIXED)), result("a\n <b> \"c\"\n"), END],
    [ASK, call(PARIS), RESULT, END, say("user", "Now?"), call(("now", {}), first=2)]
    + [result("7 am", "now", 2), say("assistant", "7.")],
    [ASK, call(PARIS, content="", reasoning_content="t"), RESULT, END],
]


def conversations():
    """Conversations, and the tools of each."""
    for messages in conversations_without_tools():
        yield messages, None
    for messages in TALKS_WITH_TOOLS:
        yield messages, TOOLS
    yield TALKS_WITH_TOOLS[2], None
    yield TALKS_WITH_TOOLS[3], [tool["function"] for tool in TOOLS]


def conversations_without_tools():
    for system in SYSTEMS:
        for turns in TURNS + (THOUGHTS if system is None else []):
            messages = [] if system is None else [{"role": "system", "content": system}]
            for user, reply, *thought in turns:
                messages.append({"role": "user", "content": user})
                messages.append({"role": "assistant", "content": reply})
                if thought:
                    messages[-1]["reasoning_content"] = thought[0]
            yield messages


def templates():
    for package in ("trl", "axolotl"):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else []:
            for path in sorted(glob.glob(os.path.join(folder, "**", "*.jinja"), recursive=True)):
                with open(path, encoding="utf-8") as file:
                    yield f"{package}/{os.path.basename(path)}", file.read()


def outcome(make):
    try:
        return make()
    except Exception as error:  # a template refuses by an exception
        return {"error": str(error)}


def normalized(tokenizer, text):
    """The text as its tokens spell it: a normalizer, such as NFC, changes what is encoded."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return text if normalizer is None else normalizer.normalize_str(text)


def case(tokenizer, jinja, messages, tools):
    def apply(talk, **more):
        return tokenizer.apply_chat_template(talk, tools=tools, chat_template=jinja, **more)

    result = {"messages": messages, "tools": tools}
    result["text"] = outcome(lambda: normalized(tokenizer, apply(messages, tokenize=False)))
    result["prompt"] = outcome(
        lambda: apply(messages[:-1], tokenize=False, add_generation_prompt=True)
    )
    marked = bool(re.search(r"\{%-?\s*generation\s*-?%\}", jinja))
    tokens = outcome(
        lambda: apply(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=marked
        )
    )
    if "error" not in tokens:
        result["ids"] = tokens["input_ids"]
        if marked:
            result["mask"] = tokens["assistant_masks"]
    return result


def main():
    source, out = sys.argv[1:]
    found = list(templates())
    with open(source, encoding="utf-8") as file:
        parts = json.load(file)
    spelled = {"<s>", "</s>"}
    for _, jinja in found:
        for pattern in MARKERS:
            spelled.update(re.findall(pattern, jinja))
    model = parts["added_tokens"][0]
    used = [token["id"] for token in parts["added_tokens"]]
    next_id = max(used + list(parts["model"]["vocab"].values())) + 1
    known = {token["content"] for token in parts["added_tokens"]}
    for text in sorted(spelled):
        if text not in known:
            parts["added_tokens"].append(dict(model, id=next_id, content=text))
            next_id += 1
    path = os.path.join(out, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(parts, file)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=path, bos_token="<s>", eos_token="</s>"
    )
    with open(os.path.join(out, "cases.jsonl"), "w", encoding="utf-8") as file:
        for name, jinja in found:
            cases = [case(tokenizer, jinja, *talk) for talk in conversations()]
            print(json.dumps({"name": name, "jinja": jinja, "cases": cases}), file=file)


main()
