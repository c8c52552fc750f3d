# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Prints the processor seconds that Hugging Face's library takes: TOKENIZER_JSON TEXT.

One thread, the best of three, in documents of 64 KiB: a longer text slows that library down.
"""

import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers  # pylint: disable=wrong-import-position

tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
    text = file.read()
parts = [text[i:i + 65536] for i in range(0, len(text), 65536)]
seconds = []
for _ in range(3):
    begin = time.process_time()
    for part in parts:
        tokenizer.encode(part, add_special_tokens=False)
    seconds.append(time.process_time() - begin)
print(min(seconds))
