"""One or several models -> one Model Library Format archive."""

load(
    ":calls.bzl",
    "check_attributes",
    "check_call",
    "check_common",
    "check_new",
    "check_options",
    "check_plain",
    "refuse",
)
load(
    ":checks.bzl",
    "SHARED",
    "check_extension",
    "check_module_name",
    "check_patches",
    "check_pools",
    "check_shapes",
    "check_values",
    "infos_of",
    "public_label",
    "public_name",
)
load(":cpus.bzl", "device_of")
load(":groups.bzl", "LIMIT_ATTRS", "archive_groups", "declare_parts", "declare_runner_source")
load(":inputs.bzl", "add_inputs")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "WORKER_ATTRS", "run_compiler", "run_mlftool")
load(":options.bzl", "EXECUTORS", "EXECUTOR_DOC", "FILES", "OPTIONS", "OPTION_ATTRS")
load(":providers.bzl", "MlfInfo", "MlfModuleInfo", "MlfPartsInfo", "MlfSpecsInfo")
load(":shared.bzl", "make_shared", fetch_compiled = "mlf_compile", fetch_package = "mlf_package")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

# Attributes that describe one module; mlf_compile has them, and so has each mlf_module of a package.
_MODULE_ATTRS = dict(OPTION_ATTRS, **{
    "backend_files": attr.label_list(
        allow_files = [".py"],
        doc = """Python files that define backends, which `backends` may name then: each has a
`mlftool.backends.Backend` as `BACKEND`. They are run when the model is compiled. Libraries that their code needs
are `deps` of `mlf_cc_library`, or `backend_deps` of `mlf_model`.""",
    ),
    "data": attr.label_list(
        allow_files = True,
        doc = """Files of ONNX external data. They must be at the paths in the model, relative to
the model.""",
    ),
    "executor": attr.string(
        default = "aot",
        values = list(EXECUTORS),
        doc = EXECUTOR_DOC,
    ),
    "input_shapes": attr.string_dict(
        doc = """Shapes of inputs with open extents in the model: input name -> `"1,3,32,32"`. For
an inner tensor whose shape is computed, its largest shape.""",
    ),
    "input_values": attr.string_dict(
        doc = """Inputs that are constants: input name -> a number, or one for each element: `"16000"`,
`"0.5,1"`. The application does not pass them.""",
    ),
    "model": attr.label(
        mandatory = True,
        allow_single_file = True,
        doc = "The ONNX or TensorFlow Lite file.",
    ),
    "module_name": attr.string(
        doc = """Name of the module, part of every C symbol. Default: the target's name. Modules of one
program need different names: the linker would take the functions of both from the first. `mlf_firmware`
refuses them; a manifest has no two of a name.""",
    ),
    "target": attr.string(
        default = "host",
        doc = """What to compile for, as `mlftool compile --target` spells it: `host`, `cortex-m4`, ... Of
TVM's strings, `llvm -mcpu=cortex-m4` gives objects by the device's usual compiler.""",
    ),
    "tuning": attr.label(
        allow_single_file = True,
        doc = """A record of `mlftool tune`, which chooses among kernels by instructions that were counted.
A target that it does not hold is compiled as without. `mlf_tune` shows how to keep it current.""",
    ),
    "_compilers": attr.label(default = "@mlf_system//:compilers.txt", allow_single_file = True),
})

def _check_needs(ctx, name, value, needs):
    """Fails unless other attributes have the values that one with this value needs."""
    for other, wanted, when in needs:
        about = OPTIONS[other]
        has = getattr(ctx.attr, other) or about.stands_for
        understood = not about.executors or ctx.attr.executor in about.executors
        if understood and has != wanted and (not when or value in when):
            fail("%s: error[MLF0414]: %s: got %s with %s '%s', expected '%s'; set %s = \"%s\" or leave %s out" %
                 (public_label(ctx), name, value, other, has, wanted, other, wanted, name))

