"""A module of an archive -> a shared library for computers with an operating system."""

load(":calls.bzl", "check_call", "check_common", "check_new", "check_plain", "is_select")
load(":cc.bzl", "CcInfo", "cc_binary", "cc_common")
load(":checks.bzl", "check_file_name", "info_of", "public_label")
load(":common.bzl", "for_alias", "for_hidden", "for_public")
load(":library.bzl", "MODEL_COPTS")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfInfo")
load(":runner.bzl", "module_of")

# The last is linked for modules that call the C runtime only.
_RUNTIME = [
    Label("//crt:headers"),
    Label("//crt:runner_guard"),
    Label("//rules/settings:platform_hooks"),
]

def _library_source_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_source")
    module = module_of(ctx, info)
    check_file_name(ctx, "soname", ctx.attr.soname, "_source")
    folder = ctx.label.name
    source = ctx.actions.declare_file(folder + "/library.c")
    script = ctx.actions.declare_file(folder + "/library.map")
    include = ctx.actions.declare_directory(folder + "/include")
    args = ctx.actions.args()
    args.add("library")
    args.add(info.archive)
    args.add("--module", module)
    args.add("--sources", source.dirname)
    run_mlftool(
        ctx,
        "runner",
        "mlftool",
        [args],
        inputs = [info.archive],
        outputs = [source, script, include],
        mnemonic = "MlfLibrary",
        progress_message = "Writing the names of %s" % public_label(ctx),
    )
    flags = [
        "-Wl,-Bsymbolic",
        "-Wl,--version-script=" + script.path,
        "-Wl,-soname," + ctx.attr.soname,
    ]
    return [
        DefaultInfo(files = depset([source])),
        CcInfo(
            compilation_context = cc_common.create_compilation_context(
                headers = depset([include]),
                includes = depset([include.path]),
            ),
            linking_context = cc_common.create_linking_context(
                linker_inputs = depset([cc_common.create_linker_input(
                    owner = ctx.label,
                    additional_inputs = depset([script]),
                    user_link_flags = depset(flags),
                )]),
            ),
        ),
    ]

_library_source = rule(
    implementation = _library_source_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "module": attr.string(),
        "soname": attr.string(mandatory = True),
    },
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_shared_library(name, archive, library, module = "", soname = "", **kwargs):
    """A shared library of one module, which TVM's runtime, `mlftool.load` and C programs load.

    ```starlark
    mlf_shared_library(
        name = "keyword",
        archive = ":keyword_archive",
        library = ":keyword_lib",
    )
    ```

    The file is `<name>.so`. It is built for the current platform, which must have an operating
    system. docs/library.md describes its contents.

    Args:
      name: the library's name.
      archive: an `mlf_compile`, `mlf_package` or `mlf_import` target.
      library: the `mlf_cc_library` of that archive.
      module: which module, when the archive has several.
      soname: the name under which linked programs look for the library. Default: the file's name.
      **kwargs: more for `cc_binary`: `visibility`, `testonly`, `target_compatible_with`, `linkopts`, ...
    """
    check_call(
        name,
        archive = (archive, "label"),
        library = (library, "label"),
        module = (module, "string"),
        soname = (soname, "string"),
    )
    check_common(name, kwargs)
    check_plain(name, "it is part of a file's name; make a target for each", soname = soname)
    check_new(name, [name, name + ".so", name + "_source"])
    if is_select(library):
        # Which stands for a label and not for a list of some.
        native.alias(name = name + "_library", actual = library, **for_alias(for_hidden(kwargs)))
        library = name + "_library"
    _library_source(
        name = name + "_source",
        archive = archive,
        module = module,
        soname = soname or name + ".so",
        **for_hidden(kwargs)
    )
    cc_binary(
        name = name + ".so",
        srcs = [name + "_source"],
        copts = MODEL_COPTS,
        linkshared = True,
        linkstatic = True,
        deps = [name + "_source", library] + _RUNTIME,
        **kwargs
    )
    native.alias(name = name, actual = name + ".so", **for_alias(for_public(kwargs)))
