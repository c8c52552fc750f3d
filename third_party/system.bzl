# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Helpers shared by the repository rules that find dependencies installed on this machine."""

# Searched after the paths a dependency itself names (pkg-config, an environment variable).
_PREFIXES = ["/usr", "/usr/local"]
_LIBRARY_FOLDERS = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"]

# The variables that sysroot() reads, for `environ` of rules whose results depend on it.
SYSROOT_VARIABLES = ["ZEROTH_TARGET", "ZEROTH_SYSROOT", "XDG_CACHE_HOME", "HOME"]

def sysroot(ctx):
    """Returns the folder that holds the target's libraries as / does for this machine: empty unless it is another one.

    --config=aarch64 sets ZEROTH_TARGET; bazelw sets ZEROTH_SYSROOT to what third_party/aarch64/fetch_sysroot.sh made.
    """
    target = ctx.os.environ.get("ZEROTH_TARGET", "")
    if not target:
        return ""
    folder = ctx.os.environ.get("ZEROTH_SYSROOT", "") or cached_folder(ctx, target, Label("//third_party:packages.txt"))
    if not folder or not ctx.path(folder + "/usr/include").exists:
        fail(("\n\nBuilding for %s needs the libraries of Debian's packages for it (looked in %s).\n" +
              "Run Zeroth's ./bazelw, which fetches them, or name their root folder by ZEROTH_SYSROOT.\n") % (target, folder))
    return folder

def _lacking_packages(ctx):
    """Returns the packages of packages.txt that this system lacks, each with what it is."""
    lacking = []
    for line in ctx.read(Label("//third_party:packages.txt")).splitlines():
        if line and not line.startswith("#"):
            package, what, probe = line.split("|")
            if ctx.execute(["sh", "-c", probe]).return_code != 0:
                lacking.append((package, what))
    return lacking

def fail_missing(ctx, what, package):
    """Stops the build, naming what was not found, what else is missing, and the ways to get it.

    Args:
      ctx: the repository rule's.
      what: the file or module that was looked for, and where.
      package: the Debian package that holds it.
    """
    lacking = _lacking_packages(ctx)
    names = " ".join([name for name, _ in lacking]) or package
    message = "\n\nZeroth needs %s.\nIt comes with the Debian package '%s'.\n" % (what, package)
    if lacking:
        message += "Of what Zeroth needs, this system lacks: %s.\n" % ", ".join(["%s (%s)" % entry for entry in lacking])
    message += "Run Zeroth's ./bazelw, which installs what is missing, or: sudo apt-get install %s\n" % names

    # Modules give repositories other names than their own.
    if "~" not in ctx.name and "+" not in ctx.name:
        message += ("A project that imports Zeroth can do without: declare a repository '%s' of your own before " +
                    "zeroth_dependencies(), or use Bazel modules, which take most from their registry " +
                    "(docs/importing.md).\n") % ctx.name
    fail(message)

def pkg_config(ctx, module, arguments, package):
    """Returns the trimmed output of `pkg-config ARGUMENTS MODULE`; fails where it is unknown."""
    tool = ctx.which("pkg-config")
    if not tool:
        fail_missing(ctx, "the program pkg-config", "pkg-config")
    root = sysroot(ctx)
    environment = {}
    if root:
        folders = [root + "/usr/lib/aarch64-linux-gnu/pkgconfig", root + "/usr/share/pkgconfig"]
        environment = {"PKG_CONFIG_LIBDIR": ":".join(folders), "PKG_CONFIG_PATH": "", "PKG_CONFIG_SYSROOT_DIR": root}
    result = ctx.execute([tool] + arguments + [module], environment = environment)
    if result.return_code != 0:
        fail_missing(ctx, "the pkg-config module '%s' (%s)" % (module, result.stderr.strip()), package)
    return result.stdout.strip()

def include_folder(ctx, header, package, first = []):
    """Returns the folder under which `header` exists, for dependencies without a .pc file."""
    root = sysroot(ctx)
    candidates = first + [root + prefix + "/include" for prefix in _PREFIXES]
    for folder in candidates:
        if ctx.path(folder + "/" + header).exists:
            return folder
    fail_missing(ctx, "the header <%s> (looked in %s)" % (header, ", ".join(candidates)), package)
    return None  # Not reached; Starlark has no way to tell its checker so.

def library_folder(ctx, file, package, first = []):
    """Returns the folder that holds the library `file`, for dependencies without a .pc file."""
    root = sysroot(ctx)
    candidates = first + [
        root + prefix + "/" + folder
        for prefix in _PREFIXES
        for folder in _LIBRARY_FOLDERS
    ]
    for folder in candidates:
        if ctx.path(folder + "/" + file).exists:
            return folder
    fail_missing(ctx, "the library %s (looked in %s)" % (file, ", ".join(candidates)), package)
    return None

def first_with(ctx, folders, file):
    """Returns the first of `folders` that holds `file`, or None."""
    for folder in folders:
        if ctx.path(folder + "/" + file).exists:
            return folder
    return None

def cached_folder(ctx, name, contents):
    """Returns the folder in which the script beside `contents` keeps what it makes (cache.sh), or None.

    Args:
      ctx: the repository rule's.
      name: what the script calls it.
      contents: label of the file that says what is made.
    """
    cache = ctx.os.environ.get("XDG_CACHE_HOME", "")
    home = ctx.os.environ.get("HOME", "")
    checksum = ctx.execute(["sha256sum", ctx.path(contents)])
    if checksum.return_code != 0 or not (cache or home):
        return None
    return "%s/zeroth/%s-%s" % (cache or home + "/.cache", name, checksum.stdout[:16])

def linker_searches(ctx, folder):
    """True if the linker looks in `folder` without being told."""
    return folder.startswith(sysroot(ctx) + "/usr/lib")

def link_flags(ctx, folder, library):
    """Returns linker flags for a shared `library`; paths only where the linker would not look."""
    flags = ["-l" + library]
    if linker_searches(ctx, folder):
        return flags
    return ["-L" + folder, "-Wl,-rpath," + folder] + flags

def write_build_file(ctx, template, substitutions = {}):
    """Writes the repository's BUILD from a template of this project."""
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.template("BUILD", template, substitutions, executable = False)
