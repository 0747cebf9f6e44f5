"""What mlftool knows and rules must know before it runs: options, executors, compilers.

Written by tools/options_bzl.py from mlftool/options.py, mlftool/codegen/executors and
mlftool/runtime/toolchain.py: edit those and run it.
"""

EXECUTOR_DOC = "How the module runs: `aot` is straight-line C, `graph` is TVM's graph executor over packed functions, `vm` is bytecode. All give the same bits."

# Executor -> how its C files end, by the interface; the first is its usual one.
EXECUTORS = {
    "aot": {
        "c": [
            "lib0",
            "lib1",
        ],
        "packed": [
            "lib0",
            "lib1",
            "lib2",
        ],
    },
    "graph": {
        "packed": [
            "lib0",
            "lib1",
            "graph",
        ],
    },
    "vm": {
        "c": [
            "lib0",
            "lib1",
        ],
    },
}

TOOLCHAINS = [
    "aarch64-linux-gnu",
    "arm-linux-gnueabihf",
    "arm-none-eabi",
    "powerpc-linux-gnu",
    "riscv64-unknown-elf",
]

C_TOOLCHAINS = [
    "usual",
    "picolibc",
    "clang",
]

# File -> as `needs` of an option.
FILES = {
    "tuning": [
        [
            "optimize",
            "speed",
            [],
        ],
        [
            "patches",
            "off",
            [],
        ],
        [
            "ram_budget",
            "none",
            [],
        ],
    ],
}

OPTION_ATTRS = {
    "backends": attr.string_list(
        doc = "Libraries or devices that compute layers instead of mlftool's kernels; the first that accepts a layer computes it: `cmsis-nn`, `ethos-u`, or one of `backend_files`.",
    ),
    "float_mode": attr.string(
        default = "exact",
        values = [
            "exact",
            "fused",
            "fast",
        ],
        doc = "`fused` adds each product of a convolution or dense layer with one rounding, which is faster on FPUs that have a fused multiply-add; the bits are the same everywhere, but not those of `exact`. `fast` does this in Helium's vectors, which flush subnormal numbers to zero; on other processors it equals `fused`.",
    ),
    "interface_api": attr.string(
        values = [
            "",
            "c",
            "packed",
        ],
        doc = "How aot's entry point is called: `c` is a struct of inputs and one of outputs, `packed` TVM's packed function.",
    ),
    "link_params": attr.int(
        default = -1,
        values = [
            -1,
            0,
            1,
        ],
        doc = "Whether weights of the graph executor are C arrays instead of a parameter file. 1 is yes, 0 is no; default: `false`.",
    ),
    "mlf_version": attr.int(
        default = 7,
        values = [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
        ],
        doc = "The version of Model Library Format to write.",
    ),
    "optimize": attr.string(
        default = "speed",
        values = [
            "speed",
            "size",
        ],
        doc = "`size` shares one C function among similar layers and unrolls no loops: less code, more instructions, the same bits. Compile its C with `-Os`.",
    ),
    "patches": attr.string(
        default = "off",
        doc = "Computes a chain of layers in `2` to `64` bands of rows, so that its large tensors never exist as a whole: less memory, some rows computed twice, the same bits. `auto` selects the number of bands with the least memory, if it saves a tenth.",
    ),
    "pools": attr.string_list(
        doc = "Memories to use instead of one workspace, fastest first, as `NAME=BYTES` or `NAME=BYTES@SECTION`: the most used tensors go to the first pool with room. With a section, the module has an array there; without one, the application passes the memory in `struct tvmgen_<module>_workspace_pools`. For aot with interface `c`.",
    ),
    "ram_budget": attr.string(
        default = "none",
        doc = "The limit for the module's RAM: working memory, inputs, outputs and states. If the usual plan takes more, the compiler searches for bands of layers, as in `patches`, that fit, and selects the plan with the fewest estimated instructions.",
    ),
    "state": attr.string_list(
        doc = "States as `INPUT=OUTPUT`: the input gets the value that the output had after the previous run, at first zeros. The module keeps the values; `tvmgen_<module>_reset` resets them. `all` means every state of a TensorFlow Lite model. For aot with interface `c`, and vm.",
    ),
    "stream": attr.string_list(
        doc = "Compiles the streaming form of a model: each run takes `step` elements (1) of the inputs' `axis`, a number or a name in the file, and gives the model's outputs for them. The module keeps intermediate values between runs, as with `state`. For aot with interface `c`, and vm.",
    ),
    "system_lib": attr.bool(
        doc = "Whether packed functions are found by name, through `TVMSystemLibEntryPoint`.",
    ),
    "unpacked_api": attr.int(
        default = -1,
        values = [
            -1,
            0,
            1,
        ],
        doc = "Whether calls inside an aot module are plain C calls. 1 is yes, 0 is no; default: `true` with interface `c`, else `false`.",
    ),
    "verify": attr.bool(
        doc = "Whether the archive contains a certificate of the proofs for the module, which `mlftool verify` checks again. Every compile runs the proof of memory and calls; only with `verify` it also covers index ranges.",
    ),
    "weights": attr.string(
        default = "auto",
        values = [
            "auto",
            "text",
            "binary",
        ],
        doc = "`text` writes constants as C arrays, `binary` as a file that the assembler reads (gcc and clang only); `auto` uses the file from 512 KiB on.",
    ),
    "weights_budget": attr.string(
        default = "none",
        doc = "The limit for the module's constants in flash. If they take more, the compiler stores some of them in fewer bytes, those first that cost the fewest instructions for each byte saved: float weights that the model has as integers and scales or as halves in that form, others in a prefix code (Huffman's). Their layers unpack them into working memory before they run: more RAM, the same bits.",
    ),
    "workspace_io": attr.bool(
        doc = "Whether inputs and outputs of an aot module are in the workspace and share its memory.",
    ),
}

