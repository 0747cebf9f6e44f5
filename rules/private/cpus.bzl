"""The simulated boards and their processors: one row each.

`flags` are the machine flags of mlftool.targets, repeated because Starlark cannot read Python; a test
compares the two. `board` is the folder under crt/boards and `machine` what QEMU calls it.
"""

CPUS = {
    "cortex-m3": struct(
        board = "mps2-an385",
        flags = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft"],
    ),
    "cortex-m4": struct(
        board = "mps2-an386",
        flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    ),
    "cortex-m55": struct(
        board = "mps3-an547",
        flags = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"],
    ),
    "cortex-m7": struct(
        board = "mps2-an500",
        flags = ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"],
    ),
}
