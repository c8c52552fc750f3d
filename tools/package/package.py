#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a wheel, a Debian package and an OCI image of the programs, with the libraries that not every Linux has.

    package.py [--root=FOLDER] OUTPUT VERSION DISPATCHER LICENSE NAME=PROGRAM...

FOLDER is the root of the system that the programs are linked with, if that is not this machine's: the sysroot of a cross
compiler. Its strip and qemu's user emulator for its processor must be installed.

All have one tree: bin/zeroth, and in lib/zeroth the programs that it runs and their libraries. The wheel also has the
Python package of ../python. The image also has the system's C and C++ libraries and the few tools that bin/zeroth calls,
and lacks the Python programs. The same programs give the same bytes: files are in the order of their names, without times,
owners or names of this machine.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# Libraries of every Debian with C++ programs, and of the policies for wheels (PEP 600).
EVERYWHERE = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so.*")
# Programs that bin/zeroth calls. An image has copies of the system's.
TOOLS = {"sh": "bin/sh", "cat": "usr/bin/cat", "dirname": "usr/bin/dirname", "readlink": "usr/bin/readlink",
         "sed": "usr/bin/sed", "sort": "usr/bin/sort"}
# Where the dynamic loader looks if a program names no folders, from a root. Folders for some processors only (glibc-hwcaps)
# are not among them: a package runs on all.
LIBRARY_FOLDERS = ("lib/%s-linux-gnu", "usr/lib/%s-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib")
# Debian packages of the libraries whose code is compiled into the programs, from headers or static archives.
COMPILED_IN = ("libabsl-dev", "libhwy-dev", "libtomlplusplus-dev", "libxxhash-dev", "nlohmann-json3-dev")
COMMON_LICENSES = "/usr/share/common-licenses/"  # of Debian; copyright files point into it
# The newest GLIBC_ and GLIBCXX_ symbols that a wheel of manylinux_2_N may need. From auditwheel 6.8.2,
# policy/manylinux-policy.json; equal for x86_64 and aarch64.
POLICIES = (((2, 28), (3, 4, 24)), ((2, 31), (3, 4, 28)), ((2, 34), (3, 4, 29)), ((2, 35), (3, 4, 30)),
            ((2, 36), (3, 4, 30)), ((2, 37), (3, 4, 30)), ((2, 38), (3, 4, 30)), ((2, 39), (3, 4, 33)),
            ((2, 40), (3, 4, 33)), ((2, 41), (3, 4, 33)))
# The newest GLIBCXX_ symbols of GCC's releases, which are Debian's versions of libstdc++6. From "ABI Policy and
# Guidelines" in the manual of libstdc++.
LIBSTDCXX = (((3, 4, 29), "11"), ((3, 4, 30), "12"), ((3, 4, 31), "13.1"), ((3, 4, 32), "13.2"), ((3, 4, 33), "14"))
DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of a ZIP archive
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SUMMARY = "Trains and fine-tunes language models, sharded over ranks"
# The Python package, which runs the programs beside it.
PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python", "zeroth")
# The system that the programs are for; main() sets both.
ROOT = "/"
PROCESSOR = platform.machine()


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def machine_of(path):
    """Returns the processor of a program or library, as readelf calls it."""
    return re.search(r"^\s*Machine:\s*(.*)$", run("readelf", "--file-header", path), re.MULTILINE).group(1)


def in_root(path):
    return os.path.join(ROOT, path.lstrip("/"))