# Attribute -> its default, the executors that understand it (none: all), what `mlftool compile`
# calls it, its kind, what it needs of others (their values, and its own that need it; none: all),
# the value that the default stands for, and the values it may have (none: see its checks).
OPTIONS = {
    "backends": struct(
        default = [],
        executors = [],
        flag = "--backend",
        kind = "string_list",
        needs = [],
        stands_for = [],
        values = [],
    ),
    "float_mode": struct(
        default = "exact",
        executors = [],
        flag = "--float-mode",
        kind = "string",
        needs = [],
        stands_for = "exact",
        values = [
            "exact",
            "fused",
            "fast",
        ],
    ),
    "interface_api": struct(
        default = "",
        executors = ["aot"],
        flag = "--interface-api",
        kind = "string",
        needs = [],
        stands_for = "c",
        values = [
            "",
            "c",
            "packed",
        ],
    ),
    "link_params": struct(
        default = -1,
        executors = ["graph"],
        flag = "--executor-graph-link-params",
        kind = "int",
        needs = [],
        stands_for = None,
        values = [
            -1,
            0,
            1,
        ],
    ),
    "mlf_version": struct(
        default = 7,
        executors = [],
        flag = "--mlf-version",
        kind = "int",
        needs = [],
        stands_for = 7,
        values = [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
        ],
    ),
    "optimize": struct(
        default = "speed",
        executors = [],
        flag = "--optimize",
        kind = "string",
        needs = [],
        stands_for = "speed",
        values = [
            "speed",
            "size",
        ],
    ),
    "patches": struct(
        default = "off",
        executors = [],
        flag = "--patches",
        kind = "string",
        needs = [],
        stands_for = "off",
        values = [],
    ),
    "pools": struct(
        default = [],
        executors = ["aot"],
        flag = "--pool",
        kind = "string_list",
        needs = [[
            "interface_api",
            "c",
            [],
        ]],
        stands_for = [],
        values = [],
    ),
    "ram_budget": struct(
        default = "none",
        executors = [],
        flag = "--ram-budget",
        kind = "string",
        needs = [],
        stands_for = "none",
        values = [],
    ),
    "state": struct(
        default = [],
        executors = [
            "aot",
            "vm",
        ],
        flag = "--state",
        kind = "string_list",
        needs = [
            [
                "interface_api",
                "c",
                [],
            ],
            [
                "workspace_io",
                False,
                [],
            ],
        ],
        stands_for = [],
        values = [],
    ),
    "stream": struct(
        default = [],
        executors = [
            "aot",
            "vm",
        ],
        flag = "--stream",
        kind = "string_list",
        needs = [
            [
                "interface_api",
                "c",
                [],
            ],
            [
                "workspace_io",
                False,
                [],
            ],
        ],
        stands_for = [],
        values = [],
    ),
    "system_lib": struct(
        default = False,
        executors = [
            "aot",
            "graph",
        ],
        flag = "--runtime-crt-system-lib=1",
        kind = "bool",
        needs = [[
            "interface_api",
            "packed",
            [],
        ]],
        stands_for = False,
        values = [],
    ),
    "unpacked_api": struct(
        default = -1,
        executors = ["aot"],
        flag = "--executor-aot-unpacked-api",
        kind = "int",
        needs = [[
            "interface_api",
            "packed",
            [0],
        ]],
        stands_for = None,
        values = [
            -1,
            0,
            1,
        ],
    ),
    "verify": struct(
        default = False,
        executors = [],
        flag = "--verify",
        kind = "bool",
        needs = [],
        stands_for = False,
        values = [],
    ),
    "weights": struct(
        default = "auto",
        executors = [],
        flag = "--weights",
        kind = "string",
        needs = [],
        stands_for = "auto",
        values = [
            "auto",
            "text",
            "binary",
        ],
    ),
    "weights_budget": struct(
        default = "none",
        executors = [],
        flag = "--weights-budget",
        kind = "string",
        needs = [],
        stands_for = "none",
        values = [],
    ),
    "workspace_io": struct(
        default = False,
        executors = ["aot"],
        flag = "--workspace-io",
        kind = "bool",
        needs = [[
            "interface_api",
            "c",
            [],
        ]],
        stands_for = False,
        values = [],
    ),
}