def options_of(ctx):
    """What was asked of the executor, checked.

    Args:
      ctx: context of a rule with _MODULE_ATTRS.

    Returns:
      dict: attribute -> value, of those that were set.
    """
    attr, executor, label = ctx.attr, ctx.attr.executor, public_label(ctx)
    if not attr.target:
        fail("%s: error[MLF0414]: target: got '', expected a target such as host or cortex-m4; leave it out for host" % label)
    device_of(attr.target, "%s: error[MLF0414]: target" % label)
    check_extension(ctx, "model", ["onnx", "tflite"])
    check_extension(ctx, "tuning", ["json"])
    check_shapes(ctx)
    check_values(ctx)
    check_patches(ctx)
    check_pools(ctx)
    asked = {name: getattr(attr, name) for name, about in OPTIONS.items() if getattr(attr, name) != about.default}
    for name in asked:
        owners = OPTIONS[name].executors
        if owners and executor not in owners:
            fail("%s: error[MLF0414]: %s: got %s with executor '%s', expected it with %s only; leave it out or set executor = \"%s\"" %
                 (label, name, asked[name], executor, " or ".join(owners), owners[0]))
        _check_needs(ctx, name, asked[name], OPTIONS[name].needs)
    for name, needs in FILES.items():
        if getattr(attr, name):
            _check_needs(ctx, name, shown(getattr(attr, name).label), needs)
    return asked

def module_name_of(ctx):
    """The module's name, checked: it becomes part of C identifiers.

    Args:
      ctx: context of a rule with _MODULE_ATTRS.

    Returns:
      string.
    """
    name = ctx.attr.module_name or public_name(ctx)
    check_module_name(public_label(ctx), name, "attribute" if ctx.attr.module_name else "target's name; set module_name")
    return name

def _inputs(ctx):
    """The files of one module; those of kind `llvm` depend on C compilers, too."""
    compilers = [ctx.file._compilers] if ctx.attr.target.split(" ")[0] == "llvm" else []
    return [ctx.file.model] + ctx.files.data + ctx.files.tuning + ctx.files.backend_files + compilers

def source_names(module, executor, target, packed, backends):
    """The C files that a module becomes, so that Bazel knows them before they are made.

    Args:
      module: its name.
      executor: how it runs.
      target: what it is compiled for.
      packed: whether its entry point is a packed function.
      backends: how many backends it may use.

    Returns:
      list of strings.
    """
    forms = EXECUTORS[executor]
    ends = forms.get("packed" if packed else "c") or list(forms.values())[0]

    # Objects stand for the module's own code.
    if target.split(" ")[0] == "llvm":
        ends = [end for end in ends if not end.startswith("lib")]

    # Those of backends come after the module's own.
    first = len([end for end in ends if end.startswith("lib")])
    return ["%s_%s.c" % (module, end) for end in ends + ["lib%d" % (first + k) for k in range(backends)]]

def package_source_names(specs):
    """The C files of an archive of several modules.

    Args:
      specs: the `spec` of each module's MlfModuleInfo.

    Returns:
      list of strings: those of each module, and the one of a system library that modules share.
    """
    names = [
        name
        for spec in specs
        for name in source_names(
            spec.module_name,
            spec.executor,
            spec.target,
            spec.options.get("interface_api") == "packed",
            len(spec.options.get("backends", [])),
        )
    ]
    listed = [spec for spec in specs if spec.options.get("system_lib")]
    return names + (["tvmgen_system_lib.c"] if len(listed) > 1 else [])

def _outputs(ctx, sources):
    """The archive and, beside it, what is in it; and what the worker is told of them."""
    folder = public_name(ctx) + ".files"
    archive = ctx.actions.declare_file("%s/%s" % (folder, ctx.attr.out))
    parts = declare_parts(ctx, folder, sources)
    args = ctx.actions.args()
    args.add("unpacked")
    args.add(archive)
    args.add_all(parts.sources)
    args.add("--")
    files = [archive, parts.headers, parts.link_args, parts.objects] + parts.sources
    return struct(archive = archive, args = args, files = files, parts = parts)

def _providers(ctx, info, parts, made_from, **groups):
    return [
        DefaultInfo(files = depset([info.archive])),
        archive_groups(ctx, info, parts, **groups),
        info,
        made_from,
        MlfPartsInfo(parts = parts),
    ]

def _add_options(args, ctx, asked):
    """What was asked, in the words of `mlftool compile`."""
    for name, value in asked.items():
        about = OPTIONS[name]
        if about.kind == "string_list":
            args.add_all(value, before_each = about.flag)
        elif about.kind == "bool":
            args.add(about.flag)
        else:
            args.add(about.flag, value)
    if ctx.file.tuning:
        args.add("--tuning", ctx.file.tuning)
    args.add_all(ctx.files.backend_files, before_each = "--backend-file")

# As little as possible as in every action: what must not matter.
_OTHER_WORLD = {
    "LC_ALL": "C",
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "PYTHONHASHSEED": "4711",
    "TZ": "Pacific/Kiritimati",
}

