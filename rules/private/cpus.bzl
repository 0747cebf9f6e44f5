"""The processors we cross-compile for: one row each.

`flags` are the machine flags of mlftool.targets, repeated because Starlark cannot read Python; a test
compares the two. `board` is the folder under crt/boards of the board that QEMU simulates, if any.
"""

CPUS = {
    "cortex-m0": struct(
        board = "microbit",
        flags = ["-mcpu=cortex-m0", "-mthumb", "-mfloat-abi=soft"],
    ),
    "cortex-m3": struct(
        board = "mps2_an385",
        flags = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft"],
    ),
    "cortex-m33": struct(
        board = "mps2_an505",
        flags = ["-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"],
    ),
    "cortex-m4": struct(
        board = "mps2_an386",
        flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    ),
    "cortex-m55": struct(
        board = "mps3_an547",
        flags = ["-mcpu=cortex-m55+nomve.fp", "-mthumb", "-mfloat-abi=hard"],
    ),
    "cortex-m7": struct(
        board = "mps2_an500",
        flags = ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"],
    ),
}

# Targets that are the machine Bazel runs on, with what gcc must be told more.
HOSTS = {
    "host": [],
    "x86-64-v3": ["-march=x86-64-v3"],
    "x86-64-v4": ["-march=x86-64-v4", "-mavx512vnni"],
}

# Targets we generate C for but have no toolchain of our own for; a user's toolchain can name them.
OTHERS = ["aarch64", "rv32imafc", "rv32imc", "rv64gc"]

def device_of(target, where = "target"):
    """The processor that a target means, which TVM's strings name by -mcpu or -march.

    Args:
      target: as `mlftool compile --target` takes it.
      where: for messages: the label or name, and the attribute.

    Returns:
      A key of CPUS or HOSTS, one of OTHERS, or "" for one that is told by its triple only.
    """
    words = target.split(" ")
    named = [w.rpartition("=")[2] for w in words if w.startswith("-mcpu=") or w.startswith("-march=")]
    if not named and words[0] in ["c", "llvm"]:
        named = [""] if [w for w in words if w.startswith("-mtriple=")] else ["host"]
    device = named[0] if named else target or "host"
    if device and not (device in CPUS or device in HOSTS or device in OTHERS):
        known = ", ".join(sorted(HOSTS) + sorted(CPUS) + OTHERS)
        fail("%s: got '%s', expected one of %s, or TVM's words for one, such as 'llvm -mcpu=cortex-m4'" %
             (where, target, known))
    return device
