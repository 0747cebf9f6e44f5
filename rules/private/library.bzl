"""An archive -> a cc_library."""

load(":cc.bzl", "CcInfo", "cc_common", "cc_library")
load(":cpus.bzl", "HOSTS")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfInfo")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

# Generated code is C99, and its results may not depend on which processor fuses multiply and add.
MODEL_COPTS = ["-std=c99", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections"]

def _mlf_extract_impl(ctx):
    info = ctx.attr.archive[MlfInfo]
    folder = ctx.label.name

    # Headers every archive carries for its kernels, so that it builds without this repository.
    names = ["mlf/" + header.basename for header in ctx.files._support_headers]
    members = {"codegen/host/include/" + name: name for name in names}
    for module in info.modules:
        members["codegen/host/include/tvmgen_%s.h" % module] = "tvmgen_%s.h" % module
        for part in ["lib0", "lib1"]:
            name = "%s_%s.c" % (module, part)
            members["codegen/host/src/" + name] = name
    files = {member: ctx.actions.declare_file(folder + "/" + name) for member, name in members.items()}
    args = ctx.actions.args()
    args.add("extract")
    args.add(info.archive)
    for member, file in files.items():
        args.add("--member")
        args.add(file, format = member + "=%s")
    run_mlftool(
        ctx,
        "runtime",
        "mlftool",
        [args],
        inputs = [info.archive],
        outputs = files.values(),
        mnemonic = "MlfExtract",
        progress_message = "Unpacking %s" % info.archive.short_path,
    )
    sources = [file for file in files.values() if file.extension == "c"]
    headers = [file for file in files.values() if file.extension == "h"]
    return [
        DefaultInfo(files = depset(sources)),
        OutputGroupInfo(hdrs = depset(headers), srcs = depset(sources)),
        # Headers of another configuration's folder: cc_library(includes) would look in its own.
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset(headers),
            includes = depset([_folder_of(headers, "tvmgen_%s.h" % info.modules[0])]),
        )),
    ]

def _folder_of(files, name):
    return [file.dirname for file in files if file.basename == name][0]

_mlf_extract = rule(
    doc = "The C files of an archive, in the fixed configuration of the models.",
    implementation = _mlf_extract_impl,
    attrs = {
        "archive": attr.label(mandatory = True, providers = [MlfInfo]),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
        "_support_headers": attr.label(default = Label("//crt:support_headers")),
    },
    cfg = model_transition,
    toolchains = [TOOLCHAIN_TYPE],
)

def _constraints(target):
    return [Label("//rules/platforms:cpu_" + target)] if target and target not in HOSTS else []

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

    Args:
      name: the library's name.
      archive: an `mlf_compile` or `mlf_package` target.
      target: the archive's target, when its C is for that processor only: the library is then left
        out of builds for others.
      copts: more options for the C compiler, after ours.
      deps: more libraries.
      **kwargs: more for `cc_library`, for instance `visibility` or `target_compatible_with`.
    """
    _mlf_extract(
        name = name + "_sources",
        archive = archive,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [name + "_sources"],
        copts = MODEL_COPTS + HOSTS.get(target, []) + copts,
        # A shared object of one model helps nobody, and cc_test would make one.
        linkstatic = True,
        target_compatible_with = kwargs.pop("target_compatible_with", []) + _constraints(target),
        deps = [name + "_sources"] + deps,
        **kwargs
    )
