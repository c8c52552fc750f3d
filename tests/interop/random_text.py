# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Prints random texts as JSON lines: SEED COUNT."""

import json
import random
import sys
import unicodedata

COMMON = list("abcdefghij stuvlm'SDTLM  \n\r\t0123456789.,!?-_/()[]{}<>|") + [
    "'s", "'LL", " the", "  ", "\n\n", "<|endoftext|>", "<|im_start|>", "<s>", "</s>", "<unk>",
    "\u00e9", "e\u0301", "\ufb01", "\u212b", "\u180e", "\u0085", "\u017f", "\u212a", "\u200b",
    "\u2581", "\u2581\u2581", "<0x41>", "\u1e9b\u0323", "\uac00", "\u1100\u1161\u11a8",
]


def characters():
    """Those of Unicode 3.2, whose properties all libraries know alike, and emoji."""
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code <= 0xDFFF:
            continue
        known = unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Co")
        if known or 0x1F300 <= code <= 0x1F64F:
            yield character


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    random.seed(seed)
    pool = list(characters())
    for _ in range(count):
        rare = random.choice([0, 0.3, 0.9])
        text = "".join(
            random.choice(pool if random.random() < rare else COMMON)
            for _ in range(random.randrange(60)))
        print(json.dumps(text))


main()
