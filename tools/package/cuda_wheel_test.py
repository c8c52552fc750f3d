#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Installs the wheel zeroth_cuda13, and looks where its programs find their libraries. Needs no GPU.

    cuda_wheel_test.py PACKAGES DISPATCHER TRAIN       beside links to the libraries of TRAIN, the program built here
    cuda_wheel_test.py PACKAGES CPU_PACKAGES TEXT.md   beside the wheel zeroth and NVIDIA's wheels: downloads 1 GB
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# NVIDIA's libraries by the names in `train --version`: their files, and where these must be found, below site-packages.
NVIDIA = {"cuBLASLt": ("libcublasLt.so.13", "nvidia/cu13/lib"), "NCCL": ("libnccl.so.2", "nvidia/nccl/lib"),
          "cuDNN": ("libcudnn.so.9", "nvidia/cudnn/lib"), "CUDA runtime": ("libcudart.so.13", "nvidia/cu13/lib"),
          "NVRTC": ("libnvrtc.so.13", "nvidia/cu13/lib")}
EXPECTED = dict(NVIDIA.values())
EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so.*")
PROGRAMS = ["evaluate", "generate", "train"]
NO_DRIVER = not any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg"))


def run(*words, **options):
    # LD_LIBRARY_PATH and CUDA_HOME of this machine say nothing of a user's.
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("TEST_TMPDIR", "/tmp"), **options.pop("env", {})}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, **options)
    return done.returncode, done.stdout + done.stderr


def succeed(*words, **options):
    code, printed = run(*words, **options)
    if code != 0:
        fail("exit code %d of %s:\n%s" % (code, " ".join(words), printed))
    return printed


def fail(message):
    sys.exit("FAILED: " + message)


def libraries_of(program):
    """Returns the path of each library by its name, as the dynamic loader finds it."""
    printed = succeed("ldd", program)
    if "not found" in printed:
        fail("ldd %s prints:\n%s" % (program, printed))
    return dict(re.findall(r"^\s*(\S+) => (/\S+) \(0x[0-9a-f]+\)$", printed, re.MULTILINE))


def printed_folders(version):
    """Returns the folder of each of NVIDIA's libraries that `train --version` has printed."""
    return dict(re.findall(r"^(?:CUDA)? +(\w[\w ]*) \d[\w.]* in (/.*)$", version, re.MULTILINE))


def link_libraries(site, train):
    """Makes the folders of the wheel zeroth and of NVIDIA's, with links to the libraries that `train` is built with."""
    found = libraries_of(train)
    # The libraries that programs load at run time, where the programs find them. The toolkit's may be links into several
    # folders (make_toolkit.sh).
    printed = succeed(train, "--version")
    folders = printed_folders(printed)
    if folders.keys() != NVIDIA.keys():
        fail("the program built here, %s, does not find all of %s:\n%s" % (train, ", ".join(NVIDIA), printed))
    for library, folder in folders.items():
        found[NVIDIA[library][0]] = os.path.join(folder, NVIDIA[library][0])
    # cuDNN loads its parts from the folder in which it was found itself, which is the one of links.
    parts = {os.path.basename(path): path for path in glob.glob(folders["cuDNN"] + "/libcudnn_*.so.9")}
    if not parts:
        fail("no parts of cuDNN, libcudnn_*.so.9, lie in " + folders["cuDNN"])
    found.update(parts)
    for name, path in found.items():
        if not EVERYWHERE.fullmatch(name):
            folder = os.path.join(site, NVIDIA["cuDNN"][1] if name in parts else EXPECTED.get(name, "zeroth/lib/zeroth"))
            os.makedirs(folder, exist_ok=True)
            os.symlink(os.path.realpath(path), os.path.join(folder, name))


def check_libraries(site):
    """Every library lies in site-packages or is one of every Linux."""
    if sorted(name for name in os.listdir(site + "/zeroth_cuda13") if not name.startswith("_")) != PROGRAMS:
        fail("the wheel has %s" % os.listdir(site + "/zeroth_cuda13"))
    for program in PROGRAMS:
        path = os.path.join(site, "zeroth_cuda13", program)
        found = libraries_of(path)
        # generate and evaluate have one rank, and so need no NCCL.
        needed = {"libcublasLt.so.13", "libnccl.so.2"} if program == "train" else {"libcublasLt.so.13"}
        if not needed <= found.keys():
            fail("%s is not linked with %s, but with %s" % (path, ", ".join(sorted(needed)), sorted(found)))
        for name, where in found.items():
            folder = EXPECTED.get(name, "zeroth/lib/zeroth")
            if EVERYWHERE.fullmatch(name):
                continue
            if os.path.normpath(os.path.dirname(where)) != os.path.join(site, folder):
                fail("%s finds %s at %s, expected in %s" % (path, name, where, os.path.join(site, folder)))


