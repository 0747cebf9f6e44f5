"""Mistakes in BUILD files, each with what must be said of it. A test builds them all."""

from __future__ import annotations


def said(text: str) -> str:
    """What Bazel prints: `!` stands for the code of a rule's mistakes."""
    return text.replace("! ", ": error[MLF0414]: ", 1)


LOAD = """load(
    "@mlftool//rules:defs.bzl",
    "mlf_analysis", "mlf_arena_test", "mlf_baseline_test", "mlf_benchmark", "mlf_board",
    "mlf_budget_test", "mlf_cc_library", "mlf_compile", "mlf_device_test", "mlf_diff_test",
    "mlf_firmware", "mlf_firmware_test",
    "mlf_golden_test", "mlf_host_test", "mlf_import", "mlf_model", "mlf_module", "mlf_package",
    "mlf_project", "mlf_report", "mlf_reproducibility_test", "mlf_runner",
    "mlf_shared_library", "mlf_size_report", "mlf_summary", "mlf_tune", "mlf_vectors",
)
load("@rules_cc//cc:defs.bzl", "cc_library")
MODEL = "//:models/gesture_int8.onnx"
VECTORS = "//:models/gesture_int8.npz"
REPORT = "@models//gesture_int8:host_report"
HOST = "@models//gesture_int8:host_runner"
"""
# A target per line, and what is said of it.
REFUSED = {
    'mlf_compile(name = "a", model = MODEL, executor = "graph", interface_api = "c")':
        "//refused:a! interface_api: got c with executor 'graph', expected it with aot only; leave "
        'it out or set executor = "aot"',
    'mlf_compile(name = "b", model = MODEL, executor = "aot", link_params = 1)':
        "//refused:b! link_params: got 1 with executor 'aot', expected it with graph only",
    'mlf_compile(name = "c", model = MODEL, executor = "vm", system_lib = True)':
        "//refused:c! system_lib: got True with executor 'vm', expected it with aot or graph only",
    'mlf_compile(name = "d", model = MODEL, system_lib = True)':
        "//refused:d! system_lib: got True with interface_api 'c', expected 'packed'; "
        'set interface_api = "packed" or leave system_lib out',
    'mlf_compile(name = "e", model = MODEL, unpacked_api = 0)':
        "//refused:e! unpacked_api: got 0 with interface_api 'c', expected 'packed'; "
        'set interface_api = "packed" or leave unpacked_api out',
    'mlf_compile(name = "f", model = MODEL, interface_api = "packed", workspace_io = True)':
        "//refused:f! workspace_io: got True with interface_api 'packed', expected 'c'",
    'mlf_compile(name = "Big", model = MODEL)':
        "//refused:Big! module_name: got 'Big' from the target's name; set module_name, "
        "expected lower-case",
    'mlf_package(name = "g", modules = ["m7", "m6"])':
        "//refused:g! modules: one archive has one mlf_version; got m7 = 7, m6 = 6",
    'mlf_package(name = "h", modules = ["m7", "again"])':
        "//refused:h! modules: two modules are called 'm7'; set module_name of one of them",
    'mlf_runner(name = "i", archive = "graph_archive", library = "graph", module = "other")':
        "module: got 'other', which is not in //refused:graph_archive; expected one of: default",
    'mlf_compile(name = "o", model = MODEL, target = "cortex-m9")':
        "//refused:o! target: got 'cortex-m9', expected one of host, x86-64-v3, x86-64-v4, ",
    'mlf_firmware(name = "p", platform = "@mlftool//rules/platforms:host", deps = [":cmsis"])':
        "//refused:p! board: no built-in board has the processor of platform "
        "@mlftool//rules/platforms:host; give your own mlf_board",
    'mlf_budget_test(name = "q", report = ":report")':
        "//refused:q! a budget needs at least one of: flash_bytes, instructions, ram_bytes",
    'mlf_compile(name = "r", model = MODEL, input_shapes = {"acceleration": "1,x"})':
        "//refused:r! input_shapes: got '1,x' for input 'acceleration', expected extents, such as",
    'mlf_compile(name = "s", model = MODEL, max_workspace_bytes = -5)':
        "//refused:s! max_workspace_bytes: got -5, expected bytes or a count, 0 or more; leave it "
        "out for no limit",
    'mlf_compile(name = "t", model = MODEL, target = "")':
        "//refused:t! target: got '', expected a target such as host or cortex-m4; leave it out",
    'mlf_compile(name = "t1", model = MODEL, patches = "65")':
        "//refused:t1! patches: got '65', expected off, auto or 2 to 64",
    'mlf_compile(name = "t2", model = MODEL, pools = ["sram=64KB"])':
        "//refused:t2! pools: got 'sram=64KB', expected NAME=BYTES or NAME=BYTES@SECTION, such as",
    'mlf_compile(name = "t10", model = MODEL, patches = "2", tuning = "x.json")':
        "//refused:t10! tuning: got //refused:x.json with patches '2', expected 'off'; set "
        'patches = "off" or leave tuning out',
    'mlf_compile(name = "t11", model = MODEL, tuning = "text.onnx")':
        "//refused:t11! tuning: got //refused:text.onnx, expected one .json file",
    'mlf_compile(name = "t3", model = MODEL, pools = ["a=1KiB", "a=2KiB"])':
        "//refused:t3! pools: got 'a' twice; give each memory a name of its own",
    'mlf_project(name = "t4", archive = "m8", library = "../m8")':
        "//refused:t4! library: got '../m8', expected letters, digits and any of '_-.+'",
    'mlf_shared_library(name = "t12", archive = "m8", library = "l8", soname = "a,-b")':
        "//refused:t12! soname: got 'a,-b', expected letters, digits and any of '_-.+', a ",
    'mlf_package(name = "t5", modules = [":cmsis"])':
        "//refused:t5! modules: got //refused:cmsis, expected mlf_module targets",
    'mlf_host_test(name = "t6", runner = ":m8", vectors = VECTORS)':
        "//refused:t6! runner: got //refused:m8, expected an mlf_runner",
    'mlf_report(name = "t7", runner = HOST, vectors = MODEL)':
        "in vectors attribute of mlf_report rule //refused:t7: source file "
        "'//:models/gesture_int8.onnx' is misplaced here (expected .npz",
    'mlf_compile(name = "t8", model = MODEL, data = ["nowhere.bin"])':
        "(//refused:t8) failed: missing input file '//refused:nowhere.bin'",
    'mlf_import(name = "t9", archive = "x.json")':
        "//refused:t9! archive: got //refused:x.json, expected one .tar or .model-library-format "
        "or .model-lib file",
    'mlf_compile(name = "u", model = VECTORS)':
        "//refused:u! model: got //:models/gesture_int8.npz, expected one .onnx or .tflite file",
    'mlf_report(name = "v", absolute = "tiny", runner = HOST, vectors = VECTORS)':
        "//refused:v! absolute: got 'tiny', expected a number of 0 or more, such as 0.5 or 1e-5",
    'mlf_host_test(name = "w", relative = -1, runner = HOST, vectors = VECTORS)':
        "//refused:w! relative: got '-1', expected a number of 0 or more",
    'mlf_benchmark(name = "x", repetitions = 0, runner = HOST, vectors = VECTORS)':
        "//refused:x! repetitions: got 0, expected 1 or more",
    'mlf_golden_test(name = "y", golden = REPORT, src = REPORT)':
        "//refused:y! golden: @models//gesture_int8:host_report is made by the build; expected a "
        "file of the source tree",
    'mlf_size_report(name = "z", program = ":cmsis")':
        "//refused:z! program: //refused:cmsis makes no program; expected a cc_binary, cc_test or",
    'mlf_baseline_test(name = "ab", baseline = "x.json", reports = [REPORT], tolerance = "5 %")':
        "//refused:ab! tolerance: got '5 %', expected a number of 0 or more",
    'mlf_budget_test(name = "ac", report = REPORT, flash_bytes = -7)':
        "//refused:ac! flash_bytes: got -7, expected bytes or a count, 0 or more",
    'mlf_project(name = "ad", archive = ":cmsis")':
        "//refused:ad! archive: got //refused:cmsis, expected an mlf_compile, mlf_package or "
        "mlf_import (<name>_archive) target; mlf_import makes one of a .tar",
    'mlf_runner(name = "ae", archive = "m8", library = "l8", '
    'platform = "@mlftool//rules/platforms:host")':
        "//refused:ae_program! board: no built-in board has the processor of platform "
        "@mlftool//rules/platforms:host; give your own mlf_board",
    'mlf_firmware_test(name = "am", firmware = ":quiet")':
        "//refused:am! nothing simulates the board of refused/quiet.elf; give its mlf_board a "
        "simulator, or test on the host",
    'mlf_firmware_test(name = "half", firmware = "@models//gesture_int8:cortex-m4_firmware", '
    'vectors = VECTORS)':
        "//refused:half! archive, vectors: got one of them, expected both",
    'mlf_firmware_test(name = "words", firmware = "@models//gesture_int8:cortex-m4_firmware", '
    'archive = "@models//gesture_int8:cortex-m4_archive", arguments = ["x"], vectors = VECTORS)':
        "//refused:words! arguments: got some, expected none: a host drives the image",
    'mlf_compile(name = "value", model = MODEL, input_values = {"x": "1,two"})':
        "//refused:value! input_values: got '1,two' for input 'x', expected numbers, such as",
    'mlf_tune(name = "tune_host", model = MODEL, targets = ["cortex-m4", "host"])':
        "//refused:tune_host! targets: got 'host', expected targets with a simulated board",
    'mlf_compile(name = "tuned_size", model = MODEL, optimize = "size", tuning = "x.json")':
        "tuning: got //refused:x.json with optimize 'size', expected 'speed'; set ",
    'mlf_analysis(name = "look_a", archive = "m8", kind = "size", vectors = VECTORS)':
        "//refused:look_a! vectors: got models/gesture_int8.npz with kind 'size', expected it with "
        "bench, compare, profile, report only; leave it out",
    'mlf_analysis(name = "look_b", archive = "m8", kind = "compare")':
        "//refused:look_b! against: got none for target 'host', which has no simulated board",
    'mlf_analysis(name = "look_c", archive = "graph_archive", kind = "graph", against = MODEL)':
        "//refused:look_c! against: got models/gesture_int8.onnx with kind 'graph', expected it "
        "with compare, diff, size only",
    'mlf_analysis(name = "look_i", archive = "m8", kind = "diff")':
        "//refused:look_i! against: got none with kind 'diff', expected the older build: an "
        "archive, or figures",
    'mlf_analysis(name = "look_j", archive = "m8", kind = "diff", against = MODEL)':
        "//refused:look_j! against: got models/gesture_int8.onnx with kind 'diff', expected a file "
        "that ends in .json or .tar",
    'mlf_analysis(name = "look_k", archive = "graph_archive", kind = "check")':
        "//refused:look_k! archive: got //refused:graph_archive, which does not have the model, "
        "with kind 'check'; give an mlf_compile or mlf_package target",
    'mlf_analysis(name = "look_d", archive = ":cmsis", kind = "graph")':
        "//refused:look_d! archive: got //refused:cmsis, expected an mlf_compile, mlf_package or",
    'mlf_analysis(name = "look_e", archive = "m8", kind = "verify")':
        "m8.tar: error[MLF0510]: module m8 has no certificate",
    'mlf_diff_test(name = "look_g", baseline = "x.json", facts = [":m8"])':
        "//refused:look_g! facts: got //refused:m8, expected mlf_analysis targets of kind 'facts'",
    'mlf_diff_test(name = "look_h", baseline = REPORT, '
    'facts = ["@models//gesture_int8:host.facts"])':
        "//refused:look_h! baseline: @models//gesture_int8:host_report is made by the build",
    # Targets of another kind than an attribute wants.
    'mlf_cc_library(name = "kind_a", archive = "graph.tar")':
        "//refused:kind_a! archive: got //refused:graph.tar, expected an mlf_compile, "
        "mlf_package or",
    'mlf_cc_library(name = "kind_b", archive = MODEL)':
        "//refused:kind_b! archive: got //:models/gesture_int8.onnx, expected an mlf_compile, ",
    'mlf_runner(name = "kind_c", archive = ":nosuch", library = ":l8")':
        "//refused:kind_c! archive: got //refused:nosuch, expected an mlf_compile, mlf_package or",
    'mlf_arena_test(name = "kind_d", archive = ":cmsis", library = ":l8", vectors = VECTORS)':
        "//refused:kind_d! archive: got //refused:cmsis, expected an mlf_compile, mlf_package or",
    'mlf_reproducibility_test(name = "kind_e", archive = ":cmsis")':
        "//refused:kind_e! archive: got //refused:cmsis, expected an mlf_compile, mlf_package or",
    'mlf_report(name = "kind_f", runner = ":l8", vectors = VECTORS)':
        "//refused:kind_f! runner: got //refused:l8, expected an mlf_runner",
    'mlf_vectors(name = "kind_g", runner = ":l8", inputs = VECTORS)':
        "//refused:kind_g! runner: got //refused:l8, expected an mlf_runner",
    'mlf_budget_test(name = "kind_h", report = ":runner", flash_bytes = 5)':
        "//refused:kind_h! report: got //refused:runner, expected an mlf_report",
    'mlf_baseline_test(name = "kind_i", baseline = "x.json", reports = [":m8"])':
        "//refused:kind_i! reports: got //refused:m8, expected mlf_report targets",
    'mlf_baseline_test(name = "kind_j", baseline = "x.json", reports = [])':
        "//refused:kind_j! reports: got none, expected mlf_report targets",
    'mlf_baseline_test(name = "kind_k", baseline = REPORT, reports = [REPORT])':
        "//refused:kind_k! baseline: @models//gesture_int8:host_report is made by the build; "
        "expected a file of the source tree",
    'mlf_summary(name = "kind_l", reports = [":m8"])':
        "//refused:kind_l! reports: got //refused:m8, expected mlf_report targets",
    'mlf_firmware_test(name = "kind_m", firmware = ":cmsis")':
        "//refused:kind_m! firmware: got //refused:cmsis, expected an mlf_firmware",
    'mlf_package(name = "kind_n", modules = [])':
        "//refused:kind_n! modules: got none, expected mlf_module targets",
    'mlf_device_test(name = "kind_o", runner = HOST, vectors = VECTORS)':
        "//refused:kind_o! runner: got @models//gesture_int8:host_runner, which runs on the host; "
        "take mlf_host_test, or give the mlf_runner a platform",
    'mlf_host_test(name = "kind_p", runner = "@models//gesture_int8:cortex-m4_runner", '
    'vectors = VECTORS)':
        "//refused:kind_p! runner: got @models//gesture_int8:cortex-m4_runner, which runs on a "
        "board; take mlf_device_test",
    # A model for another processor than the image that links it.
    'mlf_firmware(name = "cpu_a", platform = "@mlftool//rules/platforms:cortex-m0", '
    'deps = ["@models//gesture_int8:cortex-m4"])':
        "@models//gesture_int8:cortex-m4! target: got 'cortex-m4', and an mlf_firmware of platform "
        "@mlftool//rules/platforms:cortex-m0 links it; give that a board or platform with this "
        "processor (in a manifest: a target whose base its board has), or compile the model for",
    'mlf_model(name = "cpu_b", model = MODEL, target = "cortex-m3", board = ":hardware")':
        "//refused:cpu_b! target: got 'cortex-m3', and an mlf_firmware of platform "
        "//refused:hardware_platform links it; give that a board or platform with this processor",
    # Without the library's own word for what it is for.
    'mlf_compile(name = "core", model = MODEL, target = "cortex-m7")\n'
    'mlf_cc_library(name = "core_lib", archive = "core")\n'
    'mlf_firmware(name = "cpu_c", srcs = ["start.c"], deps = ["core_lib"], platform = '
    '"@mlftool//rules/platforms:mps2_an386")':
        "//refused:cpu_c! deps: got //refused:core_lib, a model for cortex-m7, in an image for "
        "cortex-m4; compile the model with target = 'cortex-m4' (in a manifest: targets)",
    'mlf_firmware(name = "cpu_e", srcs = ["start.c"], deps = ["@models//gesture_int8:host"], '
    'platform = "@mlftool//rules/platforms:mps2_an386")':
        "//refused:cpu_e! deps: got @models//gesture_int8:host, a model for host, in an image for "
        "cortex-m4; compile the model with target = 'cortex-m4' (in a manifest: targets)",
    'mlf_compile(name = "avx2", model = MODEL, target = "x86-64-v3")\n'
    'mlf_cc_library(name = "avx2_lib", archive = "avx2")\n'
    'mlf_firmware(name = "cpu_d", srcs = ["start.c"], deps = ["avx2_lib"], platform = '
    '"@mlftool//rules/platforms:mps2_an386")':
        "//refused:cpu_d! deps: got //refused:avx2_lib, a model for x86-64-v3, in an image for "
        "cortex-m4; compile the model with target = 'cortex-m4' (in a manifest: targets)",
    # The linker would take both models' functions from the first.
    'mlf_firmware(name = "both", deps = [":left", ":right"], '
    'platform = "@mlftool//rules/platforms:cortex-m4")':
        "//refused:both! deps: got two modules 'same', of //refused:left and //refused:right; set "
        "module_name of one of them",
    # What stays Bazel's, see docs/rules.md.
    'mlf_firmware(name = "bazel_a", srcs = ["start.c"], board = ":x.json")':
        "Target //refused:x.json_platform was referenced as a platform, but does not provide",
    'mlf_compile(name = "bazel_b", model = "//nowhere:x.onnx")':
        "no such package 'nowhere': BUILD file not found",
    'mlf_cc_library(name = "bazel_c", archive = "@models//gesture_int8:other")':
        "no such target '@models//gesture_int8:other': target 'other' not declared in package",
    # By the compiler, the archives' makers and the runners.
    'mlf_compile(name = "af", model = MODEL, input_shapes = {"nope": "1,2"})':
        "models/gesture_int8.onnx: error[MLF0208]: shape given for 'nope', which is not an input "
        "of the model",
    'mlf_compile(name = "ag", model = "text.onnx")':
        "refused/text.onnx: error[MLF0202]: is not an ONNX model: its bytes do not parse",
    'mlf_compile(name = "al", model = MODEL, tuning = "x.json")':
        "refused/x.json: error[MLF0408]: is not a tuning record",
    'mlf_report(name = "ah", runner = HOST, vectors = "//:models/vibration_int8.npz")':
        "models/vibration_int8.npz: error[MLF0601]: no array for tensor 'acceleration'",
    'mlf_arena_test(name = "ai", archive = ":m8", library = ":l8", vectors = VECTORS)':
        "error[MLF0607]: m8: has no workspace of its own that could be made smaller",
    'mlf_runner(name = "library", archive = "@models//gesture_int8:host_archive", '
    'library = "@models//vibration_int8:host")':
        "#include \"tvmgen_gesture_int8.h\" /* of the linked library, which must be this "
        "archive's */",
    # The board's RAM is 4 MiB.
    'mlf_firmware(name = "large", srcs = ["large.c"], platform = '
    '"@mlftool//rules/platforms:mps2_an386")':
        "//refused:large: error[MLF0608]: does not fit: RAM is 4,194,304 bytes, 5,30",
    # By what the archives hold, found when they are unpacked.
    'mlf_reproducibility_test(name = "twice", archive = ":given")\n'
    'mlf_module(name = "part", model = MODEL)\nmlf_package(name = "given", modules = [":part"])':
        "//refused:twice! archive: got //refused:given, expected an mlf_compile; only models are",
    'mlf_import(name = "j", archive = "graph.tar", modules = ["keyword"])':
        "//refused:j: modules: got keyword; the archive holds default",
    'mlf_import(name = "k", archive = "graph.tar", executor = "aot")':
        "//refused:k: executor: got aot; module 'default' has graph",
    'mlf_import(name = "l", archive = "external.tar")':
        "external.tar: error[MLF0611]: codegen/host/src/default_lib2.c: includes "
        "'arm_nnfunctions.h', which neither the archive nor mlftool's C runtime has",
    'mlf_import(name = "n", archive = "text.tar")':
        "text.tar: error[MLF05",
}  # fmt: skip
HELPERS = """
mlf_module(name = "m7", model = MODEL)
mlf_module(name = "m6", model = MODEL, mlf_version = 6)
mlf_module(name = "again", model = MODEL, module_name = "m7")
mlf_compile(name = "m8", model = MODEL, interface_api = "packed")
mlf_cc_library(name = "l8", archive = "m8")
mlf_model(name = "left", model = MODEL, module_name = "same", target = "cortex-m4")
mlf_model(
    name = "right",
    model = "//:models/vibration_int8.onnx",
    module_name = "same",
    target = "cortex-m4",
)
mlf_import(name = "graph", archive = "graph.tar")
mlf_runner(name = "runner", archive = "graph_archive", library = "graph")
mlf_board(name = "hardware", srcs = ["start.c"], linker_script = "x.ld", target = "cortex-m4")
mlf_firmware(name = "quiet", srcs = ["start.c"], board = ":hardware", tags = ["manual"])
mlf_report(name = "report", runner = "runner", vectors = "//:models/gesture_int8.npz")
"""
# What macros are called with and cannot mean; each is a package of its own. LABEL
# stands for the target's.
CALLS = {
    'mlf_analysis(name = "profle", archive = ":c", kind = "profle")':
        "LABEL: invalid value in 'kind' attribute: has to be one of 'bench', 'check', 'compare', ",
    'mlf_compile(name = "out", model = "x.onnx", out = "out.json")':
        'LABEL! out: got "out.json", expected a name that ends in .tar',
    'mlf_compile(name = "a", model = "x.onnx", executor = "aott")':
        'LABEL! executor: got "aott", expected one of "aot", "graph", "vm"',
    'mlf_compile(name = "b", model = "x.onnx", taregt = "host")':
        "or an attribute of every rule; did you mean 'target'?",
    'mlf_model(name = "b", model = "x.onnx", target = "cortex-m44")':
        "such as 'llvm -mcpu=cortex-m4'; did you mean 'cortex-m4'?",
    'mlf_model(name = "b", model = "x.onnx", optimize = "sise")':
        '"speed", "size"; did you mean \'size\'?',
    'mlf_model(name = "b", model = "x.onnx", optimise = "size")':
        "or an argument of mlf_model; did you mean 'optimize'?",
    'mlf_compile(name = "a", model = "x.onnx", mlf_version = 9)':
        "LABEL! mlf_version: got 9, expected one of 1, 2, 3, 4, 5, 6, 7",
    'mlf_compile(name = "a", model = "x.onnx", executer = "aot")':
        "LABEL! executer: got \"aot\", expected one of backend_files, backends, data, executor, ",
    'mlf_compile(name = "a", model = "x.onnx", out = "out.json")':
        'LABEL! out: got "out.json", expected a name that ends in .tar',
    'mlf_compile(name = "a")':
        "LABEL! model: got None, expected a value: it is mandatory",
    'mlf_model(name = "a", model = "x.onnx", flash_bytes = 1)':
        "LABEL! flash_bytes, ram_bytes: a budget is checked against a run, so it needs vectors "
        "(in a manifest:",
    'mlf_firmware(name = "a", srcs = ["a.c"])':
        "LABEL! board, platform: got neither, expected your mlf_board or the platform",
    'mlf_firmware(name = "a", srcs = ["a.c"], flash_byte = 4096)':
        "LABEL! flash_byte: got 4096, expected an argument that there is; "
        "did you mean 'flash_bytes'?",
    'mlf_board(name = "a", linker_script = "a.ld", target = "m4")':
        "LABEL! target: got \"m4\", expected one of aarch64, armv7-a, cortex-m0, ",
    'mlf_firmware(name = "a", driven = True, platform = "@mlftool//rules/platforms:cortex-m4", '
    'srcs = ["x.c"])':
        "LABEL! deps: got none, expected the mlf_cc_library that a host drives",
    'mlf_board(name = "a", parts = ["cortex"], target = "cortex-m4")':
        "LABEL! parts: got \"cortex\", expected some of common, cortex_m, riscv",
    'mlf_model(name = "a", model = "x.onnx", target = "m4")':
        "LABEL! target: got 'm4', expected one of host, ",
    'mlf_model(name = "a", model = ["x.onnx"])':
        'LABEL! model: got ["x.onnx"], expected one label, such as ":keyword"',
    'mlf_model(name = "a", model = "x.onnx", executor = "aott")':
        'LABEL! executor: got "aott", expected one of "aot", "graph", "vm"',
    'mlf_model(name = "a", model = "x.onnx", executor = ["aot", "graph"])':
        'LABEL! executor: got ["aot", "graph"], expected one of "aot", "graph", "vm"',
    'mlf_model(name = "a", model = "x.onnx", optimise = "size")':
        'LABEL! optimise: got "size" for an option there is not, expected one of backends, '
        'executor, ',
    'mlf_model(name = "a", model = "x.onnx", optimize = "small")':
        'LABEL! optimize: got "small", expected one of "speed", "size"',
    'mlf_model(name = "a", model = "x.onnx", mlf_version = "7")':
        'LABEL! mlf_version: got "7", expected one of 1, 2, 3, 4, 5, 6, 7',
    'mlf_model(name = "a", model = "x.onnx", unpacked_api = True)':
        "LABEL! unpacked_api: got True, expected one of -1, 0, 1",
    'mlf_model(name = "a", model = "x.onnx", system_lib = "yes")':
        'LABEL! system_lib: got "yes", expected True or False',
    'mlf_model(name = "a", model = "x.onnx", pools = "sram=1KiB")':
        'LABEL! pools: got "sram=1KiB", expected a list of strings, such as ["x"]',
    'mlf_model(name = "a", model = "x.onnx", patches = 4)':
        'LABEL! patches: got 4, expected a string, such as "x"',
    'mlf_model(name = "a", model = "x.onnx", flash_bytes = "64KiB", vectors = "x.npz")':
        'LABEL! flash_bytes: got "64KiB", expected a whole number of bytes, such as 64 * 1024',
    'mlf_model(name = "a", model = "x.onnx", ram_bytes = -3, vectors = "x.npz")':
        "LABEL! ram_bytes: got -3, expected a whole number of bytes, such as 64 * 1024",
    'mlf_model(name = "a", model = "x.onnx", absolute = 0.001)':
        'LABEL! absolute: got 0.001, expected a number in quotes, such as "0.001"',
    'mlf_model(name = "a", model = "x.onnx", input_shapes = {"x": [1, 2]})':
        'LABEL! input_shapes: got {"x": [1, 2]}, expected a dict of strings, such as {"image": '
        '"1,3,32,32"}',
    'mlf_model(name = "a", model = "x.onnx", data = "x.bin")':
        'LABEL! data: got "x.bin", expected a list, such as ["x"]',
    'mlf_model(name = "Big-a", model = "x.onnx")':
        "LABEL! module_name: got 'Big_a' from the name; set module_name, expected lower-case "
        "letters, ",
    'mlf_model(name = "a", model = "x.onnx")\nmlf_model(name = "a", model = "y.onnx")':
        "LABEL! name: got \"a\", expected another name: there is a cc_library 'a' already",
    'mlf_model(name = "a", model = "x.onnx", board = ":c", target = "cortex-m4")':
        'LABEL! board: got ":c", expected an mlf_board; that is a cc_library, for which '
        'platform must be',
    'mlf_model(name = "a", model = "x.onnx", board = "cortex-m4")':
        'LABEL! board: got "cortex-m4", expected your own mlf_board; for ours say platform = '
        '"@mlftool//',
    'mlf_firmware(name = "a", srcs = ["a.c"], board = "c")':
        'LABEL! board: got "c", expected an mlf_board; that is a cc_library, for which platform '
        'must be',
    'mlf_firmware(name = "a", srcs = ["a.c"], platform = "cortex-m4")':
        'LABEL! platform: got "cortex-m4", expected a label: @mlftool//rules/platforms:cortex-m4',
    'mlf_firmware(name = "a", srcs = ["a.c"], platform = ":c")':
        'LABEL! platform: got ":c", expected a platform; that is a cc_library',
    'mlf_firmware(name = "a", srcs = ["a.c"], platform = "@mlftool//rules/platforms:cortex-m9")':
        'LABEL! platform: got "@mlftool//rules/platforms:cortex-m9", expected one that there '
        'is, such as ',
    'mlf_firmware(name = "a", platform = "@mlftool//rules/platforms:cortex-m4")':
        "LABEL! srcs, deps: got neither, expected C files or libraries, one of them with main",
    'mlf_firmware(name = "a", srcs = "a.c", platform = "@mlftool//rules/platforms:cortex-m4")':
        'LABEL! srcs: got "a.c", expected a list, such as ["x"]',
    'mlf_runner(name = "a", archive = ":m", library = ":l", platform = ":c")':
        'LABEL! platform: got ":c", expected a platform; that is a cc_library',
    'mlf_arena_test(name = "a", archive = ":m", library = ":l", vectors = ["x.npz"])':
        'LABEL! vectors: got ["x.npz"], expected one label, such as ":keyword"',
    'mlf_cc_library(name = "a", archive = ":m", copts = "-O3")':
        'LABEL! copts: got "-O3", expected a list of strings, such as ["x"]',
    'mlf_cc_library(name = "a", archive = ":m", target = "m4")':
        "LABEL! target: got 'm4', expected one of host, ",
    'mlf_import(name = "a", archive = "a.tar", executor = "tvm")':
        "LABEL! executor: got \"tvm\", expected one of aot, graph, vm; leave it out for the "
        "archive's own",
    'mlf_import(name = "a", archive = "a.tar", modules = "default")':
        'LABEL! modules: got "default", expected a list of strings, such as ["x"]',
    'mlf_board(name = "a", target = "cortex-m4", srcs = ["a.c"])':
        "LABEL! linker_script: got None, expected the board's: on cortex-m4 there is no system "
        "that places",
    'mlf_board(name = "a", target = "cortex-m4", simulator = "qemu -M x")':
        'LABEL! simulator: got "qemu -M x", expected a list of strings, such as ["x"]',
}  # fmt: skip
