# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Encodes texts by Hugging Face's library: TOKENIZER_JSON TEXTS PARSE_SPECIAL -> JSON lines."""

import json
import sys

import tokenizers

path, texts, parse_special = sys.argv[1:]
tokenizer = tokenizers.Tokenizer.from_file(path)
tokenizer.encode_special_tokens = parse_special != "true"
with open(texts, encoding="utf-8") as lines:
    for line in lines:
        ids = tokenizer.encode(json.loads(line), add_special_tokens=False).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        print(json.dumps({"ids": ids, "decoded": decoded}))