def libraries_of(program):
    """Returns the paths of all shared libraries and of the dynamic loader by the names under which they are looked up. Reads
    what the files say, since ldd would run the program, which may be another processor's."""
    machine = machine_of(program)
    loader = re.search(r"program interpreter: (\S+)\]", run("readelf", "--wide", "--program-headers", program))
    found = {loader.group(1): in_root(loader.group(1))} if loader else {}
    folders, waiting = [], [program]
    while waiting:
        path = waiting.pop(0)
        dynamic = run("readelf", "--wide", "--dynamic", path)
        for listed in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
            folders += [folder.replace("$ORIGIN", os.path.dirname(os.path.abspath(path))) for folder in listed.split(":")]
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
            if name in found or name.startswith("ld-linux"):
                continue
            places = folders + [in_root(folder.replace("%s", PROCESSOR)) for folder in LIBRARY_FOLDERS]
            candidates = (os.path.join(folder, name) for folder in places)
            found[name] = next((file for file in candidates if os.path.exists(file) and machine_of(file) == machine), None)
            if found[name] is None:
                sys.exit("package: %s needs %s, which is not found in %s; build the program on this machine" %
                         (path, name, ", ".join(places)))
            waiting.append(found[name])
    return found


def bundled_of(program):
    """Returns those of its libraries that not every Linux has."""
    return {name: path for name, path in libraries_of(program).items()
            if not EVERYWHERE.fullmatch(os.path.basename(name))}


def notices(files):
    """Returns the licences of these files, of the libraries that are compiled in, and those that they point to. The first
    are Debian's copyright files, or those in licenses/ beside the folder of a library."""
    texts = {package: copyright_of(package) for package in COMPILED_IN}
    for path in files:
        licenses = os.path.join(os.path.dirname(os.path.dirname(path)), "licenses")
        # Since /usr was merged, a package may name a file by either path.
        real = os.path.join("/", os.path.relpath(os.path.realpath(path), os.path.realpath(ROOT)))
        owner = subprocess.run(["dpkg-query", "--admindir", in_root("var/lib/dpkg"), "-S", real, real.removeprefix("/usr")],
                               check=False, capture_output=True, text=True)
        if owner.stdout:
            package = owner.stdout.split(":")[0]
            texts[package] = copyright_of(package)
        elif os.path.isdir(licenses):
            texts.update({name: read_text(os.path.join(licenses, name)) for name in os.listdir(licenses)})
        else:
            sys.exit("package: no licence of %s was found, neither of Debian's packages nor in %s" % (path, licenses))
    # A wheel may be installed where there is no such folder.
    pointers = re.findall(re.escape(COMMON_LICENSES) + r"([A-Za-z0-9.+-]*[A-Za-z0-9])", "".join(texts.values()))
    texts.update({COMMON_LICENSES + name: read_text(COMMON_LICENSES + name) for name in pointers})
    names = {}  # by text: packages of one source have one text
    for name, text in sorted(texts.items()):
        names.setdefault(text, []).append(name)
    return "".join("\n==== %s\n\n%s" % (", ".join(group), text) for text, group in names.items())


def copyright_of(package):
    path = in_root("usr/share/doc/%s/copyright" % package)
    if not os.path.exists(path):
        sys.exit("package: %s is missing, and its licence belongs into the packages: apt-get install %s" % (path, package))
    return read_text(path)


def read_text(path):
    return read(path).decode(errors="replace")


def stage(tree, dispatcher, programs):
    """Fills the folder, and returns the paths of the libraries that it put there."""
    folder = os.path.join(tree, "lib", "zeroth")
    strip = "strip" if ROOT == "/" else "%s-linux-gnu-strip" % PROCESSOR
    os.makedirs(folder)
    os.makedirs(os.path.join(tree, "bin"))
    shutil.copy(dispatcher, os.path.join(tree, "bin", "zeroth"))
    libraries = {}
    for name, program in programs.items():
        target = os.path.join(folder, name)
        if is_elf(program):
            libraries.update(bundled_of(program))
            run(strip, "-o", target, program)
        else:
            shutil.copy(program, target)
        os.chmod(target, 0o755)
    for name, path in libraries.items():
        target = os.path.join(folder, name)
        run(strip, "--strip-unneeded", "-o", target, path)
        os.chmod(target, 0o644)  # strip leaves what the umask and the library's own mode make of it
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if is_elf(path):
            # DT_RPATH, unlike DT_RUNPATH, also counts for the libraries of libraries.
            run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", path)
    os.chmod(os.path.join(tree, "bin", "zeroth"), 0o755)
    return list(libraries.values())


