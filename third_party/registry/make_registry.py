#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a Bazel registry of what this system has installed, so that modules build without a network.

    third_party/registry/make_registry.py OUT [--bazel=BAZEL]
    ./bazelw build --registry=file://$PWD/OUT //...

Every module that MODULE.bazel names, and every one that Bazel itself asks for, is in it, under the very versions that are
asked for. Its contents are, in this order:

1. the distribution's package of Bazel rules, where /usr/share/bazel has one of this name;
2. the repository that WORKSPACE makes of the system's library (third_party/*/repository.bzl);
3. nothing. Bazel names modules for other languages and systems, of which a C++ build on Linux loads no file; a build that
   does load one fails with that file's name.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = pathlib.Path("/usr/share/bazel")


def parse_dependencies(module_file):
    """Returns (module, version, name of its repository) of each bazel_dep that is not for development only."""
    found = []
    for arguments in re.findall(r"^bazel_dep\((.*?)\)", module_file.read_text(), re.DOTALL | re.MULTILINE):
        values = dict(re.findall(r'(\w+)\s*=\s*"?([^",]*)"?', arguments))
        if values.get("dev_dependency", "").strip() != "True" or module_file.parent == ROOT:
            found.append((values["name"], values["version"], values.get("repo_name", values["name"])))
    return found


def under_version(text, version):
    """The text of a MODULE.bazel, which calls itself by this version."""
    return re.sub(r'(\bmodule\([^)]*?\bversion = )"[^"]*"', rf'\g<1>"{version}"', text, count=1)


def rules_folder(module):
    """Where the distribution keeps the Bazel rules of this name, or None."""
    short = re.sub(r"^(rules|bazel)_", "", module)
    for folder in (RULES / "rules" / short, RULES / "tools" / short):
        if (folder / "MODULE.bazel").exists():
            return folder
    return None


def fetch(bazel, repositories, out):
    """Has Bazel make the WORKSPACE repositories and copies them to out/NAME; returns Bazel's own MODULE.bazel."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [bazel, "--output_base=" + scratch, f"--bazelrc={ROOT}/bazel/workspace_mode.bazelrc"]
        query = " + ".join(f"@{name}//:all" for name in repositories)
        try:
            if subprocess.run(command + ["query", query], cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode:
                sys.exit("make_registry: Bazel could not make these repositories; its words are above")
            for name in repositories:
                shutil.copytree(pathlib.Path(scratch) / "external" / name, out / name, symlinks=True)
            return (pathlib.Path(scratch) / "external" / "bazel_tools" / "MODULE.bazel").resolve()
        finally:
            subprocess.run(command + ["shutdown"], cwd=ROOT, check=False)


def bazel_version(bazel):
    words = subprocess.run([bazel, "--version"], check=True, capture_output=True, text=True).stdout.split()
    return words[-1] if words else "unknown"


def make(bazel, out):
    version = bazel_version(bazel)
    if not re.match(r"[78]\.", version):
        sys.exit(f"make_registry: {bazel} is version {version}; only Bazel 7 and 8 know both modules and WORKSPACE")
    if out.exists() and any(out.iterdir()) and not (out / "bazel_registry.json").exists():
        sys.exit(f"make_registry: {out} holds something other than a registry; name another folder, or empty it")
    shutil.rmtree(out, ignore_errors=True)
    sources = out / "sources"
    sources.mkdir(parents=True)
    own = parse_dependencies(ROOT / "MODULE.bazel")
    libraries = {module: repository for module, _, repository in own if not rules_folder(module)}
    embedded = fetch(bazel, libraries.values(), sources)
    rules_cc = next(version for module, version, _ in own if module == "rules_cc")

    # The last is what local_config_platform asks for, a module that is written inside Bazel's program.
    waiting = own + parse_dependencies(embedded) + [("platforms", "0.0.7", "platforms")]
    made = set()
    while waiting:
        module, version, _ = waiting.pop()
        if (module, version) in made:
            continue
        made.add((module, version))
        source = sources / libraries.get(module, module)
        source.mkdir(exist_ok=True)
        rules = rules_folder(module)
        if rules:
            needs = parse_dependencies(rules / "MODULE.bazel")
            text = under_version((rules / "MODULE.bazel").read_text(), version)
            for entry in rules.iterdir():
                if entry.name != "MODULE.bazel" and not (source / entry.name).exists():
                    (source / entry.name).symlink_to(entry)
        else:
            needs = [("rules_cc", rules_cc, "rules_cc")] if module in libraries else []
            text = f'module(name = "{module}", version = "{version}")\n'
            text += "".join(f'bazel_dep(name = "{name}", version = "{of_it}")\n' for name, of_it, _ in needs)
        folder = out / "modules" / module / version
        folder.mkdir(parents=True)
        for place in (folder, source):  # a folder without this file is no repository
            (place / "MODULE.bazel").write_text(text)
        (folder / "source.json").write_text(json.dumps({"type": "local_path", "path": source.name}))
        waiting += needs
    (out / "bazel_registry.json").write_text(json.dumps({"module_base_path": str(sources)}))
    print(f"make_registry: {len(made)} modules in {out}; build with --registry=file://{out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="the folder to make; what it held is deleted")
    parser.add_argument("--bazel", default=os.environ.get("BAZEL") or "bazel", help="the Bazel to ask")
    options = parser.parse_args()
    make(options.bazel, options.out.resolve())
