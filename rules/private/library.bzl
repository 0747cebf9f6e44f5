"""An archive -> a cc_library."""

load(":calls.bzl", "check_call", "check_common", "check_new", "check_plain", "label_of")
load(":cc.bzl", "CC_TOOLCHAIN_TYPE", "CcInfo", "cc_common", "cc_library", "find_cc_toolchain")
load(":checks.bzl", "MODULE_MARK", "info_of")
load(":common.bzl", "for_alias", "for_hidden")
load(":cpus.bzl", "HOSTS", "condition", "device_of")
load(":groups.bzl", "extract_parts")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "of_toolchain")
load(":providers.bzl", "MlfInfo", "MlfPartsInfo", "MlfSpecsInfo")
load(":settings.bzl", "COPTS_VARIABLE")

# Generated code is C99, and its results may not depend on which processor fuses multiply and add.
MODEL_COPTS = ["-std=c99", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections"]

# Why a macro takes no select() for a target.
ONE_TARGET = "it decides for which processors there is a library; make a target for each"

_IN_FIRMWARE = condition(Label("//rules/settings:is_in_firmware"))
_HEADERS = Label("//crt:headers")
_COPTS = Label("//rules/settings:copts")
_ARCHIVE_ACTION = "c++-link-static-library"

def _mark(ctx, modules, symbol):
    """A C file that every program links once for each library, so that none links two with one module.

    Of two libraries the linker would take all functions of a module from the first. Images of
    mlf_firmware need no such file: they are checked before anything is built.
    """
    file = ctx.actions.declare_file("%s/%s_mark.c" % (ctx.label.name, modules[0]))
    names = [symbol] + ["mlf_module_%s_in_two_libraries_set_module_name" % name for name in modules]
    lines = ["extern const char {0};\nconst char {0} = 0;\n".format(name) for name in names]
    ctx.actions.write(file, "".join(lines))
    return file

def _may_call_runtime(archive):
    """Whether some module of an archive may call the C runtime; that of one from elsewhere is unknown."""
    return MlfSpecsInfo not in archive or any([
        spec.executor != "aot" or spec.target.split(" ")[0] == "llvm" or
        spec.options.get("interface_api") == "packed" or
        bool(spec.options.get("backends")) or bool(spec.options.get("system_lib"))
        for spec in archive[MlfSpecsInfo].specs
    ])

def _mlf_sources_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_sources")
    if MlfPartsInfo in ctx.attr.archive:
        parts = ctx.attr.archive[MlfPartsInfo].parts
    else:
        # In the configuration of the target that compiles them, not in that of the models: Bazel puts objects
        # made of a folder beside the folder, so host and board would write the same files.
        label = shown(ctx.label).rpartition("_sources")[0]
        parts = extract_parts(ctx, info, ctx.label.name, label, ctx.attr.has_libraries)

    sources, flags = list(parts.sources), ["@" + parts.link_args.path]
    if ctx.attr.in_firmware:
        # Of one that has objects only, a cc_library wants a file, too.
        if not sources:
            sources.append(ctx.actions.declare_file("%s/objects.h" % ctx.label.name))
            ctx.actions.write(sources[0], "")
    else:
        symbol = "mlf_library_" + "".join([c if c.isalnum() else "_" for c in shown(ctx.label).elems()])
        sources.append(_mark(ctx, info.modules, symbol))
        flags.append("-Wl,-u," + symbol)

    if ctx.attr.in_firmware and not ctx.attr.fits:
        library = shown(ctx.label)[:-len("_sources")]
        fail(("%s: error[MLF0414]: target: got '%s', and an mlf_firmware of platform %s links it; give that a board or platform " +
              "with this processor (in a manifest: a target whose base its board has), or compile the model for its") %
             (library, ctx.attr.device, ctx.fragments.platform.platform))

    # What `check_modules` knows modules by.
    device = device_of(info.target, "%s: error[MLF0414]: target" % shown(ctx.label)) if info.target else ""
    marks = [
        ctx.actions.declare_file("%s/%s/%s.%s" % (ctx.label.name, device or "any", name, MODULE_MARK))
        for name in info.modules
    ]
    for mark in marks:
        ctx.actions.write(mark, "")
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset([parts.headers]),
            includes = depset([parts.headers.path]),
        ),
        # The runtime's reference to the system library is weak, so that programs link without one,
        # and weak references take nothing out of a library. This does, if the archive has it.
        linking_context = cc_common.create_linking_context(
            linker_inputs = depset([cc_common.create_linker_input(
                owner = ctx.label,
                additional_inputs = depset([parts.link_args] + marks),
                user_link_flags = depset(flags),
            )]),
        ),
    )

    # Bazel compiles what programs link even if no function of it is called.
    runtime = [ctx.attr._runtime[CcInfo]] if _may_call_runtime(ctx.attr.archive) else []
    return [
        DefaultInfo(files = depset(sources)),
        OutputGroupInfo(headers = depset([parts.headers]), objects = depset([parts.objects])),
        cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = runtime),
    ]

