"""The processors we cross-compile for: one row each.

`flags` are the machine flags of mlftool.targets, repeated because Starlark cannot read Python; a test
compares the two. `board` is the folder under crt/boards of the board that QEMU simulates, if any.
"""

CPUS = {
    "cortex-m0": struct(
        board = "",
        flags = ["-mcpu=cortex-m0", "-mthumb", "-mfloat-abi=soft"],
    ),
    "cortex-m3": struct(
        board = "mps2_an385",
        flags = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft"],
    ),
    "cortex-m33": struct(
        board = "",
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

def device_of(target):
    """The processor that a target means, which TVM's strings name by -mcpu.

    Args:
      target: as `mlftool compile --target` takes it.

    Returns:
      A key of CPUS or HOSTS, another target of mlftool's, or "host" where nothing is named.
    """
    for word in target.split(" "):
        if word.startswith("-mcpu="):
            return word[len("-mcpu="):]
    return "host" if target.split(" ")[0] in ["", "c", "llvm"] else target
