"""An archive -> a cc_library."""

load(":calls.bzl", "check_call", "check_new", "label_of")
load(":cc.bzl", "CC_TOOLCHAIN_TYPE", "CcInfo", "cc_common", "cc_library", "find_cc_toolchain")
load(":checks.bzl", "MODULE_MARK", "info_of")
load(":cpus.bzl", "HOSTS", "condition", "device_of")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfInfo")
load(":settings.bzl", "COPTS_VARIABLE")

# Generated code is C99, and its results may not depend on which processor fuses multiply and add.
MODEL_COPTS = ["-std=c99", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections"]

def _mlf_extract_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_sources")

    # Folders, because what an archive holds depends on who made it: read when the action runs.
    sources, headers, objects = [
        ctx.actions.declare_directory("%s/%s" % (ctx.label.name, part))
        for part in ["src", "include", "lib"]
    ]
    link_args = ctx.actions.declare_file("%s/link.args" % ctx.label.name)
    args = ctx.actions.args()
    args.add(info.archive)
    args.add_all([sources, headers, objects, link_args], expand_directories = False)
    args.add_all(info.modules, before_each = "--module")
    args.add_all(["%s=%s" % pair for pair in info.executors.items()], before_each = "--executor")
    args.add("--label", str(ctx.label).rpartition("_sources")[0])
    if ctx.attr.has_libraries:
        args.add("--libraries")
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.unpack",
        [args],
        inputs = [info.archive],
        outputs = [sources, headers, objects, link_args],
        mnemonic = "MlfExtract",
        progress_message = "Unpacking %s" % info.archive.short_path,
    )

    # What `check_modules` knows modules by.
    marks = [ctx.actions.declare_file("%s/%s.%s" % (ctx.label.name, name, MODULE_MARK)) for name in info.modules]
    for mark in marks:
        ctx.actions.write(mark, "")
    return [
        DefaultInfo(files = depset([sources])),
        OutputGroupInfo(hdrs = depset([headers]), objects = depset([objects]), srcs = depset([sources])),
        CcInfo(
            compilation_context = cc_common.create_compilation_context(
                headers = depset([headers]),
                includes = depset([headers.path]),
            ),
            # The runtime's reference to the system library is weak, so that programs link without one,
            # and weak references take nothing out of a library. This does, if the archive has it.
            linking_context = cc_common.create_linking_context(
                linker_inputs = depset([cc_common.create_linker_input(
                    owner = ctx.label,
                    additional_inputs = depset([link_args] + marks),
                    user_link_flags = depset(["@" + link_args.path]),
                )]),
            ),
        ),
    ]

_mlf_extract = rule(
    # In the configuration of whoever compiles them, not in that of the models: Bazel puts objects made
    # of a folder beside the folder, so host and board would write the same files.
    doc = "The C files of an archive.",
    implementation = _mlf_extract_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "has_libraries": attr.bool(doc = "Whether the user gives libraries that sources may need."),
    },
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_objects_impl(ctx):
    """The object files of an archive, which an `llvm` target has, as a library of this platform."""
    if not ctx.attr.fits:
        library = str(ctx.label)[:-len("_objects")]
        fail(("%s: target: got '%s', and an mlf_firmware of platform %s links it; give that a board or platform " +
              "with this processor (in a manifest: a target whose base its board has), or compile the model for its") %
             (library, ctx.attr.device, ctx.fragments.platform.platform))
    objects = ctx.attr.sources[OutputGroupInfo].objects
    toolchain = find_cc_toolchain(ctx)
    library = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    args = ctx.actions.args()
    args.add("rcsD", library)
    args.add_all(objects, expand_directories = True)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [args],
        inputs = depset(transitive = [objects, toolchain.all_files]),
        outputs = [library],
        mnemonic = "MlfObjects",
        progress_message = "Collecting %s" % library.short_path,
    )
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
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
        "device": attr.string(),
        "fits": attr.bool(),
        "sources": attr.label(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp", "platform"],
    toolchains = [CC_TOOLCHAIN_TYPE],
)

def _constraints(device):
    """What leaves a library out of builds for other processors.

    An mlf_firmware says itself what it is built for, so there another processor is a mistake, which
    `_mlf_objects` tells of: Bazel would say that the image "is incompatible" and nothing else.
    """
    if not device or device in HOSTS:
        return []
    return select({
        condition(Label("//rules/settings:is_in_firmware")): [],
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

    A program that depends on it includes `tvmgen_<module>.h` and calls `tvmgen_<module>_run`. The
    library is compiled for whatever platform asks for it, from sources that are generated once.
    Modules that need the C runtime (packed functions, the graph executor) find it linked; of a module
    that needs none of it, nothing is linked. A module of the graph executor also brings
    `tvmgen_<module>_graph.h` with its graph and parameters, `tvmgen_<module>_graph[]` and
    `tvmgen_<module>_params[]`, each with `_size`.

    Args:
      name: the library's name.
      archive: an `mlf_compile`, `mlf_package` or `mlf_import` target.
      target: the archive's target, when its C is for that processor only: the library is then left
        out of builds for others.
      copts: more options for the C compiler, after ours.
      deps: more libraries, for instance those that sources of an external code generator need.
      **kwargs: more for `cc_library`, for instance `visibility` or `target_compatible_with`.
    """
    check_call(
        name,
        archive = (archive, "label"),
        copts = (copts, "string_list"),
        deps = (deps, "list"),
        target = (target, "string"),
    )
    check_new(name, [name, name + "_sources", name + "_objects"])
    device = device_of(target, "%s: target" % label_of(name))
    compatible = kwargs.pop("target_compatible_with", []) + _constraints(device)
    shared = dict(tags = ["manual"], visibility = ["//visibility:private"])
    _mlf_extract(
        name = name + "_sources",
        archive = archive,
        has_libraries = bool(deps),
        **shared
    )
    _mlf_objects(
        name = name + "_objects",
        device = device,
        fits = _fits(device),
        sources = name + "_sources",
        target_compatible_with = compatible,
        **shared
    )
    cc_library(
        name = name,
        srcs = [name + "_sources"],
        copts = MODEL_COPTS + HOSTS.get(device, []) + ["$(%s)" % COPTS_VARIABLE] + copts,
        # A shared object of one model helps nobody, and cc_test would make one.
        linkstatic = True,
        target_compatible_with = compatible,
        toolchains = kwargs.pop("toolchains", []) + [Label("//rules/settings:copts")],
        deps = [name + "_sources", name + "_objects", Label("//crt:runtime")] + deps,
        **kwargs
    )
