# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Which GPUs device code is compiled for, as flags of nvcc."""

# A100, H100 and H200, B200. The `a` of sm_90a enables features of that chip only.
_DEFAULT = ["sm_80", "sm_90a", "sm_100"]

def _number(arch):
    """Returns the number in an architecture's name, or None if the name is not of that form."""
    if not arch.startswith("sm_"):
        return None
    digits = arch[len("sm_"):]
    if digits.endswith("a") or digits.endswith("f"):
        digits = digits[:-1]
    if not digits.isdigit():
        return None
    return int(digits)

def parse_archs(value, known):
    """Turns the value of the setting into a list of architectures.

    Args:
      value: names separated by commas, or "default".
      known: the numbers that the toolkit compiles for.

    Returns:
      (architectures, None), or (None, what is wrong).
    """
    if value == "default":
        archs = [arch for arch in _DEFAULT if _number(arch) in known]
        if not archs:
            return None, "this toolkit compiles for none of %s; name an architecture it knows" % ", ".join(_DEFAULT)
        return archs, None
    archs = []
    for part in value.split(","):
        arch = part.strip()
        if _number(arch) == None:
            return None, "'%s' is not an architecture; expected names as in sm_80,sm_90a" % arch
        if _number(arch) not in known:
            return None, "this toolkit does not compile for %s; it knows %s" % (
                arch,
                ", ".join(["sm_%d" % number for number in known]),
            )
        if arch not in archs:
            archs.append(arch)
    return archs, None

def nvcc_arch_flags(archs):
    """Returns nvcc's flags: machine code for each architecture, and PTX of the newest."""
    flags = []
    newest = None
    for arch in archs:
        flags.append("-gencode=arch=compute_%s,code=%s" % (arch[len("sm_"):], arch))
        if newest == None or _number(arch) > _number(newest):
            newest = arch

    # PTX of a chip-specific architecture runs on no later chip.
    base = "compute_%d" % _number(newest)
    flags.append("-gencode=arch=%s,code=%s" % (base, base))
    return flags
