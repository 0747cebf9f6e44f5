"""The compiler as a toolchain, and the one way actions and tests start it."""

load("@mlf_system//:tools.bzl", "PYTHON")
load(":checks.bzl", "public_label")
load(":labels.bzl", "shown")

def interpreter_of(tool, short = False):
    """What runs Python: the program of the toolchain, or this machine's by its path.

    Args:
      tool: the toolchain's `mlftool`.
      short: whether for a test's runfiles.

    Returns:
      A File or path for actions, a path for runfiles.
    """
    return (tool.python.short_path if short else tool.python) if tool.python else PYTHON

# As text with its repository: Bazel 4 resolves a bare "//..." here in the main repository.
TOOLCHAIN_TYPE = str(Label("//rules/toolchains:mlftool_type"))

def of_toolchain(type):
    """Which toolchain an action's program is of, for `ctx.actions.run`.

    With --incompatible_auto_exec_groups each action must say so. Bazel 4 does not know the argument; what Bazel
    has besides tells them apart, since a version is not to be had.

    Args:
      type: of the toolchain, or None.

    Returns:
      dict: what the call has besides.
    """
    return {"toolchain": type} if hasattr(native, "repo_name") else {}

# Fixed for every action: hash order, locale, and no thread pool in a one-CPU action.
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}

# -s and -S: nothing from the machine's site-packages. Not -I, which would ignore PYTHONHASHSEED.
FLAGS = ["-B", "-s", "-S"]

# Each request is a process of its own, so requests may overlap, be cancelled, and have their own folder.
_WORKER = {
    "supports-multiplex-sandboxing": "1",
    "supports-multiplex-workers": "1",
    "supports-worker-cancellation": "1",
    "supports-workers": "1",
}

BuildSettingInfo = provider(
    doc = "The value of a build setting.",
    fields = {"value": "string."},
)

def _worker_setting_impl(ctx):
    value = ctx.build_setting_value
    if value not in _WORKER_REQUIREMENTS:
        fail("%s: error[MLF0414]: got '%s', expected %s" % (shown(ctx.label), value, " or ".join(sorted(_WORKER_REQUIREMENTS))))
    return [BuildSettingInfo(value = value)]

worker_setting = rule(
    doc = """How the compiler's persistent worker is spoken to: `proto`, `json`, or `off` for none.""",
    implementation = _worker_setting_impl,
    build_setting = config.string(flag = True),
)

# "off" is not the same as a strategy without workers: it also keeps them from Bazels that use them
# unless told otherwise.
_WORKER_REQUIREMENTS = {
    "json": dict(_WORKER, **{"requires-worker-protocol": "json"}),
    "off": {},
    "proto": _WORKER,
}

# What a rule whose action may be done by the worker needs.
WORKER_ATTRS = {"_worker": attr.label(default = Label("//rules/settings:worker"))}

def _root(path, levels):
    parts = path.split("/")[:-levels]
    return "/".join(parts) or "."

def import_path(launcher, packages, bytecode = None, short = False):
    """The folders on the import path, joined for launch.py.

    Args:
      launcher: File of launch.py, which is at a known depth in our repository.
      packages: File inside a package folder of the wheels' repository.
      bytecode: File, the pack of our own modules, or None.
      short: whether the paths are for a test's runfiles.

    Returns:
      "ROOT=PACK:SITE=PACK"; the wheels' repository may have no pack.
    """
    site = _root(packages.short_path if short else packages.path, 2)
    ours = "=" + (bytecode.short_path if short else bytecode.path) if bytecode else ""
    return "%s%s:%s=%s.bytecode" % (_root(launcher.short_path if short else launcher.path, 4), ours, site, site)

def run_mlftool(
        ctx,
        part,
        module,
        arguments,
        inputs,
        outputs,
        mnemonic,
        progress_message,
        env = {},
        execution_requirements = {},
        packages = None,
        tools = []):
    """Declares an action that runs a Python module of ours.

    Args:
      ctx: the rule's context; the rule declares TOOLCHAIN_TYPE.
      part: which of the toolchain's files the module needs: "compiler", "runtime", "runner",
        "tuner" or "console".
      module: "mlftool" or a module under rules/private/tools, dotted.
      arguments: list of strings and Args objects.
      inputs: list of Files.
      outputs: list of Files.
      mnemonic: for --strategy and logs.
      progress_message: what the terminal shows, with the label, also when the action fails.
      env: variables that are not as for every action.
      execution_requirements: where it may run, in Bazel's words.
      packages: a File inside a package of another folder of wheels; default: the toolchain's.
      tools: list of depsets: files of programs that the module starts.
    """
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    start = ctx.actions.args()
    start.add_all(FLAGS)
    start.add(tool.launcher)
    start.add(import_path(tool.launcher, packages or tool.packages, tool.bytecode[part]))
    start.add(module)
    ctx.actions.run(
        executable = interpreter_of(tool),
        arguments = [start] + arguments,
        inputs = depset(inputs, transitive = [getattr(tool, part)] + tools),
        outputs = outputs,
        # What an action builds on the way stays in its sandbox: a cache would be an undeclared input.
        env = dict(dict(ENVIRONMENT, MLFTOOL_CACHE = ".mlftool_cache"), **env),
        execution_requirements = execution_requirements,
        mnemonic = mnemonic,
        progress_message = "%s (%s)" % (progress_message, public_label(ctx)),
        **of_toolchain(TOOLCHAIN_TYPE)
    )

