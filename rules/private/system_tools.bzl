"""The repository @mlf_system: which programs of this machine the build uses, with their fingerprints,
and the targets and boards that mlftool knows."""

# What the list of targets and boards is made by; a change of one makes the repository again.
READER_FILES = [
    "errors.py",
    "frozen.py",
    "runtime/boards.py",
    "runtime/toolchain.py",
    "targets/__init__.py",
]

_PYTHON_HELP = "install python3 (3.11 or newer), or set MLF_PYTHON to one"

# What makes gcc and clang find other programs, headers and libraries.
COMPILER_VARIABLES = [
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
]

def clean_environment(rctx, more = []):
    """The environment of a program of Python that is run while repositories are made.

    Bazel can add variables and take none away; Python takes an empty one for one that is not set.

    Args:
      rctx: the context of a repository rule.
      more: names of further variables that must not count.

    Returns:
      dict: what PYTHONHOME, PYTHONPATH and the like are in the user's shell, emptied.
    """
    given = [name for name in rctx.os.environ if name.startswith("PYTHON")]
    clean = {name: "" for name in given + [name for name in more if name in rctx.os.environ]}
    return dict(clean, LC_ALL = "C.UTF-8", PYTHONHASHSEED = "0")

def find_python(rctx):
    """The interpreter that runs everything.

    Args:
      rctx: the context of a repository rule with attributes PROBE that depends on MLF_PYTHON and PATH.

    Returns:
      Its path.
    """

    # The distribution's interpreter before the PATH's: version managers put shims there that need the
    # user's environment, which actions do not get.
    if rctx.attr.interpreter:
        return str(rctx.path(rctx.attr.interpreter))
    chosen = rctx.os.environ.get("MLF_PYTHON")
    if chosen:
        return chosen
    if rctx.path("/usr/bin/python3").exists:
        return "/usr/bin/python3"
    found = rctx.which("python3")
    if not found:
        fail("%s: python3 was not found in PATH; %s" % (rctx.name, _PYTHON_HELP))
    return str(found)

def probe(rctx, python, arguments = []):
    """Runs probe.py.

    Args:
      rctx: the context of a repository rule with attributes PROBE.
      python: the interpreter's path.
      arguments: as it takes them.

    Returns:
      What it found.
    """
    for label in rctx.attr._reader:
        rctx.path(label)
    script = rctx.path(rctx.attr._probe)
    root = script.dirname.dirname.dirname.dirname
    launcher = str(script.dirname) + "/launch.py"
    command = [python, "-B", "-s", "-S", launcher, str(root), "rules.private.tools.probe"]
    done = rctx.execute(command + arguments, environment = clean_environment(rctx, COMPILER_VARIABLES))
    if done.return_code:
        fail("%s: '%s' could not describe this machine; %s\n%s" % (rctx.name, python, _PYTHON_HELP, done.stderr))
    return json.decode(done.stdout)

# The attributes of a repository rule that calls probe().
PROBE = {
    "interpreter": attr.label(
        allow_single_file = True,
        doc = "An interpreter of Python as a file of a repository. Default: this machine's.",
    ),
    "_probe": attr.label(default = Label("//rules/private/tools:probe.py"), allow_single_file = True),
    "_reader": attr.label_list(default = [Label("//mlftool:" + name) for name in READER_FILES]),
}

def _constant(name, value):
    return "%s = %s\n" % (name, repr(value))

_HOST = """\"\"\"The machine Bazel runs on.\"\"\"

load("{}", _HOST_CONSTRAINTS = "HOST_CONSTRAINTS")

HOST_CONSTRAINTS = _HOST_CONSTRAINTS
"""

def _system_tools_impl(rctx):
    python = find_python(rctx)
    found = probe(rctx, python)
    rctx.file("tools.bzl", "\"\"\"Programs of this machine.\"\"\"\n\n" + _constant("PYTHON", found["python"]["path"]) +
                           "\n# What Bazel's own C toolchain calls.\n" + _constant("HOST_COMPILER", found["host_compiler"]))
    machines = "\"\"\"Targets, boards and their programs, as mlftool knows them.\"\"\"\n\n"
    for name in ["alternatives", "boards", "simulators", "targets", "toolchains"]:
        machines += _constant(name.upper(), found[name])
    rctx.file("machines.bzl", machines)
    rctx.file("python_path.txt", (python if rctx.attr.interpreter else found["python"]["path"]) + "\n")
    rctx.file("interpreter.bzl", "\"\"\"An interpreter that is no program of this machine.\"\"\"\n\n" +
                                 _constant("INTERPRETER", str(rctx.attr.interpreter) if rctx.attr.interpreter else None) +
                                 _constant("INTERPRETER_FILES", [str(label) for label in rctx.attr.interpreter_files]))

    # The path is not part of the fingerprint: the same compiler elsewhere makes the same code.
    tools = {name: found[name] for name in ["python", "compilers"]}
    tools.update(found["toolchains"])
    tools.update(found["alternatives"])
    for name, tool in tools.items():
        rctx.file(name + ".txt", "%s %s\n" % (tool["fingerprint"], tool.get("version", "")))
    prints = ["%s %s\n" % (name, tool["fingerprint"]) for name, tool in found["simulators"].items()]
    rctx.file("simulators.txt", "".join(prints))
    rctx.file("host.bzl", _HOST.format(rctx.attr.host_constraints))
    rctx.file("BUILD.bazel", "exports_files(glob([\"*.txt\", \"*.bzl\"]))\n")

system_tools = repository_rule(
    doc = """Finds python3, the cross compilers and the simulators.

A program that is missing is no error here: what needs it fails with the line that installs it.
Looked at again at every start of the Bazel server, so installing one takes effect.""",
    implementation = _system_tools_impl,
    attrs = dict(
        PROBE,
        host_constraints = attr.string(
            mandatory = True,
            doc = "The .bzl file that has HOST_CONSTRAINTS in this Bazel.",
        ),
        interpreter_files = attr.label_list(doc = "All files of `interpreter`."),
    ),
    configure = True,
    environ = ["CC", "MLF_PYTHON", "PATH"],
    local = True,
)
