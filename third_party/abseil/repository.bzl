# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's Abseil and gives it the labels of the upstream Bazel project.

Every pkg-config module becomes one cc_library in the repository's root package, with the edges of
its `Requires`; an alias puts it where upstream has it: module `absl_flat_hash_map` is
`@com_google_absl//absl/container:flat_hash_map`.
"""

load("//third_party:system.bzl", "SYSROOT_VARIABLES", "fail_missing", "linker_searches", "pkg_config")

_PACKAGE = "libabsl-dev"

# CMake, whose names the .pc files carry, has one flat name space; these folders prefix their names.
_PREFIXED = [
    ("algorithm_", "algorithm"),
    ("flags_", "flags"),
    ("log_internal_", "log/internal"),
    ("random_internal_", "random/internal"),
    ("random_", "random"),
]

# Modules whose upstream label follows neither from a prefix nor from a header of the same name.
_NAMED = {
    "base_internal": ("base", "base_internal"),
    "config": ("base", "config"),
    "core_headers": ("base", "core_headers"),
    "flags": ("flags", "flag"),
    "log_severity": ("base", "log_severity"),
    "prefetch": ("base", "prefetch"),
    "raw_logging_internal": ("base", "raw_logging_internal"),
}

def _field(text, name):
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return line[len(name) + 1:].strip()
    return ""

def _required_modules(module, text):
    """Returns the other Abseil modules that the .pc file of `module` requires, without version constraints."""

    # Some versions of absl_strings.pc require absl_strings.
    seen = [module]
    for field in ["Requires", "Requires.private"]:
        for entry in _field(text, field).split(","):
            words = entry.strip().split(" ")
            if words[0].startswith("absl_") and words[0] not in seen:
                seen.append(words[0])
    return seen[1:]

def _sorted(paths):
    """Sorts paths by name, since readdir() has no order and generated files must not depend on the machine."""
    by_name = {path.basename: path for path in paths}
    return [by_name[name] for name in sorted(by_name)]

def _header_folders(ctx, root):
    """Maps the stem of each header to the Abseil folder it lies in, public headers first."""
    areas = [folder for folder in _sorted(ctx.path(root).readdir()) if not folder.basename.endswith(".h")]
    internal = [(area, area.get_child("internal")) for area in areas]
    folders = {}
    for area, place in [(area, area) for area in areas] + internal:
        for file in place.readdir() if place.exists else []:
            if file.basename.endswith(".h"):
                folders.setdefault(file.basename[:-2], area.basename)
    return folders

def _upstream_label(ctx, root, module, header_folders):
    """Returns (folder under absl/, target name) of a module without its `absl_` prefix."""
    if module in _NAMED:
        return _NAMED[module]
    for prefix, folder in _PREFIXED:
        if module.startswith(prefix):
            return (folder, module[len(prefix):])
    if module in header_folders:
        return (header_folders[module], module)
    if ctx.path(root + "/" + module).exists:
        return (module, module)
    return ("", module)

def _library(ctx, module, text, library_dir, archives):
    """Returns the cc_library of one module; links the static archive where the system has one."""
    linkopts = []
    srcs = []
    for flag in _field(text, "Libs").split(" "):
        archive = "lib" + flag[2:] + ".a"
        if flag.startswith("-labsl_") and archive in archives:
            ctx.symlink(library_dir + "/" + archive, "lib/" + archive)
            srcs.append("lib/" + archive)
        elif flag.startswith("-L${libdir}") or not flag:
            # The compiler searches the system's folder anyway; others are named below.
            if flag and not linker_searches(ctx, library_dir):
                linkopts += ["-L" + library_dir, "-Wl,-rpath," + library_dir]
        else:
            linkopts.append(flag)
    return """
cc_library(
    name = "{name}",
    srcs = {srcs},
    linkopts = {linkopts},
    linkstatic = True,
    deps = {deps},
)
""".format(
        name = module,
        srcs = srcs,
        linkopts = linkopts,
        deps = [":headers"] + [":" + required for required in _required_modules(module, text)],
    )

_ROOT_HEADER = """# Written by Zeroth's third_party/abseil/repository.bzl.
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//:__subpackages__"])

cc_library(
    name = "headers",
    hdrs = glob(["include/absl/**/*.h", "include/absl/**/*.inc"]),
    includes = ["include"],
    linkstatic = True,
)
"""

def _abseil_repository_impl(ctx):
    pc_dir = pkg_config(ctx, "absl_base", ["--variable=pcfiledir"], _PACKAGE)
    include_dir = pkg_config(ctx, "absl_base", ["--variable=includedir"], _PACKAGE)
    library_dir = pkg_config(ctx, "absl_base", ["--variable=libdir"], _PACKAGE)
    root = include_dir + "/absl"
    if not ctx.path(root).exists:
        fail_missing(ctx, "Abseil's headers in " + root, _PACKAGE)
    ctx.symlink(root, "include/absl")

    archives = {
        file.basename: None
        for file in ctx.path(library_dir).readdir()
        if file.basename.startswith("libabsl_") and file.basename.endswith(".a")
    }
    header_folders = _header_folders(ctx, root)

    build = _ROOT_HEADER
    aliases = {}
    for file in _sorted(ctx.path(pc_dir).readdir()):
        if not file.basename.startswith("absl_") or not file.basename.endswith(".pc"):
            continue
        module = file.basename[:-len(".pc")]
        build += _library(ctx, module, ctx.read(file), library_dir, archives)
        folder, name = _upstream_label(ctx, root, module[len("absl_"):], header_folders)
        aliases.setdefault(folder, {}).setdefault(name, module)

    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", build, executable = False)
    for folder, entries in aliases.items():
        lines = ["package(default_visibility = [\"//visibility:public\"])"]
        for name, module in sorted(entries.items()):
            lines.append("alias(name = \"%s\", actual = \"//:%s\")" % (name, module))
        path = "absl/%s/BUILD" % folder if folder else "absl/BUILD"
        ctx.file(path, "\n".join(lines) + "\n", executable = False)

abseil_repository = repository_rule(
    implementation = _abseil_repository_impl,
    configure = True,
    environ = ["PKG_CONFIG_PATH"] + SYSROOT_VARIABLES,
    local = True,
)
