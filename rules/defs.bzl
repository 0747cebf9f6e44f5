"""The rules of mlftool: ONNX models to tested firmware.

A manifest makes all of these for you (see `mlf_manifest_repository`); by hand:

```starlark
load("@mlftool//rules:defs.bzl", "mlf_cc_library", "mlf_compile", "mlf_firmware")

mlf_compile(name = "keyword", model = "keyword.onnx", target = "cortex-m4")

mlf_cc_library(name = "keyword_lib", archive = ":keyword")

mlf_firmware(
    name = "sensor",
    srcs = ["main.c"],
    platform = "@mlftool//rules/platforms:cortex-m4",
    deps = [":keyword_lib"],
)
```
"""

load("//rules/private:analysis.bzl", _mlf_analysis = "mlf_analysis", _mlf_diff_test = "mlf_diff_test")
load("//rules/private:arena.bzl", _mlf_arena_test = "mlf_arena_test")
load("//rules/private:baseline.bzl", _mlf_baseline_test = "mlf_baseline_test")
load("//rules/private:benchmark.bzl", _mlf_benchmark = "mlf_benchmark")
load("//rules/private:board.bzl", _mlf_board = "mlf_board")
load("//rules/private:compile.bzl", _mlf_compile = "mlf_compile", _mlf_module = "mlf_module", _mlf_package = "mlf_package")
load("//rules/private:firmware.bzl", _mlf_firmware = "mlf_firmware")
load("//rules/private:golden.bzl", _mlf_golden_test = "mlf_golden_test", _mlf_vectors = "mlf_vectors")
load("//rules/private:import.bzl", _mlf_import = "mlf_import")
load("//rules/private:library.bzl", _mlf_cc_library = "mlf_cc_library")
load("//rules/private:manifest_test.bzl", _mlf_manifest_test = "mlf_manifest_test")
load("//rules/private:mlftool.bzl", _mlftool_toolchain = "mlftool_toolchain")
load("//rules/private:model.bzl", _mlf_model = "mlf_model")
load("//rules/private:project.bzl", _mlf_project = "mlf_project")
load(
    "//rules/private:providers.bzl",
    _MlfBoardInfo = "MlfBoardInfo",
    _MlfFirmwareInfo = "MlfFirmwareInfo",
    _MlfInfo = "MlfInfo",
    _MlfModuleInfo = "MlfModuleInfo",
    _MlfReportInfo = "MlfReportInfo",
    _MlfRunnerInfo = "MlfRunnerInfo",
    _MlfSizeInfo = "MlfSizeInfo",
)
load("//rules/private:quantize.bzl", _mlf_quantize = "mlf_quantize")
load("//rules/private:reproducibility.bzl", _mlf_reproducibility_test = "mlf_reproducibility_test")
load(
    "//rules/private:run.bzl",
    _mlf_budget_test = "mlf_budget_test",
    _mlf_device_test = "mlf_device_test",
    _mlf_firmware_test = "mlf_firmware_test",
    _mlf_host_test = "mlf_host_test",
    _mlf_report = "mlf_report",
    _mlf_summary = "mlf_summary",
)
load("//rules/private:runner.bzl", _mlf_runner = "mlf_runner")
load("//rules/private:shared_library.bzl", _mlf_shared_library = "mlf_shared_library")
load("//rules/private:size.bzl", _mlf_size_aspect = "mlf_size_aspect", _mlf_size_report = "mlf_size_report")
load("//rules/private:tune.bzl", _mlf_tune = "mlf_tune")

MlfBoardInfo = _MlfBoardInfo
MlfFirmwareInfo = _MlfFirmwareInfo
MlfInfo = _MlfInfo
MlfModuleInfo = _MlfModuleInfo
MlfReportInfo = _MlfReportInfo
MlfRunnerInfo = _MlfRunnerInfo
MlfSizeInfo = _MlfSizeInfo
mlf_analysis = _mlf_analysis
mlf_arena_test = _mlf_arena_test
mlf_baseline_test = _mlf_baseline_test
mlf_benchmark = _mlf_benchmark
mlf_board = _mlf_board
mlf_budget_test = _mlf_budget_test
mlf_cc_library = _mlf_cc_library
mlf_compile = _mlf_compile
mlf_device_test = _mlf_device_test
mlf_diff_test = _mlf_diff_test
mlf_firmware = _mlf_firmware
mlf_firmware_test = _mlf_firmware_test
mlf_golden_test = _mlf_golden_test
mlf_host_test = _mlf_host_test
mlf_import = _mlf_import
mlf_manifest_test = _mlf_manifest_test
mlf_model = _mlf_model
mlf_module = _mlf_module
mlf_package = _mlf_package
mlf_project = _mlf_project
mlf_report = _mlf_report
mlf_reproducibility_test = _mlf_reproducibility_test
mlf_runner = _mlf_runner
mlf_shared_library = _mlf_shared_library
mlf_size_aspect = _mlf_size_aspect
mlf_size_report = _mlf_size_report
mlf_summary = _mlf_summary
mlf_quantize = _mlf_quantize
mlf_tune = _mlf_tune
mlf_vectors = _mlf_vectors
mlftool_toolchain = _mlftool_toolchain
