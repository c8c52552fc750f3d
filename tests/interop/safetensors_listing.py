# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files with the public package, for tests; see tensor_listing.h.

  safetensors_listing.py read FILE            prints a listing of what the package finds
  safetensors_listing.py model DIRECTORY      the same of a Hugging Face directory, by its index
  safetensors_listing.py checkpoint DIRECTORY the same of a sharded checkpoint, put together by its
                                              index.json; tensors are called <state>/<parameter>
  safetensors_listing.py write LISTING FILE   has the package write a file
"""

import json
import os
import sys

import numpy as np
import safetensors
import safetensors.numpy

# The package's names of types for its serializer of raw bytes: numpy has no BF16.
SERIALIZED = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
NUMPY = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32,
    "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}


def read(path):
    """Returns ({name: (dtype, dims, bytes)}, metadata)."""
    with open(path, "rb") as file:
        found = safetensors.deserialize(file.read())
    tensors = {
        name: (info["dtype"], list(info["shape"]), bytes(info["data"])) for name, info in found
    }
    # The package's other way in, by name and from a mapping of the file.
    with safetensors.safe_open(path, framework="np") as mapped:
        assert sorted(mapped.keys()) == sorted(tensors)
        for name, (dtype, dims, data) in tensors.items():
            assert mapped.get_slice(name).get_shape() == dims
            if dtype in NUMPY:
                values = mapped.get_tensor(name)
                assert values.dtype == NUMPY[dtype] and list(values.shape) == dims
                assert values.tobytes() == data
        return tensors, mapped.metadata() or {}


def read_model(directory):
    index = os.path.join(directory, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read(os.path.join(directory, "model.safetensors"))
    with open(index) as file:
        index = json.load(file)
    files = {name: read(os.path.join(directory, name)) for name in set(index["weight_map"].values())}
    total = sum(len(data) for tensors, _ in files.values() for _, _, data in tensors.values())
    assert total == index["metadata"]["total_size"], total
    assert sum(len(tensors) for tensors, _ in files.values()) == len(index["weight_map"])
    tensors = {name: files[file][0][name] for name, file in index["weight_map"].items()}
    return tensors, {"files": str(len(files))}


def read_checkpoint(directory):
    with open(os.path.join(directory, "index.json")) as file:
        index = json.load(file)
    files = []
    for entry in index["files"]:
        path = os.path.join(directory, entry["name"])
        tensors, metadata = read(path)
        assert metadata["checkpoint"] == index["id"] and metadata["step"] == str(index["step"])
        with open(path, "rb") as file:
            files.append((tensors, file.read()))
    result, used = {}, 0
    for parameter, entry in index["parameters"].items():
        for state, tensor in entry["states"].items():
            data = b""
            for piece in sorted(tensor["pieces"], key=lambda piece: piece["elements"]):
                name = "%s/%s" % (state, parameter)
                in_file, raw = files[piece["file"]]
                if name not in in_file:
                    name += "[%d:%d]" % tuple(piece["elements"])
                dtype, _, bytes_of_piece = in_file[name]
                assert dtype == tensor["dtype"]
                assert bytes_of_piece == raw[slice(*piece["bytes"])]
                data += bytes_of_piece
                used += 1
            result["%s/%s" % (state, parameter)] = (tensor["dtype"], entry["shape"], data)
    assert used == sum(len(tensors) for tensors, _ in files), "a file has tensors nobody refers to"
    return result, {}


def show(tensors, metadata):
    for name, (dtype, dims, data) in sorted(tensors.items(), key=lambda item: item[0].encode()):
        print("tensor", name.encode().hex(), dtype, ",".join(map(str, dims)), data.hex())
    for key, value in sorted(metadata.items(), key=lambda item: item[0].encode()):
        print("pair", key.encode().hex(), value.encode().hex())


def write(listing, path):
    tensors, metadata = {}, {}
    with open(listing) as file:
        for line in file:
            kind, *words = line.rstrip("\n").split(" ")
            words[0] = bytes.fromhex(words[0]).decode()
            if kind == "pair":
                metadata[words[0]] = bytes.fromhex(words[1]).decode()
            else:
                dims = [int(dim) for dim in words[2].split(",") if dim]
                tensors[words[0]] = (words[1], dims, bytes.fromhex(words[3]))
    if all(dtype in NUMPY for dtype, _, _ in tensors.values()):
        arrays = {
            name: np.frombuffer(data, NUMPY[dtype]).reshape(dims)
            for name, (dtype, dims, data) in tensors.items()
        }
        safetensors.numpy.save_file(arrays, path, metadata or None)
        return
    buffers = {name: np.frombuffer(data, np.uint8) for name, (_, _, data) in tensors.items()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=SERIALIZED[dtype], shape=dims, data_ptr=buffers[name].ctypes.data,
            data_len=len(data),
        )
        for name, (dtype, dims, data) in tensors.items()
    }
    with open(path, "wb") as file:
        file.write(safetensors.serialize(specs, metadata or None))


def main():
    command, *rest = sys.argv[1:]
    if command == "write":
        write(*rest)
    else:
        show(*{"read": read, "model": read_model, "checkpoint": read_checkpoint}[command](*rest))


main()