def _add_arguments(args, ctx, module, asked, archive):
    args.add("compile")
    args.add(ctx.file.model)
    args.add("-o", archive)
    args.add("--module-name", module)
    args.add("--target", ctx.attr.target)
    args.add("--executor", ctx.attr.executor)
    _add_options(args, ctx, asked)
    add_inputs(args, ctx.attr)
    args.add_all(ctx.files.data, before_each = "--data")

    # A sandbox would hide other files; workers may have none.
    args.add("--only-declared")
    return args

def _spec(ctx, module, asked):
    """What mlftool.compile.ModuleSpec takes, as package.py reads it."""
    return struct(
        backend_files = [file.path for file in ctx.files.backend_files],
        data_files = [file.path for file in ctx.files.data],
        executor = ctx.attr.executor,
        input_shapes = ctx.attr.input_shapes,
        input_values = ctx.attr.input_values,
        mlf_version = ctx.attr.mlf_version,
        model = ctx.file.model.path,
        module_name = module,
        options = asked,
        target = ctx.attr.target,
        tuning = ctx.file.tuning.path if ctx.file.tuning else None,
    )

def _mlf_compile_impl(ctx):
    module, asked = module_name_of(ctx), options_of(ctx)
    packed = ctx.attr.interface_api == "packed"
    made = _outputs(ctx, source_names(module, ctx.attr.executor, ctx.attr.target, packed, len(ctx.attr.backends)))
    run_compiler(
        ctx,
        [_add_arguments(made.args, ctx, module, asked, made.archive)],
        inputs = _inputs(ctx),
        outputs = made.files,
        mnemonic = "MlfCompile",
        progress_message = "Compiling model %s for %s" % (module, ctx.attr.target),
    )
    again = ctx.actions.declare_file(public_name(ctx) + ".again.tar")
    run_mlftool(
        ctx,
        "compiler",
        "mlftool",
        [_add_arguments(ctx.actions.args(), ctx, module, asked, again)],
        inputs = _inputs(ctx),
        outputs = [again],
        mnemonic = "MlfCompileAgain",
        progress_message = "Compiling model %s for %s once more" % (module, ctx.attr.target),
        env = _OTHER_WORLD,
    )
    info = MlfInfo(
        archive = made.archive,
        executors = {module: ctx.attr.executor},
        modules = [module],
        target = ctx.attr.target,
    )
    runner = declare_runner_source(ctx, made.archive, module, public_name(ctx) + ".files")
    made_from = MlfSpecsInfo(files = _inputs(ctx), specs = [_spec(ctx, module, asked)])
    return _providers(ctx, info, made.parts, made_from, again = depset([again]), runner = depset([runner]))

_OUT = dict(dict(WORKER_ATTRS, **LIMIT_ATTRS), **{
    "out": attr.string(doc = "Name of the archive. Default: the target's name with `.tar`."),
    "_allowlist_function_transition": attr.label(default = ALLOWLIST),
})

def _make_archive(maker, fetcher, name, out, attributes, known):
    """The targets of an archive; `attributes` are those of `maker`, which knows `known`."""
    check_call(name, out = (out, "string"))
    check_new(name, [name, name + SHARED])
    check_attributes(name, attributes, known)
    check_common(name, attributes)
    check_plain(name, "it is a file's name; make a target for each", out = out)
    out = out or name + ".tar"
    if not out.endswith(".tar"):
        refuse(name, "out", out, "a name that ends in .tar")
    make_shared(maker, fetcher, name, dict(attributes, out = out.rpartition("/")[2]), out)

_COMPILE_ATTRS = dict(_MODULE_ATTRS, **_OUT)
_OPTIONS = dict(OPTIONS, executor = struct(kind = "string", values = list(EXECUTORS)))

