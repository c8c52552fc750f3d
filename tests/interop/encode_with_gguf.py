# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Encodes texts by the tokenizer "llama" of a GGUF file: FILE.gguf TEXTS -> JSON lines.

Shares nothing with the C++ code: it reads the file with check_gguf.py, and merges as llama.cpp does:
again and again the two neighbours whose text together is the token of the highest score, the first
of equal ones. Characters without a token become the tokens of their bytes.
"""

import json
import sys

import check_gguf

metadata, _ = check_gguf.read_gguf(sys.argv[1])
check_gguf.expect(metadata["tokenizer.ggml.model"], "llama", "the model")
tokens, scores, types = (metadata["tokenizer.ggml." + key] for key in ("tokens", "scores", "token_type"))
check_gguf.expect((len(scores), len(types)), (len(tokens), len(tokens)), "the lengths of the lists")
check_gguf.expect(types[metadata["tokenizer.ggml.unknown_token_id"]], 2, "the type of the unknown token")
for key in ("bos", "eos"):
    check_gguf.expect(types[metadata["tokenizer.ggml.%s_token_id" % key]], 3, "the type of " + key)
by_text = {token: i for i, token in enumerate(tokens) if types[i] == 1}
by_byte = {int(token[3:5], 16): i for i, token in enumerate(tokens) if types[i] == 6}


def encode(text):
    if not text:
        return []
    if metadata["tokenizer.ggml.add_space_prefix"]:
        text = " " + text
    symbols = list(text.replace(" ", "\u2581"))
    while True:
        found = [(-scores[by_text[a + b]], i) for i, (a, b) in enumerate(zip(symbols, symbols[1:]))
                 if a + b in by_text]
        if not found:
            break
        _, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
    ids = []
    for symbol in symbols:
        known = by_text.get(symbol)
        ids += [by_byte[b] for b in symbol.encode()] if known is None else [known]
    return ids


with open(sys.argv[2], encoding="utf-8") as lines:
    for line in lines:
        print(json.dumps(encode(json.loads(line))))
