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

def mlf_dependencies():
    """Defines every repository the rules need.

    Nothing is downloaded except the Python wheels named by requirements.lock, which pip fetches from
    the index it is configured for. Repositories the workspace defined before are left alone.
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
    })
    _maybe(_system_tools, "mlf_system")
    _maybe(_python_packages, "mlf_python", lock = Label("//:requirements.lock"))
    _maybe(_python_packages, "mlf_python_test", lock = Label("//:requirements-test.lock"), whole = True)
    _maybe(_python_packages, "mlf_python_remote", lock = Label("//:requirements-remote.lock"), whole = True)

# buildifier: disable=unnamed-macro
def mlf_register_toolchains():
    """Registers the compiler toolchain and the C toolchain of every target that has one."""
    native.register_toolchains(str(Label("//rules/toolchains:mlftool")).rpartition(":")[0] + ":all")
