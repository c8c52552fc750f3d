# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds a library of the system through pkg-config, or by one of its headers if it has no pkg-config module."""

load("//third_party:system.bzl", "SYSROOT_VARIABLES", "include_folder", "library_folder", "link_flags", "pkg_config", "write_build_file")

def _library_repository_impl(ctx):
    attr = ctx.attr
    home = ctx.os.environ.get(attr.home, "") if attr.home else ""
    library_dir = None
    defines = []
    if attr.module:
        include_dir = pkg_config(ctx, attr.module, ["--variable=includedir"], attr.package)
        library_dir = pkg_config(ctx, attr.module, ["--variable=libdir"], attr.package)
        if attr.takes_defines:  # Other modules' flags may need packages that are not installed.
            flags = pkg_config(ctx, attr.module, ["--cflags-only-other"], attr.package).split(" ")
            defines = [flag[len("-D"):] for flag in flags if flag.startswith("-D")]
    else:
        include_dir = include_folder(ctx, attr.header, attr.package, [home + "/include"] if home else [])
        if attr.library:
            folders = [home + "/lib", home + "/lib64"] if home else []
            library_dir = library_folder(ctx, "lib%s.so" % attr.library, attr.package, folders)
    linkopts = link_flags(ctx, library_dir, attr.library) if attr.library else []
    for name in attr.links:
        ctx.symlink(include_dir + "/" + name, "include/" + name)

        # SentencePiece 0.2.2 returns Abseil's status: that of the system, with which it was built. Programs that link the
        # same Abseil statically do not need it.
        if name.endswith(".h") and "#include <absl/status/status.h>" in ctx.read(include_dir + "/" + name):
            linkopts += ["-Wl,--push-state,--as-needed"] + link_flags(ctx, library_dir, "absl_status") + ["-Wl,--pop-state"]
    for name, header in attr.forwards.items():
        text = "#include \"%s\"  // Written by Zeroth's third_party/%s.\n" % (header, attr.target)
        ctx.file("include/" + name, text, executable = False)
    write_build_file(ctx, attr._build_file, {
        "%{defines}": repr(defines),
        "%{headers}": repr(["include/" + pattern for pattern in attr.headers]),
        "%{linkopts}": repr(linkopts),
        "%{name}": attr.target,
    })

library_repository = repository_rule(
    implementation = _library_repository_impl,
    attrs = {
        "forwards": attr.string_dict(doc = "headers to write, and the header that each includes"),
        "header": attr.string(doc = "without a module: the header that is looked for"),
        "headers": attr.string_list(mandatory = True, doc = "patterns of the headers, under the include folder"),
        "home": attr.string(doc = "an environment variable that names the folder to look in first"),
        "library": attr.string(doc = "the linker's name for the library; empty: headers only"),
        "links": attr.string_list(mandatory = True, doc = "files and folders to link, under the include folder"),
        "module": attr.string(doc = "the pkg-config module"),
        "package": attr.string(mandatory = True, doc = "the Debian package"),
        "takes_defines": attr.bool(doc = "whether users are compiled with the module's -D flags"),
        "target": attr.string(mandatory = True, doc = "the name of the cc_library"),
        "_build_file": attr.label(default = "//third_party/library:library.BUILD"),
    },
    configure = True,
    environ = ["DNNLROOT", "PKG_CONFIG_PATH"] + SYSROOT_VARIABLES,
    local = True,
)

def _one_header(module, library, header, package):
    return {"headers": [header], "library": library, "links": [header], "module": module, "package": package}

# The libraries by the names of their repositories. Each has a folder here that says what it is for.
_LIBRARIES = {
    "com_google_highway": {
        "headers": ["hwy/**/*.h"],
        "library": "hwy",
        "links": ["hwy"],
        "module": "libhwy",
        "package": "libhwy-dev",
        "takes_defines": True,
        "target": "hwy",
    },
    "nlohmann_json": {
        "header": "nlohmann/json.hpp",
        "headers": ["nlohmann/**/*.hpp"],
        "links": ["nlohmann"],
        "package": "nlohmann-json3-dev",
        "target": "json",
    },
    "onednn": {
        "header": "oneapi/dnnl/dnnl.hpp",
        "headers": ["oneapi/dnnl/*.h", "oneapi/dnnl/*.hpp"],
        "home": "DNNLROOT",
        "library": "dnnl",
        "links": ["oneapi/dnnl"],
        "package": "libdnnl-dev",
    },
    "pcre2": _one_header("libpcre2-8", "pcre2-8", "pcre2.h", "libpcre2-dev"),
    "sentencepiece": _one_header("sentencepiece", "sentencepiece", "sentencepiece_processor.h", "libsentencepiece-dev"),
    # The registry's module has upstream's single file, toml.hpp.
    "tomlplusplus": {
        "forwards": {"toml.hpp": "toml++/toml.h"},
        "header": "toml++/toml.h",
        "headers": ["toml.hpp", "toml++/**/*.h", "toml++/**/*.hpp", "toml++/**/*.inl"],
        "links": ["toml++"],
        "package": "libtomlplusplus-dev",
    },
    "utf8proc": _one_header("libutf8proc", "utf8proc", "utf8proc.h", "libutf8proc-dev"),
    "xxhash": _one_header("libxxhash", "xxhash", "xxhash.h", "libxxhash-dev"),
}

def library_repositories(declare, names = _LIBRARIES.keys()):
    """Declares the repositories `names` by `declare(rule, name, **attributes)`."""
    for name in names:
        attributes = dict(_LIBRARIES[name])
        attributes.setdefault("target", name)
        declare(library_repository, name, **attributes)