def files_of(tree):
    """Returns (path in the tree, path) of all files, in the order of the former."""
    paths = (os.path.join(base, name) for base, _, names in os.walk(tree) for name in names)
    return sorted((os.path.relpath(path, tree), path) for path in paths)


def newest_symbol(tree, prefix):
    """Returns the newest version of the symbols GLIBC_ or GLIBCXX_ that the tree needs, as (2, 36)."""
    versions = [(0,)]
    for _, path in files_of(tree):
        if is_elf(path):
            # glibc 2.36 brought packed relocations, and a name instead of a version for them.
            needs = run("readelf", "--wide", "--version-info", path).replace("GLIBC_ABI_DT_RELR", "GLIBC_2.36")
            found = re.findall(r"\b%s_([0-9.]+)\b" % prefix, needs)
            versions += [tuple(int(part) for part in version.split(".")) for version in found]
    return max(versions)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def policy_of(glibc, glibcxx):
    """Returns the oldest policy for wheels that allows these symbols, as (2, 35)."""
    for policy, newest in POLICIES:
        if glibc[:2] <= policy and glibcxx <= newest:
            return policy
    sys.exit("package: the programs need %s, newer than manylinux_%d_%d allows, the last policy that package.py knows; "
             "build them on an older system, such as Debian 12, or add the newer policy to its table" %
             (spell_symbols(glibc, glibcxx), *POLICIES[-1][0]))


def libstdcxx_of(glibcxx):
    """Returns the oldest version of Debian's libstdc++6 that has these symbols."""
    for newest, version in LIBSTDCXX:
        if glibcxx <= newest:
            return version
    sys.exit("package: the programs need %s, newer than any GCC that package.py knows; build them on an older system, "
             "such as Debian 12, or add the newer GCC to its table" % spell_symbols((), glibcxx))


def spell_symbols(glibc, glibcxx):
    return " and ".join(name + ".".join(map(str, version))
                        for name, version in (("GLIBC_", glibc), ("GLIBCXX_", glibcxx)) if version)


def write_wheel(output, name, version, entries, requirements, scripts, licenses, policy):
    """Writes a wheel of the entries (path, content, mode), and its metadata."""
    tag = "py3-none-manylinux_%d_%d_%s" % (*policy, PROCESSOR)
    info = "%s-%s.dist-info/" % (name, version)
    text = {
        "METADATA": "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nLicense: Apache-2.0\n"
                    "Requires-Python: >=3.8\n" % (name, version, SUMMARY) +
                    "".join("Requires-Dist: %s\n" % requirement for requirement in requirements),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: zeroth\nRoot-Is-Purelib: false\nTag: %s\n" % tag,
        "LICENSE": licenses,
    }
    if scripts:
        text["entry_points.txt"] = "[console_scripts]\n" + scripts
    entries = entries + [(info + file, content.encode(), 0o644) for file, content in text.items()]
    record = ""
    with zipfile.ZipFile(os.path.join(output, "%s-%s-%s.whl" % (name, version, tag)), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content, mode in sorted(entries):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (path, digest, len(content))
            write_entry(wheel, path, content, mode)
        write_entry(wheel, info + "RECORD", (record + info + "RECORD,,\n").encode(), 0o644)


def version_module(version):
    return "__version__ = \"%s\"\n" % version


def write_cpu_wheel(output, version, tree, licenses, policy):
    entries = [("zeroth/" + name, read(path), os.stat(path).st_mode) for name, path in files_of(tree)]
    entries += [("zeroth/" + name, read(path), 0o644) for name, path in files_of(PYTHON) if name.endswith((".py", "py.typed"))]
    entries.append(("zeroth/_version.py", version_module(version).encode(), 0o644))
    write_wheel(output, "zeroth", version, entries, [], "zeroth = zeroth._program:main\n", licenses, policy)


def write_entry(wheel, name, content, mode):
    entry = zipfile.ZipInfo(name, DATE)
    entry.external_attr = (0o100000 | mode & 0o777) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)


