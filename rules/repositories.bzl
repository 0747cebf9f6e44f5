"""What a WORKSPACE calls: mlf_dependencies() first, then mlf_register_toolchains()."""

load("//rules/private:gcc_repository.bzl", _mlf_gcc_repository = "mlf_gcc_repository")
load("//rules/private:manifest_repository.bzl", _mlf_manifest_repository = "mlf_manifest_repository")
load("//rules/private:python_packages.bzl", _python_packages = "python_packages")
load("//rules/private:shims.bzl", _shim_repository = "shim_repository")
load("//rules/private:system_tools.bzl", _system_tools = "system_tools")

def _maybe(rule, name, **kwargs):
    # First definition wins, so that a workspace may bring its own.
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

mlf_gcc_repository = _mlf_gcc_repository
mlf_manifest_repository = _mlf_manifest_repository

def mlf_dependencies(interpreter = None, interpreter_files = [], wheel_house = None):
    """Defines every repository the rules need.

    The only downloads are the Python wheels in requirements.lock, which pip fetches from the index
    it is configured for. Repositories that the workspace already defines stay as they are.
    `docs/hermetic.md` shows a build that uses nothing of the machine.

    Args:
      interpreter: label of a Python interpreter, 3.11 or newer, as a file of a repository. Default: this
        machine's.
      interpreter_files: labels of all its files.
      wheel_house: label of a file, such as a BUILD file, in the folder of the wheels of
        requirements.lock (and of requirements-quantize.lock, if a model is quantised). pip is not
        called then.
    """
    if not hasattr(config_common, "toolchain_type"):
        _shims()
    _maybe(
        _system_tools,
        "mlf_system",
        host_constraints = "@local_config_platform//:constraints.bzl",
        interpreter = interpreter,
        interpreter_files = interpreter_files,
    )
    _maybe(_python_packages, "mlf_python", lock = Label("//:requirements.lock"), wheel_house = wheel_house)

    # Fetched where a model is quantised only.
    _maybe(
        _python_packages,
        "mlf_python_quantize",
        lock = Label("//:requirements-quantize.lock"),
        wheel_house = wheel_house,
        whole = True,
    )

def _shims():
    """Stand-ins for what Bazel before 5.3 would download to resolve any toolchain or test.

    Newer ones get the real repositories, whether the workspace defines them before or after us.
    """
    _maybe(_shim_repository, "rules_cc", files = {
        Label("//rules/compat:empty.BUILD"): "cc/BUILD.bazel",
        Label("//rules/compat:rules_cc_defs.bzl"): "cc/defs.bzl",
        Label("//rules/compat:rules_cc_find_cc_toolchain.bzl"): "cc/find_cc_toolchain.bzl",
        Label("//rules/compat:rules_cc_globals.bzl"): "cc/globals.bzl",
    })
    _maybe(_shim_repository, "rules_java", files = {
        Label("//rules/compat:empty.BUILD"): "java/BUILD.bazel",
        Label("//rules/compat:rules_java_defs.bzl"): "java/defs.bzl",
    })
    _maybe(_shim_repository, "remote_coverage_tools", files = {
        Label("//rules/compat:coverage.BUILD"): "BUILD.bazel",
        Label("//rules/compat:coverage.py"): "coverage.py",
    })

# buildifier: disable=unnamed-macro
def mlf_register_toolchains():
    """Registers the compiler toolchain and the C toolchain of every target that has one."""
    native.register_toolchains(str(Label("//rules/toolchains:mlftool")).rpartition(":")[0] + ":all")