_model_archive = rule(
    doc = """Compiles one model to a Model Library Format archive.

```starlark
mlf_compile(
    name = "keyword",
    model = "keyword.onnx",
    target = "cortex-m4",
)
```

The archive is built in one fixed configuration: host tests, every firmware image and a plain `bazel build` share one
action. It does not depend on `-c`, `--platforms`, `--copt` and other C options, on coverage or on mlftool's settings
for C, whether they are on the command line or in one of your transitions.

A `select()` is resolved in that configuration: it sees `--define`s and your own build settings,
but not the platform and mode.

`bazel build` writes the archive. With `--output_groups` it writes its parts instead:

| output group | what it is |
|---|---|
| `archive` | the `.tar` |
| `sources`, `headers`, `objects` | folders of files to compile and link: `<name>.files/src`, `include`, `lib` |
| `report` | `<name>.report.json`: modules, tensors, bytes of workspace and constants |
| `runner` | the C file that describes the module to the program of `mlf_runner` |
| `again` | the archive compiled once more, for `mlf_reproducibility_test` |

`mlf_package` and `mlf_import` have the same groups but the last two. The group `_validation`
checks the limits. Bazel 5 and newer build it with every target that depends on the archive; Bazel
4 does so with `--experimental_run_validations` in `.bazelrc`.""",
    implementation = _mlf_compile_impl,
    attrs = _COMPILE_ATTRS,
    cfg = model_transition,
    provides = [MlfInfo],
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_compile(name, out = None, **attributes):
    """`_model_archive` for all configurations; its attributes are documented there.

    Args:
      name: of the target.
      out: name of the archive. Default: the target's name with `.tar`.
      **attributes: those of `_model_archive`, and what Bazel gives every rule.
    """
    check_options(name, {n: v for n, v in attributes.items() if n in _OPTIONS}, _OPTIONS)
    _make_archive(_model_archive, fetch_compiled, name, out, attributes, _COMPILE_ATTRS)

def _mlf_module_impl(ctx):
    return [MlfModuleInfo(files = _inputs(ctx), spec = _spec(ctx, module_name_of(ctx), options_of(ctx)))]

mlf_module = rule(
    doc = "One model of an `mlf_package`; the attributes are those of `mlf_compile`.",
    implementation = _mlf_module_impl,
    attrs = _MODULE_ATTRS,
    provides = [MlfModuleInfo],
)

def _mlf_package_impl(ctx):
    label = public_label(ctx)
    modules = infos_of(ctx, "modules", MlfModuleInfo)
    specs = [module.spec for module in modules]
    names = [spec.module_name for spec in specs]
    for i, name in enumerate(names):
        if name in names[:i]:
            fail("%s: error[MLF0414]: modules: two modules are called '%s'; set module_name of one of them" % (label, name))
    for what in ["target", "mlf_version"]:
        if len({getattr(spec, what): None for spec in specs}) > 1:
            fail("%s: error[MLF0414]: modules: one archive has one %s; got %s; set it of each mlf_module" %
                 (label, what, ", ".join(["%s = %s" % (s.module_name, getattr(s, what)) for s in specs])))
    request = ctx.actions.declare_file(public_name(ctx) + "_modules.json")
    made = _outputs(ctx, package_source_names(specs))
    ctx.actions.write(request, json.encode(struct(modules = specs)))
    files = [file for module in modules for file in module.files]
    made.args.add("package")
    made.args.add_all([request, made.archive])
    run_compiler(
        ctx,
        [made.args],
        inputs = [request] + files,
        outputs = made.files,
        mnemonic = "MlfPackage",
        progress_message = "Compiling models %s for %s" % (", ".join(names), specs[0].target),
    )
    info = MlfInfo(
        archive = made.archive,
        executors = {spec.module_name: spec.executor for spec in specs},
        modules = names,
        target = specs[0].target,
    )
    return _providers(ctx, info, made.parts, MlfSpecsInfo(files = files, specs = specs))

_PACKAGE_ATTRS = dict(
    modules = attr.label_list(
        mandatory = True,
        allow_files = True,
        doc = "The `mlf_module` targets, in their order in the archive.",
    ),
    **_OUT
)

_models_archive = rule(
    doc = """Compiles several models to one archive.

```starlark
mlf_module(name = "keyword", model = "keyword.onnx", target = "cortex-m4")
mlf_module(name = "vibration", model = "vibration.onnx", target = "cortex-m4")
mlf_package(name = "both", modules = [":keyword", ":vibration"])
```

The modules may have different executors; those with a system library share one.""",
    implementation = _mlf_package_impl,
    attrs = _PACKAGE_ATTRS,
    cfg = model_transition,
    provides = [MlfInfo],
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_package(name, out = None, **attributes):
    """`_models_archive` for all configurations; its attributes are documented there.

    Args:
      name: of the target.
      out: name of the archive. Default: the target's name with `.tar`.
      **attributes: those of `_models_archive`, and what Bazel gives every rule.
    """
    _make_archive(_models_archive, fetch_package, name, out, attributes, _PACKAGE_ATTRS)