def run_compiler(ctx, arguments, inputs, outputs, mnemonic, progress_message):
    """Declares an action of the compiler, by a persistent worker where Bazel is told to use one.

    Args:
      ctx: the rule's context; the rule declares TOOLCHAIN_TYPE and has WORKER_ATTRS.
      arguments: list of Args objects: "compile" or "package" and what follows.
      inputs: list of Files.
      outputs: list of Files.
      mnemonic: for --strategy and logs.
      progress_message: what the terminal shows, with the label, also when the action fails.
    """
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    protocol = ctx.attr._worker[BuildSettingInfo].value
    start = ctx.actions.args()
    start.add_all(FLAGS)
    start.add(tool.launcher)
    start.add(import_path(tool.launcher, tool.packages, tool.bytecode["compiler"]))
    start.add_all(["rules.private.tools.worker", protocol])
    for args in arguments:
        # Bazel reads the file and sends its lines to the worker; without a worker we read it.
        args.set_param_file_format("multiline")
        args.use_param_file("@%s", use_always = True)
    ctx.actions.run(
        executable = interpreter_of(tool),
        arguments = [start] + arguments,
        inputs = inputs + [tool.bytecode["compiler"]],
        # Not among the inputs: Bazel starts workers anew when their tools change, and only then.
        tools = tool.worker,
        outputs = outputs,
        env = ENVIRONMENT,
        execution_requirements = _WORKER_REQUIREMENTS[protocol],
        mnemonic = mnemonic,
        progress_message = "%s (%s)" % (progress_message, public_label(ctx)),
        **of_toolchain(TOOLCHAIN_TYPE)
    )

def launcher_script(tool, module, arguments, before = [], part = None):
    """The text of a POSIX shell script that runs a module of ours in a test's or program's runfiles.

    Args:
      tool: the toolchain's `mlftool`.
      module: dotted name.
      arguments: list of strings, quoted here.
      before: lines of shell to run first.
      part: which of the toolchain's files are in the runfiles; default: others.

    Returns:
      The script; it appends its own arguments.
    """
    exports = ["export %s=%s" % (name, value) for name, value in ENVIRONMENT.items() if name != "PATH"]
    bytecode = tool.bytecode[part] if part else None
    path = import_path(tool.launcher, tool.packages, bytecode, short = True)
    command = [interpreter_of(tool, short = True)] + FLAGS + [tool.launcher.short_path, path, module]
    return "\n".join(
        ["#!/bin/sh", "set -eu"] + exports + before +
        ["exec %s \"$@\"" % " ".join([_quote(a) for a in command + arguments])],
    ) + "\n"

def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"

def _pack(ctx, part):
    """The bytecode of our modules among the files of a part; wheels have theirs in their repository."""
    tool = struct(launcher = ctx.file.launcher, packages = ctx.file.packages, python = ctx.file.python)
    root = _root(tool.launcher.path, 4)
    site = _root(tool.packages.path, 2) + "/"
    sources = [
        file
        for file in getattr(ctx.files, part)
        if file.extension == "py" and file.is_source and not file.path.startswith(site) and
           (root == "." or file.path.startswith(root + "/"))
    ]
    pack = ctx.actions.declare_file("%s_%s.bytecode" % (ctx.label.name, part))
    lines = ctx.actions.args()
    lines.add(pack)
    lines.add(root)
    lines.add_all(sources)
    lines.set_param_file_format("multiline")
    lines.use_param_file("@%s", use_always = True)
    ctx.actions.run(
        executable = interpreter_of(tool),
        arguments = FLAGS + [ctx.file._bytecode.path, lines],
        inputs = depset(
            sources + [ctx.file._bytecode, ctx.file.interpreter] + ([tool.python] if tool.python else []),
            transitive = [target[DefaultInfo].files for target in ctx.attr.python_files],
        ),
        outputs = [pack],
        env = ENVIRONMENT,
        mnemonic = "MlfBytecode",
        progress_message = "Compiling mlftool's Python (%s)" % shown(ctx.label),
        **of_toolchain(None)
    )
    return pack

