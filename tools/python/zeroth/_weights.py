# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Weights of safetensors files as arrays, without copies."""

from __future__ import annotations

import json
import math
import mmap
import os
import pathlib
from typing import TYPE_CHECKING, Any, Dict, List, Union

from zeroth._program import Error

if TYPE_CHECKING:
    import numpy

INDEX = "model.safetensors.index.json"
# NumPy has neither bfloat16 nor 8-bit floats: their bits.
NORESERVE = 0x4000  # MAP_NORESERVE, which the module has from Python 3.11 on
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1", "I64": "<i8",
          "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}


def weights(path: Union[str, "os.PathLike[str]"]) -> Dict[str, numpy.ndarray[Any, Any]]:
    """Maps the weights of a model into memory: arrays by name, read from disk when they are used.

    `path` is a directory with safetensors files, as a run's final/, or such a file. The arrays are views of the files,
    without copies. They are writable, which consumers of DLPack need, as in torch.from_dlpack(array); what is written
    stays in this process, and never reaches the file. A file is unmapped when no array of it is left. Do not let
    another run overwrite the files meanwhile.

    bf16 has no type in NumPy: such arrays are uint16 with its bits. array.view(ml_dtypes.bfloat16) and
    torch.from_dlpack(array).view(torch.bfloat16) give them their type, without copies. 8-bit floats are uint8.

    Needs NumPy. Raises Error for what is no complete safetensors file.
    """
    found: Dict[str, numpy.ndarray[Any, Any]] = {}
    for file in _files(pathlib.Path(path)):
        for name, array in _map(file).items():
            if name in found:
                raise Error("%s: the tensor %s is in another file, too; name one of the files" % (file, name))
            found[name] = array
    return found


def _files(path: pathlib.Path) -> List[pathlib.Path]:
    if not path.is_dir():
        return [path]
    if (path / INDEX).exists():
        try:
            return [path / name for name in sorted(set(json.loads((path / INDEX).read_bytes())["weight_map"].values()))]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise Error("%s: expected {\"weight_map\": {TENSOR: FILE}}" % (path / INDEX)) from error
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise Error("%s has no .safetensors file; expected a model directory, as the final/ of a run" % path)
    return files


def _map(path: pathlib.Path) -> Dict[str, numpy.ndarray[Any, Any]]:
    try:
        import numpy  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError("zeroth.weights needs NumPy: pip install numpy") from error
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise Error("%s is cut short, or no safetensors file" % path)
            begin, header = 8 + length, file.read(length)
            # Copy on write. Without NORESERVE, Linux refuses a file that is larger than memory and swap.
            data = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE | NORESERVE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise Error("cannot read %s: %s; expected a safetensors file" % (path, error.strerror)) from error
    found = {}
    try:
        for name, entry in json.loads(header).items():
            if name == "__metadata__":
                continue
            dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if dtype not in DTYPES:
                raise Error("%s: %s has the type %s; expected one of %s" % (path, name, dtype, ", ".join(DTYPES)))
            kind = numpy.dtype(DTYPES[dtype])
            if not 0 <= first <= last <= size - begin or last - first != math.prod(shape) * kind.itemsize:
                raise Error("%s: bytes %d to %d are not in the file, or are not %s with the type %s and the shape %s; "
                            "is the file cut short?" % (path, first, last, name, dtype, list(shape)))
            found[name] = numpy.frombuffer(data, kind, math.prod(shape), begin + first).reshape(shape)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Error("%s: expected the header of a safetensors file: %s" % (path, error)) from error
    return found
