# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The walls between the folders of this project, as values that the zeroth_cc_* macros check.

Visibility (//bazel/visibility) stops a target from using what is private to other layers. It cannot
stop one from reaching through a target that is public for importing projects; this table can,
because it judges every `deps` label by its folder.
"""

# From the bottom up: a folder may use itself and the folders before it.
LAYERS = [
    "core/base",
    "core/device",
    "core/tensor",
    "core/comm",
    "kernels",
    "strategies",
    "optim",
    "formats",
    "nn",
    "checkpoint",
    "data",
    "api",
    "options",
    "plan",
    "train",
    "tools",
    "benchmarks",
    "tests",
    "examples",
    "docs",
]

# `//core` collects what importing projects use of core; depending on it means depending on all of core.
_FACADES = {"core": "core/comm"}

_DEVICE_NAMES = [
    "core/device/cpu",
    "core/device/cuda",
    "core/device/planned",
    "kernels/cpu",
    "kernels/cuda",
    "kernels/planned",
]
_TRANSPORT_NAMES = ["core/comm/local", "core/comm/mpi", "core/comm/nccl", "core/comm/planned"]
_STRATEGY_NAMES = [
    "strategies/no_shard",
    "strategies/shard_grad_op",
    "strategies/shard_optimizer",
    "strategies/full_shard",
    "strategies/hybrid_shard",
    "strategies/all",
]

# Folders that a layer must not use although they lie below it, with the reason for the message. Tests may
# use them, since they check a layer with real devices, transports and strategies.
_BANS = {
    "kernels": [("kernels never mention ranks", ["core/comm"])],
    "strategies": [
        ("strategies never name a device", _DEVICE_NAMES),
        ("strategies never name a transport", _TRANSPORT_NAMES),
    ],
    "optim": [("the optimizer knows no strategy by name", _STRATEGY_NAMES)],
    "nn": [
        ("models know neither ranks nor transports", ["core/comm"]),
        ("models know no strategy by name", _STRATEGY_NAMES),
    ],
    "checkpoint": [("checkpoints know no model classes", ["nn"])],
    "data": [("data knows no models", ["api", "nn"])],
}

def _inside(package, folder):
    return package == folder or package.startswith(folder + "/")

def layer_of(package):
    """Returns the layer a package belongs to, or None for folders outside the table."""
    package = _FACADES.get(package, package)
    for layer in LAYERS:
        if _inside(package, layer):
            return layer
    return None

def _split(package, label):
    """Returns (package, target) that `label`, written in `package`, means; None if external."""
    if label.startswith("@zeroth//"):
        label = label[len("@zeroth"):]
    if label.startswith("@"):
        return None
    if not label.startswith("//"):
        return (package, label.lstrip(":"))
    path = label[2:]
    if ":" in path:
        parts = path.split(":")
        return (parts[0], parts[1])
    return (path, path.split("/")[-1])

def wall_violation(package, label, testonly = False):
    """Returns the reason why a target of `package` must not depend on `label`, or None if it may.

    Args:
      package: the depending package, as native.package_name() gives it.
      label: the label as written in `deps`.
      testonly: whether the depending target is a test or serves tests only.
    """
    user = layer_of(package)
    if not user:
        # bazel/ and third_party/ hold no C++ of the project.
        if _inside(package, "bazel") or _inside(package, "third_party"):
            return None
        return ("folder '%s' is in no layer; add it to LAYERS in bazel/layers.bzl" % package)
    split = _split(package, label)
    if not split:
        return None
    used_package, target = split
    used = layer_of(used_package)
    if not used:
        return None
    if LAYERS.index(used) > LAYERS.index(user):
        return "'%s' lies above '%s'; a folder may use only itself and those below it" % (used, user)
    if testonly:
        return None

    # Judged by package and by label: `//strategies:full_shard` is an alias into its own folder.
    named = [_FACADES.get(used_package, used_package), used_package + "/" + target]
    for reason, folders in _BANS.get(user, []):
        for folder in folders:
            for name in named:
                if _inside(name, folder) and not _inside(package, folder):
                    return "%s ('%s' is off limits to '%s')" % (reason, folder, user)
    return None

def check_walls(name, deps, testonly = False):
    """Fails the build where a dependency of target `name` crosses a wall."""
    if type(deps) != "list":
        return  # A select(); its branches are labels of other back ends, guarded by visibility.
    for label in deps:
        violation = wall_violation(native.package_name(), str(label), testonly)
        if violation:
            fail("//%s:%s must not depend on %s: %s." % (native.package_name(), name, label, violation))
