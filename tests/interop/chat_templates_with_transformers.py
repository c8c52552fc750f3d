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
]
THOUGHTS = [[("Hi", "a", "t\n t"), ("And?", "b", " u ")], [("Hi", "b", "only")]]


def conversations():
    for system in SYSTEMS:
        for turns in TURNS[: 8 if system is None else 5] + (THOUGHTS if system is None else []):
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


def case(tokenizer, jinja, messages):
    def apply(talk, **more):
        return tokenizer.apply_chat_template(talk, chat_template=jinja, **more)

    result = {"messages": messages}
    result["text"] = outcome(lambda: apply(messages, tokenize=False))
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
            cases = [case(tokenizer, jinja, messages) for messages in conversations()]
            print(json.dumps({"name": name, "jinja": jinja, "cases": cases}), file=file)


main()
