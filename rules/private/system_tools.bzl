"""The repository @mlf_system: which programs of this machine the build uses, and their fingerprints."""

_PYTHON_HELP = "install python3 (3.11 or newer), or set MLF_PYTHON to one"

def _python(rctx):
    # The distribution's interpreter before the PATH's: version managers put shims there that need the
    # user's environment, which actions do not get.
    chosen = rctx.os.environ.get("MLF_PYTHON")
    if chosen:
        return chosen
    if rctx.path("/usr/bin/python3").exists:
        return "/usr/bin/python3"
    found = rctx.which("python3")
    if not found:
        fail("mlf_system: python3 was not found in PATH; " + _PYTHON_HELP)
    return str(found)

def _system_tools_impl(rctx):
    python = _python(rctx)
    probe = rctx.execute([python, "-B", "-s", "-S", str(rctx.path(rctx.attr._probe))])
    if probe.return_code:
        fail("mlf_system: '%s' could not describe this machine; %s\n%s" % (python, _PYTHON_HELP, probe.stderr))
    tools = json.decode(probe.stdout)
    constants = ["\"\"\"Programs of this machine, written by //rules/private:system_tools.bzl.\"\"\"", ""]
    for name in ["python", "arm_gcc", "qemu", "compilers"]:
        tool = tools[name]
        constants.append("%s = %s" % (name.upper(), repr(tool.get("path", ""))))

        # The path is not part of the fingerprint: the same compiler elsewhere makes the same code.
        rctx.file(name + ".txt", "%s %s\n" % (tool.get("fingerprint", "missing"), tool.get("version", "")))
    constants.append("ARM_GCC_INCLUDES = %s" % repr(tools["arm_gcc"].get("includes", [])))
    rctx.file("python_path.txt", tools["python"]["path"] + "\n")
    rctx.file("tools.bzl", "\n".join(constants) + "\n")
    rctx.file("BUILD.bazel", "exports_files([\"python.txt\", \"arm_gcc.txt\", \"qemu.txt\", \"compilers.txt\"])\n")

system_tools = repository_rule(
    doc = """Finds python3, arm-none-eabi-gcc and qemu-system-arm.

A program that is missing is no error here: whoever needs it fails with the line that installs it.
Looked at again at every start of the Bazel server, so installing one takes effect.""",
    implementation = _system_tools_impl,
    attrs = {
        "_probe": attr.label(default = Label("//rules/private/tools:probe.py"), allow_single_file = True),
    },
    configure = True,
    environ = ["MLF_PYTHON", "PATH"],
    local = True,
)
