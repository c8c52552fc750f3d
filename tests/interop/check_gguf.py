# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Compares a GGUF file with the Hugging Face directory that it was made from.

Shares nothing with the C++ code: it reads both formats with Python's standard library alone, from
their specifications, and knows the names and layouts that llama.cpp expects from its own tables.
Prints what it compared; exits with 1 and a message at the first difference.

  check_gguf.py MODEL_DIRECTORY FILE.gguf [--with-gguf-package]

The last flag reads the file with the public "gguf" package as well; exit code 77 says that this
Python does not have it.
"""

import json
import math
import os
import struct
import sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def fail(message):
    print("check_gguf.py:", message)
    sys.exit(1)


def expect(found, expected, what):
    if found != expected:
        fail("%s is %r, expected %r" % (what, found, expected))


class Cursor:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, code):
        size = struct.calcsize("<" + code)
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += size
        return value

    def text(self):
        length = self.take("Q")
        value = self.data[self.at : self.at + length]
        self.at += length
        return value.decode("utf-8")

    def value(self, kind):
        if kind in SCALARS:
            return self.take(SCALARS[kind])
        if kind == STRING:
            return self.text()
        expect(kind, ARRAY, "a value's type")
        inner = self.take("I")
        return [self.value(inner) for _ in range(self.take("Q"))]


def read_gguf(path):
    """Returns the metadata and, by name, (row-major shape, float32 bytes)."""
    data = open(path, "rb").read()
    cursor = Cursor(data)
    expect(data[:4], b"GGUF", "the magic")
    cursor.at = 4
    expect(cursor.take("I"), 3, "the version")
    tensors, pairs = cursor.take("Q"), cursor.take("Q")
    metadata = {}
    for _ in range(pairs):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.take("I"))
    infos = []
    for _ in range(tensors):
        name = cursor.text()
        shape = [cursor.take("Q") for _ in range(cursor.take("I"))][::-1]
        expect(cursor.take("I"), 0, "the type of " + name)
        infos.append((name, shape, cursor.take("Q")))
    alignment = metadata.get("general.alignment", 32)
    begin = -(-cursor.at // alignment) * alignment
    result, end = {}, 0
    for name, shape, offset in infos:
        # llama.cpp wants every tensor right behind the padding of the one before.
        expect(offset, -(-end // alignment) * alignment, "the offset of " + name)
        count = 1
        for dim in shape:
            count *= dim
        end = offset + 4 * count
        result[name] = (shape, data[begin + offset : begin + end])
    expect(len(data), begin + -(-end // alignment) * alignment, "the size of the file")
    return metadata, result


def read_safetensors(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        expect(entry["dtype"], "F32", "the type of " + name)
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], data[8 + length + begin : 8 + length + end])
    return tensors


def transposed(shape, data):
    rows, columns = shape
    words = struct.unpack("<%dI" % (rows * columns), data)
    turned = [words[row * columns + column] for column in range(columns) for row in range(rows)]
    return [columns, rows], struct.pack("<%dI" % len(turned), *turned)


def rotary(shape, data, heads):
    rows = shape[0]
    size = len(data) // rows
    half = rows // heads // 2
    order = [h * 2 * half + s * half + i for h in range(heads) for i in range(half) for s in (0, 1)]
    return shape, b"".join(data[r * size : (r + 1) * size] for r in order)


def expected_gpt2(config, tensors):
    block = {
        "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    }
    top = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    for name, (shape, data) in tensors.items():
        parts = name.split(".")
        expect(parts.pop(0), "transformer", "the beginning of " + name)
        kind = parts.pop()
        if parts[0] != "h":
            yield top[".".join(parts)] + "." + kind, (shape, data)
            continue
        inner = ".".join(parts[2:])
        new = "blk.%s.%s.%s" % (parts[1], block[inner], kind)
        yield new, transposed(shape, data) if kind == "weight" and "c_" in inner else (shape, data)


def llama3_factors(config, scaling):
    """As llama.cpp's converter computes them."""
    low = scaling["original_max_position_embeddings"] / scaling["low_freq_factor"]
    high = scaling["original_max_position_embeddings"] / scaling["high_freq_factor"]
    factors = []
    for i in range(config["head_dim"] // 2):
        wave_length = 2 * math.pi * config["rope_theta"] ** (2 * i / config["head_dim"])
        if wave_length < high:
            factors.append(1.0)
        elif wave_length > low:
            factors.append(scaling["factor"])
        else:
            smooth = (scaling["original_max_position_embeddings"] / wave_length
                      - scaling["low_freq_factor"])
            smooth /= scaling["high_freq_factor"] - scaling["low_freq_factor"]
            factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return [len(factors)], struct.pack("<%df" % len(factors), *factors)


def architecture_of(config):
    """llama.cpp's name of the model: a Mistral is a Llama there."""
    names = {
        "mistral": "llama", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "qwen3_5_text": "qwen35",
    }
    return names.get(config["model_type"], config["model_type"])


def expected_llama(config, tensors):
    block = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
        "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "self_attn.sinks": "attn_sinks",
    }
    if config["model_type"] == "gpt_oss":
        block["post_attention_layernorm"] = "post_attention_norm"
    if config["model_type"] == "olmo2":
        block["post_attention_layernorm"] = "post_attention_norm"
        block["post_feedforward_layernorm"] = "post_ffw_norm"
    top = {"lm_head": "output", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    # In other families, llama.cpp keeps the rotary halves apart, too.
    heads = {}
    if architecture_of(config) == "llama":
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    scaling = config.get("rope_scaling")
    if scaling and scaling["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_factors(config, scaling)
    experts = {}
    for name, (shape, data) in tensors.items():
        base, kind = name.rsplit(".", 1)
        if kind == "sinks":
            base, kind = name, "weight"
        if ".mlp.experts." in base:
            _, _, number, _, _, expert, inner = base.split(".")
            new = "blk.%s.%s_exps.%s" % (number, block["mlp." + inner], kind)
            experts.setdefault(new, {})[int(expert)] = (shape, data)
            continue
        if base in top:
            yield top[base] + "." + kind, (shape, data)
            continue
        _, _, number, inner = base.split(".", 3)
        new = block[inner]
        tensor = rotary(shape, data, heads[new]) if new in heads else (shape, data)
        yield "blk.%s.%s.%s" % (number, new, kind), tensor
    for name, parts in experts.items():
        stacked = b"".join(parts[expert][1] for expert in range(len(parts)))
        yield name, ([len(parts)] + parts[0][0], stacked)


def floats(data, change):
    values = struct.unpack("<%df" % (len(data) // 4), data)
    return struct.pack("<%df" % len(values), *map(change, values))


def tiled(config, data, rows, width, first=0):
    """Tiles grouped value heads: the first of each key head, the second of each key head, and so on.

    A row has `width` elements; the first `first` rows stay.
    """
    groups, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    each = (rows - first) // heads
    order = [g * (heads // groups) + i for i in range(heads // groups) for g in range(groups)]
    order = list(range(first)) + [first + head * each + row for head in order for row in range(each)]
    return b"".join(data[4 * width * row : 4 * width * (row + 1)] for row in order)


def expected_qwen35(config, tensors):
    block = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "linear_attn.in_proj_qkv": "attn_qkv",
        "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_a": "ssm_alpha",
        "linear_attn.in_proj_b": "ssm_beta", "linear_attn.conv1d": "ssm_conv1d",
        "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
    }
    top = {"lm_head": "output", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    read = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    for name, (shape, data) in tensors.items():
        if name.endswith("norm.weight") and "linear_attn" not in name:
            data = floats(data, lambda weight: weight + 1)
        base = name.removesuffix(".weight")
        if base in top:
            yield top[base] + ".weight", (shape, data)
            continue
        _, _, number, inner = base.split(".", 3)
        part = inner.split(".")[1] if inner.startswith("linear_attn") else ""
        if part == "out_proj":
            columns, data = transposed(shape, data)
            _, data = transposed(columns, tiled(config, data, *columns))
        elif part == "conv1d":
            shape = [shape[0], shape[2]]
            data = tiled(config, data, *shape, first=read)
        elif part and part != "norm":
            first = read if part == "in_proj_qkv" else 0
            data = tiled(config, data, shape[0], shape[1] if len(shape) > 1 else 1, first)
        prefix = "blk.%s." % number
        if part == "A_log":
            yield prefix + "ssm_a", (shape, floats(data, lambda decay: -math.exp(decay)))
        elif part == "dt_bias":
            yield prefix + "ssm_dt.bias", (shape, data)
        else:
            yield prefix + block[inner] + ".weight", (shape, data)


KEYS = {
    "gpt2": {
        "context_length": "n_positions", "embedding_length": "n_embd", "block_count": "n_layer",
        "attention.head_count": "n_head", "vocab_size": "vocab_size",
    },
    "llama": {
        "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads", "vocab_size": "vocab_size",
        "attention.head_count_kv": "num_key_value_heads",
    },
    "qwen3moe": {
        "expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok",
        "expert_feed_forward_length": "moe_intermediate_size",
    },
    "qwen35": {
        "attention.key_length": "head_dim", "ssm.conv_kernel": "linear_conv_kernel_dim",
        "ssm.state_size": "linear_key_head_dim", "ssm.group_count": "linear_num_key_heads",
        "ssm.time_step_rank": "linear_num_value_heads",
    },
    "gpt-oss": {
        "expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok",
        "expert_feed_forward_length": "intermediate_size",
        "attention.sliding_window": "sliding_window",
    },
}


def close_floats(a, b):
    """Whether two sequences of float32 are the same to their last bits."""
    pairs = zip(struct.iter_unpack("<f", a), struct.iter_unpack("<f", b))
    return len(a) == len(b) and all(abs(x - y) <= 1e-6 * abs(y) for (x,), (y,) in pairs)


def check_names(config, found):
    """Compares the names with the table of the package gguf, which llama.cpp's converter uses."""
    import gguf

    architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    if architecture_of(config) not in architectures:
        print("this version of the package gguf knows no", architecture_of(config))
        return
    blocks = config.get("num_hidden_layers", config.get("n_layer"))
    names = gguf.get_tensor_name_map(architectures[architecture_of(config)], blocks)
    known = {
        entry[1] + kind for entry in names.mapping.values() for kind in ("", ".weight", ".bias")
    }
    for name in found:
        if name not in known:
            fail("llama.cpp knows no tensor %s in a %s" % (name, architecture_of(config)))


def check_package(path, metadata, tensors):
    try:
        import gguf
    except ImportError as error:
        print("no package gguf:", error)
        sys.exit(77)
    reader = gguf.GGUFReader(path)
    for key, value in metadata.items():
        field = reader.get_field(key)
        if field is None:
            fail("the package gguf finds no key " + key)
        expect(field.contents(), value, "what the package gguf reads as " + key)
    expect(sorted(t.name for t in reader.tensors), sorted(tensors), "the package gguf's tensors")
    for tensor in reader.tensors:
        shape, data = tensors[tensor.name]
        expect([int(d) for d in tensor.shape][::-1], shape, "the package's shape of " + tensor.name)
        if tensor.data.tobytes() != data:
            fail("the package gguf reads other values in " + tensor.name)
    print("the package gguf agrees")


def check_qwen35_keys(config, metadata):
    """Checks the keys that are computed from several of config.json, or from a part of one."""
    rope = config["rope_parameters"]
    for key, value in {
        "ssm.inner_size": config["linear_num_value_heads"] * config["linear_value_head_dim"],
        "full_attention_interval": config["layer_types"].index("full_attention") + 1,
        "rope.dimension_count": int(config["head_dim"] * rope["partial_rotary_factor"]),
        "rope.dimension_sections": rope["mrope_section"] + [0],
        "attention.value_length": config["head_dim"],
    }.items():
        expect(metadata["qwen35." + key], value, key)


def main():
    directory, path = sys.argv[1:3]
    config = json.load(open(os.path.join(directory, "config.json")))
    metadata, found = read_gguf(path)
    family = architecture_of(config)
    expect(metadata["general.architecture"], family, "the architecture")
    keys = dict(KEYS["gpt2" if family == "gpt2" else "llama"], **KEYS.get(family, {}))
    for key, name in keys.items():
        expect(metadata["%s.%s" % (family, key)], config[name], key)
    if family == "qwen35":
        check_qwen35_keys(config, metadata)
    tensors = read_safetensors(os.path.join(directory, "model.safetensors"))
    mapping = {"gpt2": expected_gpt2, "qwen35": expected_qwen35}.get(family, expected_llama)
    expected = dict(mapping(config, tensors))
    expect(sorted(found), sorted(expected), "the list of tensors")
    for name, (shape, data) in expected.items():
        expect(found[name][0], shape, "the shape of " + name)
        # Both sides compute these, in different orders or with different exponentials.
        computed = name == "rope_freqs.weight" or name.endswith("ssm_a")
        same = close_floats if computed else lambda a, b: a == b
        if not same(found[name][1], data):
            fail("tensor %s has other values" % name)
    tokens = metadata["tokenizer.ggml.tokens"]
    expect(len(tokens), config["vocab_size"], "the number of tokens")
    expect(tokens[65], "A", "the token of the byte 65")
    expect(len(metadata["tokenizer.ggml.token_type"]), len(tokens), "the number of token types")
    print("%d tensors and %d keys agree" % (len(found), len(metadata)))
    if "--with-gguf-package" in sys.argv:
        check_package(path, metadata, found)
        check_names(config, found)


if __name__ == "__main__":
    main()
