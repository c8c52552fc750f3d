# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the compressed files that tests read, by gzip and zstd, into the directory that is named."""

import json
import pathlib
import subprocess
import sys


def write(name, content, endings=("gz", "zst")):
    """Compresses `content`, as the command lines do by default."""
    for ending in endings:
        command = {"gz": ["gzip", "-9", "-n"], "zst": ["zstd", "-19", "-q"]}[ending]
        packed = subprocess.run(command + ["-c"], input=content, stdout=subprocess.PIPE, check=True)
        (pathlib.Path(sys.argv[1]) / f"{name}.{ending}").write_bytes(packed.stdout)


RECORDS = [{"text": f"Line {i} of many."} for i in range(5000)]
write("lines.jsonl", "".join(json.dumps(record) + "\n" for record in RECORDS).encode())
write("array.json", json.dumps(RECORDS[:3]).encode())
write("book.txt", "".join(f"word {i} " for i in range(5000)).encode())
PARQUET = pathlib.Path(__file__).resolve().parent.parent / "parquet"
write("messages.jsonl", (PARQUET / "twin_messages.jsonl").read_bytes())
write("empty.txt", b"", ["gz"])
write("table.csv", b"text,id\none,1\ntwo,2\n", ["gz"])
write("tokens.npy", b"\x93NUMPY\x01\x00" + bytes(120), ["zst"])
# A line of 100 MB.
write("long.jsonl", b'{"text": "' + b"a" * 100_000_000, ["zst"])