def tar_of(files):
    """Returns an archive of (name, content, mode), with the folders of the names. Folders have no content."""
    folders = set()
    for name, _, _ in files:
        parts = name.split("/")[1:-1]
        folders.update("./" + "/".join(parts[:count]) for count in range(len(parts) + 1))
    folders.difference_update(name for name, _, _ in files)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, mode in sorted([(name, None, 0o755) for name in folders] + files):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.uname, entry.gname = mode & 0o7777, "root", "root"
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def compress(content):
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as compressed:
        compressed.write(content)
    return buffer.getvalue()


def completion_of(tree, shell):
    """Returns what `zeroth completion SHELL` prints, which asks each program for its flags."""
    programs = os.path.join(tree, "lib", "zeroth")
    with tempfile.TemporaryDirectory() as folder:
        if ROOT != "/":
            for name in os.listdir(programs):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as script:
                    emulator = "qemu-%s -L '%s' " % (PROCESSOR, ROOT) if is_elf(os.path.join(programs, name)) else ""
                    script.write("#!/bin/sh\nexec %s'%s' \"$@\"\n" % (emulator, os.path.join(programs, name)))
                    os.fchmod(script.fileno(), 0o755)
            programs = folder
        return run("env", "ZEROTH_PROGRAMS=" + programs, os.path.join(tree, "bin", "zeroth"), "completion", shell)


def write_deb(output, version, tree, licenses, glibc, glibcxx):
    architecture = DEBIAN_ARCHITECTURES[PROCESSOR]
    files = [("./usr/" + name, read(path), os.stat(path).st_mode) for name, path in files_of(tree)]
    for shell, path in (("bash", "bash-completion/completions/zeroth"), ("zsh", "zsh/vendor-completions/_zeroth"),
                        ("fish", "fish/vendor_completions.d/zeroth.fish")):
        files.append(("./usr/share/" + path, completion_of(tree, shell).encode(), 0o644))
    files.append(("./usr/share/doc/zeroth/copyright", licenses.encode(), 0o644))
    control = ("Package: zeroth\nVersion: %s\nArchitecture: %s\nMaintainer: The Zeroth Authors <zeroth@localhost>\n"
               "Installed-Size: %d\nDepends: libc6 (>= %d.%d), libstdc++6 (>= %s), libgcc-s1\n"
               "Recommends: python3 (>= 3.11)\nSection: science\nPriority: optional\nDescription: %s\n" %
               (version, architecture, sum(len(content) for _, content, _ in files) // 1024 + 1, *glibc[:2],
                libstdcxx_of(glibcxx), SUMMARY))
    with open(os.path.join(output, "zeroth_%s_%s.deb" % (version, architecture)), "wb") as deb:
        deb.write(b"!<arch>\n")
        for name, content in (("debian-binary", b"2.0\n"),
                              ("control.tar.gz", compress(tar_of([("./control", control.encode(), 0o644)]))),
                              ("data.tar.gz", compress(tar_of(files)))):
            deb.write(b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name.encode(), 0, 0, 0, 0o100644, len(content)))
            deb.write(content + b"\n" * (len(content) % 2))


def system_files(tree):
    """Returns (path in an image, path) of what the programs of the tree need that the tree lacks: the dynamic loader, the
    libraries of every Linux, and the tools of bin/zeroth with theirs."""
    found = {}
    for _, path in files_of(tree):
        if is_elf(path) and os.access(path, os.X_OK):
            found.update((os.path.relpath(library, ROOT), library) for library in libraries_of(path).values()
                         if os.path.relpath(library, tree).startswith(".."))
    for name, target in TOOLS.items():
        path = shutil.which(name, path=os.pathsep.join((in_root("usr/bin"), in_root("bin"))))
        if path is None:
            sys.exit("package: there is no %s in %s, which bin/zeroth calls in the image: apt-get install coreutils dash sed" %
                     (name, ROOT))
        found[target] = path
        found.update((os.path.relpath(library, ROOT), library) for library in libraries_of(path).values())
    return sorted(found.items())


