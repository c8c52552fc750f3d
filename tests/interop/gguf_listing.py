# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Reads and writes GGUF files with the public package "gguf", for tests; see tensor_listing.h.

  gguf_listing.py read FILE           prints a listing of what the package finds
  gguf_listing.py write LISTING FILE  has the package write a file

Dimensions are row-major, as in safetensors. The value of a pair is its type's number, for an array
also that of its items, a colon, and the items' bytes as they are in the file.
"""

import struct
import sys

import gguf
import numpy as np

FORMATS = {
    gguf.GGUFValueType.UINT8: "B", gguf.GGUFValueType.INT8: "b", gguf.GGUFValueType.UINT16: "H",
    gguf.GGUFValueType.INT16: "h", gguf.GGUFValueType.UINT32: "I", gguf.GGUFValueType.INT32: "i",
    gguf.GGUFValueType.FLOAT32: "f", gguf.GGUFValueType.BOOL: "?", gguf.GGUFValueType.UINT64: "Q",
    gguf.GGUFValueType.INT64: "q", gguf.GGUFValueType.FLOAT64: "d",
}


def read(path):
    reader = gguf.GGUFReader(path)
    for tensor in sorted(reader.tensors, key=lambda tensor: tensor.name.encode()):
        dims = [str(dim) for dim in reversed(tensor.shape.tolist())]
        data = tensor.data.tobytes()
        print("tensor", tensor.name.encode().hex(), tensor.tensor_type.name, ",".join(dims), data.hex())
    for key, field in sorted(reader.fields.items(), key=lambda item: item[0].encode()):
        # Fields that the package makes up from the file's first bytes.
        if key.startswith("GGUF."):
            continue
        value = ",".join(str(int(kind)) for kind in field.types).encode() + b":"
        for part in field.data:
            item = field.parts[part].tobytes()
            if field.types[-1] == gguf.GGUFValueType.STRING:
                item = struct.pack("<Q", len(item)) + item
            value += item
        print("pair", key.encode().hex(), value.hex())


def items_of(kind, data):
    if kind != gguf.GGUFValueType.STRING:
        return [item for (item,) in struct.iter_unpack("<" + FORMATS[kind], data)]
    items = []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        items.append(data[8 : 8 + length].decode())
        data = data[8 + length :]
    return items


def add_pair(writer, key, value):
    kinds, _, data = value.partition(b":")
    kinds = [gguf.GGUFValueType(int(kind)) for kind in kinds.decode().split(",")]
    items = items_of(kinds[-1], data)
    if kinds[0] == gguf.GGUFValueType.ARRAY:
        writer.add_key_value(key, items, kinds[0], sub_type=kinds[1])
    elif key == "general.architecture":
        # The writer has set it when it was made.
        assert items == [writer.arch]
    else:
        writer.add_key_value(key, items[0], kinds[0])


def add_tensor(writer, name, dtype, dims, data):
    kind = gguf.GGMLQuantizationType[dtype]
    if kind == gguf.GGMLQuantizationType.F32 or kind == gguf.GGMLQuantizationType.F16:
        values = np.frombuffer(data, np.float32 if dtype == "F32" else np.float16)
        writer.add_tensor(name, values.reshape(dims))
        return
    block, size = gguf.GGML_QUANT_SIZES[kind]
    shape = dims[:-1] + [dims[-1] // block * size]
    writer.add_tensor(name, np.frombuffer(data, np.uint8).reshape(shape), raw_dtype=kind)


def write(listing, path):
    lines = [line.rstrip("\n").split(" ") for line in open(listing)]
    pairs = {bytes.fromhex(key).decode(): bytes.fromhex(value) for _, key, value in
             (words for words in lines if words[0] == "pair")}
    architecture = items_of(gguf.GGUFValueType.STRING, pairs["general.architecture"].partition(b":")[2])
    writer = gguf.GGUFWriter(path, architecture[0])
    for key, value in pairs.items():
        add_pair(writer, key, value)
    for _, name, dtype, dims, data in (words for words in lines if words[0] == "tensor"):
        dims = [int(dim) for dim in dims.split(",")]
        add_tensor(writer, bytes.fromhex(name).decode(), dtype, dims, bytes.fromhex(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    command, *rest = sys.argv[1:]
    {"read": read, "write": write}[command](*rest)


main()