def _files(ctx, targets, bytecode = []):
    return depset(
        [ctx.file.launcher, ctx.file.interpreter] + bytecode + ([ctx.file.python] if ctx.file.python else []),
        transitive = [target[DefaultInfo].files for target in targets + ctx.attr.python_files],
    )

# Of which parts there is a pack; those that run have one, for they share nearly all modules.
_PACKS = {"compiler": "compiler", "console": "runtime", "runner": "runtime", "runtime": "runtime", "tuner": "tuner"}

def _mlftool_toolchain_impl(ctx):
    packs = {part: _pack(ctx, part) for part in {pack: None for pack in _PACKS.values()}}
    bytecode = {part: packs[pack] for part, pack in _PACKS.items()}
    parts = {part: _files(ctx, getattr(ctx.attr, part), [bytecode[part]]) for part in _PACKS}
    return [platform_common.ToolchainInfo(mlftool = struct(
        bytecode = bytecode,
        launcher = ctx.file.launcher,
        packages = ctx.file.packages,
        python = ctx.file.python,
        # As providers: Bazel 4 takes plain files for inputs, and an action without tools has no worker.
        worker = [
            target[DefaultInfo].files_to_run
            for target in [ctx.attr.launcher, ctx.attr.interpreter] + ctx.attr.compiler +
                          ([ctx.attr.python] if ctx.attr.python else []) + ctx.attr.python_files
        ],
        **parts
    ))]

_TOOLS = "//rules/private/tools:"

def _set(doc, *labels):
    return attr.label_list(allow_files = True, default = [Label(label) for label in labels], doc = doc)

def _one(doc, label = None):
    return attr.label(allow_single_file = True, default = Label(label) if label else None, doc = doc)

mlftool_toolchain = rule(
    doc = """Where actions find mlftool, its Python packages and the interpreter.

`mlf_register_toolchains()` registers one with the interpreter and wheels of `mlf_dependencies()`.
Register a toolchain of your own before it, for instance for some execution platforms:

```starlark
mlftool_toolchain(name = "mlftool_files", python = "@our_python//:bin/python3", python_files = ["@our_python//:files"])

toolchain(
    name = "mlftool",
    exec_compatible_with = ["@platforms//cpu:aarch64"],
    toolchain = ":mlftool_files",
    toolchain_type = "@mlftool//rules/toolchains:mlftool_type",
)
```

The five sets of files are mlftool's own by default. There are five, because every file is a link
in every sandbox, and a change of it runs actions again.""",
    implementation = _mlftool_toolchain_impl,
    attrs = {
        "_bytecode": _one("bytecode.py.", _TOOLS + "bytecode.py"),
        "compiler": _set(
            "Sources and wheels that compile.",
            "//crt:files",
            "//mlftool:compiler_files",
            _TOOLS + "package.py",
            _TOOLS + "unpack.py",
            _TOOLS + "worker.py",
            _TOOLS + "worker_protocol.py",
            "@mlf_python//:compiler_files",
        ),
        "console": _set(
            "Sources and wheels that print tables.",
            "//mlftool:runtime_files",
            _TOOLS + "files",
            "@mlf_python//:files",
        ),
        "interpreter": _one(
            "A file that changes with the interpreter; an input of every action.",
            "@mlf_system//:python.txt",
        ),
        "launcher": _one("launch.py.", _TOOLS + "launch.py"),
        "packages": _one(
            "A file directly inside a package of the wheels' folder.",
            "@mlf_python//:site/numpy/__init__.py",
        ),
        "python": _one("The interpreter as a file of a repository. Default: this machine's, by its path."),
        "python_files": _set("Its standard library and other files."),
        "runner": _set(
            "Those of `runtime` and the C runtime: some of TVM's modules must run to be described.",
            "//crt:files",
            "//mlftool:runtime_files",
            _TOOLS + "files",
            "@mlf_python//:numeric_files",
        ),
        "runtime": _set(
            "Sources and wheels that unpack and run.",
            "//mlftool:runtime_files",
            _TOOLS + "files",
            "@mlf_python//:numeric_files",
        ),
        "tuner": _set(
            "Sources and wheels that compile and run, to count kernels.",
            "//crt:files",
            "//mlftool:files",
            "@mlf_python//:compiler_files",
        ),
    },
)