def write_image(output, version, tree, licenses, system):
    """Writes an archive of an OCI image layout, with one layer. See the OCI's image specification 1.0."""
    architecture = DEBIAN_ARCHITECTURES[PROCESSOR]
    files = [("./usr/" + name, read(path), os.stat(path).st_mode) for name, path in files_of(tree)
             if is_elf(path) or name == "bin/zeroth"]
    files += [("./" + name, read(path), os.stat(path).st_mode) for name, path in system]
    files += [("./etc/passwd", b"root:x:0:0:root:/work:/bin/sh\n", 0o644), ("./etc/group", b"root:x:0:\n", 0o644),
              ("./usr/share/doc/zeroth/copyright", licenses.encode(), 0o644), ("./tmp", None, 0o1777)]
    # The image may be mounted read-only, so what is mounted in it is there.
    files += [("./" + name, None, 0o755) for name in ("dev", "proc", "sys", "work")]
    layer = tar_of(files)
    layer_digest = digest_of(layer)
    created = "%04d-%02d-%02dT%02d:%02d:%02dZ" % DATE
    labels = {"title": "zeroth", "version": version, "description": SUMMARY}
    configuration = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["zeroth"],
            "Env": ["PATH=/usr/bin:/bin"],
            "WorkingDir": "/work",
            "Labels": {"org.opencontainers.image." + name: value for name, value in labels.items()},
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created": created, "created_by": "package.py"}],
    }
    layout = {"./oci-layout": json_of({"imageLayoutVersion": "1.0.0"})}

    def put(kind, content):
        """Puts a blob into the layout, and returns its descriptor."""
        layout["./blobs/" + digest_of(content).replace(":", "/")] = content
        return {"mediaType": "application/vnd.oci.image.%s" % kind, "digest": digest_of(content), "size": len(content)}

    manifest = put("manifest.v1+json", json_of({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put("config.v1+json", json_of(configuration)),
        "layers": [put("layer.v1.tar+gzip", compress(layer))],
    }))
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    # The tag in a layout, and the name under which podman and containerd load the image.
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version,
                               "io.containerd.image.name": "localhost/zeroth:" + version}
    layout["./index.json"] = json_of({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                      "manifests": [manifest]})
    with open(os.path.join(output, "zeroth_%s_%s.oci.tar" % (version, architecture)), "wb") as image:
        image.write(tar_of([(name, content, 0o644) for name, content in layout.items()]))


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def json_of(value):
    return json.dumps(value, indent=1).encode()


def main():
    global ROOT, PROCESSOR
    words = sys.argv[1:]
    if words[0].startswith("--root="):
        ROOT = words.pop(0).split("=", 1)[1]
    output, version, dispatcher, license_file = words[:4]
    programs = dict(word.split("=", 1) for word in words[4:])
    machine = machine_of(next(program for program in programs.values() if is_elf(program)))
    PROCESSOR = {"AArch64": "aarch64"}.get(machine, "x86_64")
    if ROOT != "/" and shutil.which("qemu-" + PROCESSOR) is None:
        sys.exit("package: qemu-%s is not installed; it runs the programs, which say what a shell completes: "
                 "apt-get install qemu-user" % PROCESSOR)
    if shutil.which("patchelf") is None:
        sys.exit("package: patchelf is not installed; it sets where programs look for libraries: apt-get install patchelf")
    os.environ["LC_ALL"] = "C"  # the order of completions, and the words of readelf
    os.makedirs(output, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "tree")
        libraries, text = stage(tree, dispatcher, programs), read_text(license_file)
        licenses = text + notices(libraries)
        glibc, glibcxx = newest_symbol(tree, "GLIBC"), newest_symbol(tree, "GLIBCXX")
        write_cpu_wheel(output, version, tree, licenses, policy_of(glibc, glibcxx))
        write_deb(output, version, tree, licenses, glibc, glibcxx)
        system = system_files(tree)
        write_image(output, version, tree, text + notices(libraries + [path for _, path in system]), system)


if __name__ == "__main__":
    main()
