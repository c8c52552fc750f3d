#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Installs the wheel and the Debian package for arm64 into a root folder of Debian's packages for arm64, unpacks the image for
arm64 into an empty one, and runs their commands there under qemu-aarch64.

    tests/aarch64/packages_under_qemu.py PACKAGES SYSROOT

PACKAGES is bazel-bin/tools/package/packages of a build with --config=aarch64; SYSROOT is the folder that
third_party/aarch64/fetch_sysroot.sh prints, which is copied and not changed. dpkg checks that the folder has what the package
depends on, pip that the wheel is for aarch64, and readelf that all programs and libraries are. The commands run in a user
namespace in which the kernel starts programs for aarch64 by the emulator, which Linux can since 6.7; nothing outside of it
changes. Exits with 3 where there is no qemu-aarch64-static or no such namespace.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SECONDS = 1800  # at most, for a command
# Mounts a binfmt_misc for this namespace only, and registers qemu there for aarch64's ELF files. The flag F opens qemu at
# once, so that it also works inside the chroot.
NAMESPACE = r"""
set -e
root="$1" work="$2"
shift 2
mount -t binfmt_misc binfmt_misc "$root/emulators"
printf '%s' ':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:'\
'\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$(command -v qemu-aarch64-static):F" \
  >"$root/emulators/register"
for name in proc dev; do mount --rbind "/$name" "$root/$name"; done
mount --bind "$work" "$root/work"
exec env -i PATH=/usr/bin:/bin HOME=/work unshare --root="$root" --wd=/work "$@"
"""
TINY = ["--data=/work/text.md", "--seq_len=16", "--batch_size=1", "--world_size=2", "--sample_tokens=0"]


def fail(text):
    sys.exit("FAILED: " + text)


