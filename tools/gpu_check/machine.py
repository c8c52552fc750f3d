# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The machine that a check runs on: its GPUs and the folders of its libraries."""

import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys

# Folders of the driver's and the toolkit's programs, for machines that leave them out of PATH.
TOOL_FOLDERS = ["/usr/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/usr/local/cuda/bin",
                "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/compute-sanitizer"]
LIBRARY_FOLDERS = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib",
                   "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib",
                   "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
# Libraries that programs load at run time if they exist: cuDNN and its dependencies.
OPTIONAL_LIBRARIES = ["libcudnn.so.9", "libcudart.so.13", "libcudart.so.12", "libnvrtc.so.13",
                      "libnvrtc.so.12"]
# Folders in which Python packages install NVIDIA's libraries.
PYTHON_FOLDERS = ["/usr/lib/python3*/site-packages", "/usr/local/lib/python3*/*-packages",
                  "/opt/*/lib/python3*/site-packages", "/opt/*/.venv/lib/python3*/site-packages",
                  "/opt/*/*/lib/python3*/site-packages"]
GPU_FIELDS = ("name", "driver_version", "memory.total", "compute_cap")
SECONDS = 60

# Runs in a separate process, whose environment has the folders of the libraries, and which a broken
# library may crash.
VERSIONS = r"""
import ctypes, json
found = {}
def ask(what, name, read):
    try:
        found[what] = read(ctypes.CDLL(name))
    except (OSError, AttributeError):
        pass
def by_pointer(function):
    value = ctypes.c_int(0)
    return value.value if function(ctypes.byref(value)) == 0 else None
def size(function):
    function.restype = ctypes.c_size_t
    return function()
ask("cuda_driver", "libcuda.so.1", lambda l: by_pointer(l.cuDriverGetVersion))
for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
    ask("cublaslt", name, lambda l: size(l.cublasLtGetVersion))
    if "cublaslt" in found: break
ask("nccl", "libnccl.so.2", lambda l: by_pointer(l.ncclGetVersion))
ask("cudnn", "libcudnn.so.9", lambda l: size(l.cudnnGetVersion))
print(json.dumps(found))
"""


def find_tool(name):
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(TOOL_FOLDERS))


def output_of(command, environment=None):
    """Returns the output of a program, or None if it failed or does not exist."""
    try:
        done = subprocess.run(command, env=environment, timeout=SECONDS, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def gpus():
    """Returns a dictionary per GPU, and if there is none, the reason."""
    tool = find_tool("nvidia-smi")
    if tool is None:
        return [], "nvidia-smi is not installed"
    text = output_of([tool, "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader,nounits"])
    rows = [[cell.strip() for cell in line.split(",")] for line in (text or "").splitlines()]
    found = [dict(zip(GPU_FIELDS, row)) for row in rows if len(row) == len(GPU_FIELDS)]
    return found, "" if found else "%s lists no GPU" % tool


def architecture_problem(gpu, archs):
    """Returns why code for these architectures does not run on a GPU, or an empty text."""
    if archs == "default" or not re.fullmatch(r"\d+\.\d+", gpu["compute_cap"]):
        return ""
    mine = int(gpu["compute_cap"].replace(".", ""))
    names = [name.strip() for name in archs.split(",")]
    numbers = [int(re.sub(r"\D", "", name)) for name in names]
    for name, number in zip(names, numbers):
        own_chip_only = name[-1] in "af"
        if number == mine or (not own_chip_only and number // 10 == mine // 10 and number <= mine):
            return ""
    if max(numbers) <= mine:  # there is PTX of the newest
        return ""
    return "the programs are for %s, and %s is sm_%d: pack with --cuda_archs=sm_%d" % (
        archs, gpu["name"], mine, mine)


def known_by_the_loader():
    listed = output_of([find_tool("ldconfig") or "/sbin/ldconfig", "-p"]) or ""
    return dict(re.findall(r"^\s*(\S+) \(.*\) => (\S+)", listed, re.MULTILINE))


def library_folders(needs, more):
    """Returns the folders of these libraries, and the libraries that were not found.

    Looks in the folders of `more` first, then where the environment and the loader say, then in usual places.
    """
    cuda_home = os.environ.get("CUDA_HOME", "")
    patterns = more + os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    patterns += [cuda_home + "/lib64"] if cuda_home else []
    python = sys.path + [folder for pattern in PYTHON_FOLDERS for folder in glob.glob(pattern)]
    usual = LIBRARY_FOLDERS + [folder + "/nvidia/*/lib" for folder in python if folder]
    by_loader = known_by_the_loader()
    folders, missing = [], []
    for name in needs:
        first = [os.path.join(folder, name) for pattern in patterns if pattern
                 for folder in glob.glob(pattern)]
        last = [os.path.join(folder, name) for pattern in usual for folder in glob.glob(pattern)]
        places = first + ([by_loader[name]] if name in by_loader else []) + sorted(set(last))
        found = next((place for place in places if os.path.exists(place)), None)
        if found is None:
            missing.append(name)
        elif os.path.dirname(found) not in folders:
            folders.append(os.path.dirname(found))
    return folders, missing


def readable_version(library, number):
    """Converts version numbers: cuDNN's 91002 is 9.10.2, NCCL's 22809 is 2.28.9, the driver's 13000 is 13.0."""
    if library == "cuda_driver":
        return "%d.%d" % (number // 1000, number % 1000 // 10)
    major = number // 10000
    return "%d.%d.%d" % (major, number % 10000 // 100, number % 100)


def versions(environment):
    text = output_of([sys.executable, "-c", VERSIONS], environment)
    found = json.loads(text) if text else {}
    return {name: readable_version(name, number) for name, number in found.items() if number}


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = re.search(r"^model name\s*: (.*)", file.read(), re.MULTILINE)
    except OSError:
        name = None
    return "%s, %d threads" % (name.group(1) if name else platform.machine(), os.cpu_count() or 0)


def torch_problem(environment):
    """Returns why a comparison with PyTorch is impossible here, or an empty text."""
    said = output_of([sys.executable, "-c", "import torch; print(torch.cuda.is_available())"],
                     environment)
    if said is None:
        return "PyTorch is not installed for %s" % sys.executable
    return "" if said.strip() == "True" else "PyTorch sees no GPU"
