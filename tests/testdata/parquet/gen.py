# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the parquet files that tests read, into the directory that is named."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def write(name, columns, **options):
    pq.write_table(pa.table(columns), f"{sys.argv[1]}/{name}.parquet", **options)


def write_twins(name, columns, **options):
    """Writes the same records as parquet and as JSON lines."""
    table = pa.table(columns)
    pq.write_table(table, f"{sys.argv[1]}/{name}.parquet", **options)
    with open(f"{sys.argv[1]}/{name}.jsonl", "w", encoding="utf-8") as file:
        for row in table.to_pylist():
            file.write(json.dumps(row) + "\n")


def messages_of(*names, text=pa.string()):
    return pa.struct([(name, text) for name in names])


write(
    "text",
    {"text": ["one", "café 😀", "", "four"], "id": [1, 2, None, 4], "score": [0.5, 1.0, None, 2.0]},
    row_group_size=2,
    compression="snappy",
)
write(
    "messages",
    {
        "messages": pa.array(
            [
                [
                    {"role": "user", "content": "Two and two?"},
                    {"role": "assistant", "content": "Four."},
                ],
                [
                    {"role": "user", "content": "And one?"},
                    {"role": "assistant", "content": "Five."},
                ],
            ],
            pa.list_(messages_of("role", "content", "name")),
        )
    },
    compression="zstd",
)
write(
    "alpaca",
    {"instruction": ["Add."], "input": ["2 2"], "output": ["4"]},
    compression="gzip",
    use_dictionary=False,
)
write(
    "columns",
    {
        "question": pa.array(["a", "b", "a"]).dictionary_encode(),
        "answer": pa.array(["x", "y", "z"], pa.large_string()),
        "date": pa.array([0, 1, 2], pa.timestamp("s")),
    },
    compression="brotli",
)
write(
    "conversations",
    {
        "conversations": pa.array(
            [[{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]],
            pa.list_(messages_of("from", "value")),
        )
    },
    compression="none",
)
write("bytes", {"text": pa.array([b"fine", b"\xff bytes"], pa.binary())})
write("prompts", {"prompt": ["2+2=", "3+3="], "completion": ["4", "6"]}, compression="lz4")
write(
    "map",
    {
        "messages": pa.array(
            [[("role", "user"), ("content", "hi")]], pa.map_(pa.string(), pa.string())
        )
    },
)

# Records of each kind, over several row groups, with repeated values for dictionaries, and nulls where
# a key is absent.
TURNS = [("Who?", "Me."), ("Two and two?", "Four."), ("Was ist 漢字 ☃?", "Zeichen.\n\n 😀")]


def talk(i, role, content, names):
    turns = [{role: "system", content: "Be brief."}] if i % 3 == 0 else []
    for question, answer in (TURNS * 2)[i % 3 : i % 3 + 1 + i % 2]:
        turns += [{role: names[0], content: question}, {role: names[1], content: answer}]
    return turns


def weighted(turns):
    """Masks the first of several replies."""
    replies = [turn for turn in turns if turn["role"] == "assistant"]
    replies[0]["weight"] = 0 if len(replies) > 1 else None
    replies[-1]["weight"] = 1
    return turns


write_twins(
    "twin_messages",
    {
        "messages": pa.array(
            [weighted(talk(i, "role", "content", ("user", "assistant"))) for i in range(12)],
            pa.list_(
                pa.struct(
                    [
                        ("role", pa.dictionary(pa.int32(), pa.string())),
                        ("content", pa.string()),
                        ("name", pa.string()),
                        ("weight", pa.int64()),
                        ("tool_calls", pa.list_(pa.struct([("id", pa.string())]))),
                    ]
                )
            ),
        ),
        "tools": pa.array([None] * 12, pa.list_(pa.string())),
        "id": [None if i % 4 == 1 else i for i in range(12)],
    },
    row_group_size=5,
    compression="snappy",
)
write_twins(
    "twin_conversations",
    {
        "conversations": pa.array(
            [talk(i, "from", "value", ("human", "gpt")) for i in range(9)],
            pa.large_list(messages_of("from", "value", "weight", text=pa.large_string())),
        ),
        "source": pa.array(["web", None, "web"] * 3, pa.large_string()),
    },
    row_group_size=2,
    compression="zstd",
)
write_twins(
    "twin_alpaca",
    {
        "instruction": [["Add.", "Say it in Latin."][i % 2] for i in range(70)],
        "input": [[None, "", "2 2"][i % 3] for i in range(70)],
        "output": pa.array([f'{i} "é"' for i in range(70)], pa.large_string()),
    },
    row_group_size=30,
    compression="snappy",
)
write_twins(
    "twin_prompts",
    {
        "prompt": pa.array(["2+2=", "", "3+3="] * 3).dictionary_encode(),
        "completion": pa.array(["4", "nothing", "6"] * 3, pa.large_string()),
        "comment": pa.array([None] * 9, pa.null()),
    },
    row_group_size=4,
    compression="zstd",
)
write_twins(
    "twin_prompt_messages",
    {
        "prompt": pa.array(
            [talk(i, "role", "content", ("user", "assistant"))[:-1] for i in range(6)],
            pa.list_(messages_of("role", "content")),
        ),
        "completion": pa.array(
            [[{"role": "assistant", "content": f"I say {i}."}] for i in range(6)],
            pa.list_(messages_of("role", "content"), 1),
        ),
    },
    row_group_size=4,
    compression="snappy",
)
write_twins(
    "twin_text",
    {
        "text": pa.array([f"Document {i % 7} é" for i in range(200)], pa.large_string()),
        "url": [None] * 200,
    },
    row_group_size=64,
    compression="zstd",
)