def run(*command, start=()):
    """Returns what the command prints, started by another one."""
    # A model of few steps may write bytes that are no UTF-8.
    done = subprocess.run([*start, *command], check=False, text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS)
    if done.returncode != 0:
        fail("%s exited with %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


def expect(what, pattern, printed):
    found = re.search(pattern, printed, re.MULTILINE)
    if not found:
        fail("%s printed, without %s:\n%s" % (what, pattern, printed))
    print("%-10s %s" % (what, found.group()), flush=True)


def check_machine(folder):
    """Checks that a folder's programs and libraries are for aarch64."""
    count = 0
    for base, _, names in os.walk(folder):
        for path in (os.path.join(base, name) for name in names):
            with open(path, "rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            count += 1
            if "AArch64" not in run("readelf", "--file-header", path):
                fail("%s is not for aarch64" % path)
    if count == 0:
        fail("%s has no programs" % folder)
    print("%-10s %d programs and libraries for aarch64" % ("", count), flush=True)


def run_commands(zeroth, version, out):
    """Runs most commands of the program once."""
    expect("version", r"^Zeroth %s, (.|\n)*; this processor runs (NEON|SVE)$" % re.escape(version), zeroth("--version"))
    expect("plan", r".*\bfits\b.*", zeroth("plan", "--model=gpt2_124m", "--machine=H100", "--world_size=8", "--seq_len=512"))
    tokenize = zeroth("tokenize", "--in=/work/text.md", "--tokenizer=byte", "--out=%s.bin" % out)
    expect("tokenize", r"^1 documents, \d+ tokens .*", tokenize)
    expect("train", r"^step 2/2 .*", zeroth("train", *TINY, "--steps=2", "--log_every=1", "--out=" + out))
    model = out + "/final"
    expect("inspect", r"^transformer\.wte\.weight .*", zeroth("inspect", model))
    expect("generate", r"^The.*", zeroth("generate", "--model=" + model, "--prompt=The", "--max_tokens=4"))
    expect("evaluate", r"^perplexity .*", zeroth("evaluate", "--model=" + model, "--data=/work/text.md", "--seq_len=64"))
    zeroth("convert", "--in=" + model, "--out=%s.gguf" % out)
    expect("convert", r"^token_embd\.weight .*", zeroth("inspect", out + ".gguf"))


def unpack_image(image, folder, root):
    """Unpacks the one layer of an OCI image by way of `folder` into `root`, and returns what the image says of its process."""
    run("tar", "--extract", "--file=" + image, "--directory=" + folder)

    def blob(described):
        return os.path.join(folder, "blobs", described["digest"].replace(":", "/"))

    def read(path):
        with open(path, "rb") as file:
            return json.load(file)

    manifest = read(blob(read(os.path.join(folder, "index.json"))["manifests"][0]))
    configuration = read(blob(manifest["config"]))
    if configuration["architecture"] != "arm64":
        fail("%s is an image for %s" % (image, configuration["architecture"]))
    run("tar", "--extract", "--file=" + blob(manifest["layers"][0]), "--directory=" + root)
    return configuration["config"]


def main():
    packages, sysroot = (os.path.abspath(argument) for argument in sys.argv[1:])
    if shutil.which("qemu-aarch64-static") is None:
        print("packages_under_qemu: there is no qemu-aarch64-static, which Debian's package qemu-user-static has")
        sys.exit(3)
    patterns = ("zeroth-*_aarch64.whl", "zeroth_*_arm64.deb", "zeroth_*_arm64.oci.tar")
    found = [glob.glob(os.path.join(packages, pattern)) for pattern in patterns]
    if any(len(files) != 1 for files in found):
        fail("%s has %s, expected one file each of %s" % (packages, os.listdir(packages), " ".join(patterns)))
    wheel, deb, image = (files[0] for files in found)
    version = re.search(r"zeroth-([^-]+)-", wheel).group(1)
    with tempfile.TemporaryDirectory() as folder:
        root, bare, layout, work = (os.path.join(folder, name) for name in ("root", "bare", "layout", "work"))
        shutil.copytree(sysroot, root, symlinks=True)
        for path in [layout, work] + [os.path.join(root, name) for name in ("dev", "emulators", "proc", "tmp", "work")]:
            os.makedirs(path, exist_ok=True)
        os.makedirs(os.path.join(bare, "emulators"))
        with open(os.path.join(ROOT, "README.md"), "rb") as text, open(os.path.join(work, "text.md"), "wb") as start:
            start.write(text.read(2000))

        def enter(place):
            return ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", NAMESPACE, "enter", place, work]

        def inside(*command):
            return run(*command, start=enter(root))

        if subprocess.run([*enter(root), "/bin/true"], check=False).returncode != 0:
            print("packages_under_qemu: a user namespace with its own emulators cannot be made here")
            sys.exit(3)
        print("== " + os.path.basename(deb))
        run("dpkg", "--root=" + root, "--force-not-root", "--log=/dev/null", "--install", deb)
        check_machine(os.path.join(root, "usr/lib/zeroth"))
        run_commands(lambda *words: inside("/usr/bin/zeroth", *words), version, "/work/deb")
        complete = os.path.join(root, "usr/share/bash-completion/completions/zeroth")
        with open(complete, encoding="utf-8") as file:
            expect("complete", r"--world_size= ", file.read())

        print("== " + os.path.basename(wheel))
        platform = re.search(r"manylinux_\w+", wheel).group()
        target = os.path.join(root, "usr/lib/python3/dist-packages")
        run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))
        run(os.path.join(folder, "venv/bin/pip"), "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
            "--only-binary=:all:", "--platform=" + platform, "--target=" + target, wheel)
        check_machine(os.path.join(target, "zeroth"))
        run_commands(lambda *words: inside("/usr/bin/python3", "-m", "zeroth", *words), version, "/work/wheel")
        expect("import", r"^aarch64 0.*", inside("/usr/bin/python3", "-c", """
import platform, zeroth
run = zeroth.train(data="/work/text.md", steps=2, seq_len=16, batch_size=1, world_size=1, sample_tokens=0, out="/work/python")
losses = [record["loss"] for record in run if "loss" in record]
print(platform.machine(), zeroth.__version__, losses, run.wait()["steps"])"""))

        print("== " + os.path.basename(image))
        process = unpack_image(image, layout, bare)
        check_machine(bare)
        run_commands(lambda *words: run(*process["Entrypoint"], *words, start=enter(bare)), version, "/work/image")


if __name__ == "__main__":
    main()