_mlf_sources = rule(
    doc = "The C files of an archive.",
    implementation = _mlf_sources_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "device": attr.string(),
        "fits": attr.bool(mandatory = True),
        "has_libraries": attr.bool(doc = "Whether the user gives libraries that sources may need."),
        "in_firmware": attr.bool(),
        "_runtime": attr.label(default = Label("//crt:runtime")),
    },
    fragments = ["platform"],
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_objects_impl(ctx):
    """The object files of an archive, which an `llvm` target has, as a library of this platform."""
    objects = ctx.attr.sources[OutputGroupInfo].objects
    toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    library = ctx.actions.declare_file("lib%s.a" % ctx.label.name)

    # By the toolchain's action, which every toolchain has; the path of its `ar` need not be known.
    variables = cc_common.create_link_variables(
        cc_toolchain = toolchain,
        feature_configuration = features,
        output_file = library.path,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        action_name = _ARCHIVE_ACTION,
        feature_configuration = features,
        variables = variables,
    )
    args = ctx.actions.args()
    args.add_all(flags if library.path in flags else ["rcsD", library.path])
    args.add_all(objects, expand_directories = True)
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(action_name = _ARCHIVE_ACTION, feature_configuration = features),
        arguments = [args],
        env = cc_common.get_environment_variables(
            action_name = _ARCHIVE_ACTION,
            feature_configuration = features,
            variables = variables,
        ),
        inputs = depset(transitive = [objects, toolchain.all_files]),
        outputs = [library],
        mnemonic = "MlfObjects",
        progress_message = "Collecting %s" % library.short_path,
        **of_toolchain(CC_TOOLCHAIN_TYPE)
    )
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset([cc_common.create_linker_input(
            owner = ctx.label,
            libraries = depset([cc_common.create_library_to_link(
                actions = ctx.actions,
                cc_toolchain = toolchain,
                feature_configuration = features,
                static_library = library,
            )]),
        )]),
    ))]

_mlf_objects = rule(
    implementation = _mlf_objects_impl,
    attrs = {
        "sources": attr.label(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = [CC_TOOLCHAIN_TYPE],
)

def _constraints(device):
    """What leaves a library out of builds for other processors.

    An mlf_firmware says itself what it is built for, so there another processor is a mistake, which
    `_mlf_sources` tells of: Bazel would say that the image "is incompatible" and nothing else.
    """
    if not device or device in HOSTS:
        return []
    return select({
        _IN_FIRMWARE: [],
        "//conditions:default": [Label("//rules/platforms:cpu_" + device)],
    })

def _fits(device):
    if not device or device in HOSTS:
        return True
    return select({
        condition(Label("//rules/platforms:is_" + device)): True,
        "//conditions:default": False,
    })

def mlf_cc_library(name, archive, target = "", copts = [], deps = [], **kwargs):
    """A `cc_library` with the modules of an archive.

    ```starlark
    mlf_cc_library(
        name = "keyword_lib",
        archive = ":keyword",
    )
    ```

    A program that depends on it includes `tvmgen_<module>.h` and calls `tvmgen_<module>_run`. Bazel
    compiles the library for each platform that needs it, from sources that are generated once.
    Modules that may call the C runtime (packed functions, executors other than aot, backends,
    archives from elsewhere) are linked with it; other modules are not, so a program whose own code
    calls it depends on `@mlftool//crt:runtime`. A module of the graph executor also has
    `tvmgen_<module>_graph.h` with its graph and parameters, `tvmgen_<module>_graph[]` and
    `tvmgen_<module>_params[]`, each with `_size`.

    Args:
      name: the library's name.
      archive: an `mlf_compile`, `mlf_package` or `mlf_import` target.
      target: the archive's target, if its C is for that processor only: builds for other
        processors then skip the library.
      copts: more options for the C compiler, after mlftool's own.
      deps: more libraries, such as those that sources of an external code generator need.
      **kwargs: more for `cc_library`: `visibility`, `testonly`, `target_compatible_with`, `linkopts`, ...
    """
    check_call(
        name,
        archive = (archive, "label"),
        copts = (copts, "string_list"),
        deps = (deps, "list"),
        target = (target, "string"),
    )
    check_common(name, kwargs)
    check_plain(name, ONE_TARGET, target = target)
    check_new(name, [name, name + "_sources", name + "_headers", name + "_objects"])
    device = device_of(target, "%s: error[MLF0414]: target" % label_of(name))
    library_of_archive(
        name = name,
        archive = archive,
        copts = copts,
        deps = deps,
        device = device,
        kwargs = kwargs,
        with_objects = True,
    )

def library_of_archive(name, archive, device, copts, deps, with_objects, kwargs):
    """The targets of `mlf_cc_library`.

    Args:
      name: the library's name.
      archive: label of what has an MlfInfo.
      device: the processor of the archive's target, or "".
      copts: list of more options for the C compiler.
      deps: list of more libraries.
      with_objects: whether the archive may have object files.
      kwargs: dict: more for `cc_library`.
    """
    kwargs = dict(kwargs)

    # With `layering_check` what is written may include headers of `hdrs` only; what is generated includes the runtime's.
    features = kwargs.pop("features", []) + ["-layering_check"]
    compatible = kwargs.pop("target_compatible_with", []) + _constraints(device)
    _mlf_sources(
        name = name + "_sources",
        archive = archive,
        device = device,
        fits = _fits(device),
        has_libraries = bool(deps),
        in_firmware = select({
            _IN_FIRMWARE: True,
            "//conditions:default": False,
        }),
        **for_hidden(kwargs)
    )
    native.filegroup(
        name = name + "_headers",
        srcs = [name + "_sources"],
        output_group = "headers",
        **for_alias(for_hidden(kwargs))
    )
    if with_objects:
        _mlf_objects(
            name = name + "_objects",
            sources = name + "_sources",
            target_compatible_with = compatible,
            **for_hidden(kwargs, c = True)
        )
        deps = [name + "_objects"] + deps
    cc_library(
        name = name,
        srcs = [name + "_sources"],
        hdrs = [name + "_headers"],
        copts = MODEL_COPTS + HOSTS.get(device, []) + ["$(%s)" % COPTS_VARIABLE] + copts,
        features = features,
        # A shared object of one model has no use, and cc_test would make one.
        linkstatic = True,
        target_compatible_with = compatible,
        toolchains = kwargs.pop("toolchains", []) + [_COPTS],
        deps = [name + "_sources", _HEADERS] + deps,
        **kwargs
    )