def check_version(site, zeroth):
    printed = succeed(zeroth, "--version")
    found = printed_folders(printed)
    expected = {name: os.path.join(site, folder) for name, (_, folder) in NVIDIA.items()}
    if found != expected:
        fail("zeroth --version names %s, expected %s:\n%s" % (found, expected, printed))
    if NO_DRIVER and "driver not found: libcuda.so.1" not in printed:
        fail("zeroth --version says nothing of the missing driver:\n" + printed)
    print(printed)


def check_without_driver(zeroth, folder, data):
    if not NO_DRIVER:
        print("SKIPPED: this machine has a driver")
        return
    for words in (["train", "--data=" + data, "--device=cuda", "--steps=1", "--out=" + folder + "/gpu"],
                  ["generate", "--model=" + folder + "/cpu/final", "--device=cuda", "--prompt=The"]):
        code, printed = run(zeroth, *words, cwd=folder)
        if code == 0 or "there is no NVIDIA driver here" not in printed or "install one for CUDA 13.0" not in printed:
            fail("without a driver, zeroth %s exits with %d and prints:\n%s" % (" ".join(words), code, printed))
        print(printed)


def check_mismatch(site, zeroth):
    """The dispatcher refuses programs of another release: they would run with the libraries of this one."""
    path = os.path.join(site, "zeroth_cuda13", "_version.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write("__version__ = \"0.0.1\"\n")
    code, printed = run(zeroth, "--version")
    if code != 2 or "have different versions" not in printed:
        fail("with programs of another version, zeroth --version exits with %d and prints:\n%s" % (code, printed))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def check_requirements(site):
    with open(glob.glob(site + "/zeroth_cuda13-*.dist-info/METADATA")[0], encoding="utf-8") as file:
        required = re.findall(r"^Requires-Dist: (.*)$", file.read(), re.MULTILINE)
    # NVIDIA's packages alone. Another project has the name zeroth on PyPI, and pip would install that one.
    patterns = [r"nvidia-%s==\d+\.\d+\.\*" % name for name in (
        "cublas", "cuda-runtime", "cuda-nvrtc", "nccl-cu13", "cudnn-cu13")]
    if len(required) != len(patterns) or not all(map(re.fullmatch, patterns, required)):
        fail("the wheel requires %s" % required)


def main():
    wheel, = glob.glob(os.path.abspath(sys.argv[1]) + "/zeroth_cuda13-*.whl")
    print("%s has %.1f MB" % (os.path.basename(wheel), os.path.getsize(wheel) / 1e6))
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        pip = [folder + "/venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        succeed(sys.executable, "-m", "venv", folder + "/venv")
        site, = glob.glob(folder + "/venv/lib/python3*/site-packages")
        if sys.argv[3].endswith(".md"):
            data = os.path.abspath(sys.argv[3])
            cpu_wheel, = glob.glob(os.path.abspath(sys.argv[2]) + "/zeroth-*.whl")
            succeed(*pip, wheel, cpu_wheel, env=dict(os.environ))
            zeroth = folder + "/venv/bin/zeroth"
        else:
            data = os.path.join(folder, "text.md")
            with open(data, "w", encoding="utf-8") as file:
                file.write("Zeroth trains and fine-tunes language models. " * 50)
            succeed(*pip, "--no-index", "--no-deps", wheel)
            link_libraries(site, os.path.abspath(sys.argv[3]))
            zeroth = site + "/zeroth/bin/zeroth"
            os.makedirs(site + "/zeroth/bin")
            shutil.copy(sys.argv[2], zeroth)
            shutil.copy(site + "/zeroth_cuda13/_version.py", site + "/zeroth")
        check_requirements(site)
        check_libraries(site)
        check_version(site, zeroth)
        check_mismatch(site, zeroth)
        print(succeed(zeroth, "train", "--data=" + data, "--device=cpu", "--steps=20", "--seq_len=32", "--batch_size=2",
                      "--out=" + folder + "/cpu", cwd=folder))
        check_without_driver(zeroth, folder, data)


if __name__ == "__main__":
    main()
