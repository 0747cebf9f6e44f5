"""An archive made elsewhere: by TVM, or by mlftool outside this build."""

load(":calls.bzl", "check_call", "check_common", "check_new", "check_plain", "is_select", "refuse")
load(":checks.bzl", "check_extension", "public_label", "public_name")
load(":common.bzl", "for_public")
load(":groups.bzl", "LIMIT_ATTRS", "archive_groups", "extract_parts")
load(":library.bzl", "ONE_TARGET", "mlf_cc_library")
load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":options.bzl", "EXECUTORS")
load(":providers.bzl", "MlfInfo")
load(":shared.bzl", "make_shared", "mlf_archive")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

# TVM's C is GNU C (empty arrays) and not without warnings, some of which newer compilers insist on. The
# same list is in mlftool.runtime.sources; a test compares the two.
FOREIGN_COPTS = [
    "-std=gnu11",
    "-ffp-contract=off",
    "-w",
    "-Wno-implicit-function-declaration",
    "-Wno-incompatible-pointer-types",
    "-Wno-int-conversion",
    "-Wno-declaration-missing-parameter-type",
]

def _mlf_archive_impl(ctx):
    check_extension(ctx, "archive", ["tar", "model-library-format", "model-lib"], "_archive")
    info = MlfInfo(
        archive = ctx.file.archive,
        executors = {name: ctx.attr.executor for name in ctx.attr.modules} if ctx.attr.executor else {},
        modules = ctx.attr.modules,
        target = ctx.attr.target,
    )
    parts = extract_parts(ctx, info, public_name(ctx) + ".files", public_label(ctx), libraries = True)
    return [DefaultInfo(files = depset([ctx.file.archive])), archive_groups(ctx, info, parts), info]

_foreign_archive = rule(
    implementation = _mlf_archive_impl,
    attrs = dict({
        "archive": attr.label(mandatory = True, allow_single_file = True),
        "executor": attr.string(values = [""] + list(EXECUTORS)),
        "modules": attr.string_list(mandatory = True, allow_empty = False),
        "target": attr.string(),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    }, **LIMIT_ATTRS),
    cfg = model_transition,
    provides = [MlfInfo],
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_import(
        name,
        archive,
        modules = ["default"],
        executor = "",
        target = "",
        deps = [],
        copts = [],
        max_constants_bytes = None,
        max_workspace_bytes = None,
        **kwargs):
    """An archive made by TVM, or elsewhere by mlftool, as `cc_library` and as archive.

    ```starlark
    mlf_import(
        name = "keyword",
        archive = "third_party/keyword_tvm.tar",
        modules = ["keyword"],
    )
    ```

    | target | what it is |
    |---|---|
    | `<name>` | the `cc_library` |
    | `<name>_archive` | the archive, for `mlf_runner` and other rules that take one |

    The rule reads every version of the format, 1 to 7. The sources are compiled against this
    project's C runtime, even if the archive contains another. The archive is checked when it is
    unpacked.

    Args:
      name: the library's name.
      archive: the `.tar`.
      modules: the names of its modules; TVM's default is `default`.
      executor: the executor, which is then checked. Default: that of the archive.
      target: a target of mlftool, if the C is for that processor only.
      deps: libraries that sources of external code generators need, such as CMSIS-NN.
      copts: more options for the C compiler.
      max_constants_bytes: as of `mlf_compile`.
      max_workspace_bytes: as of `mlf_compile`.
      **kwargs: more for `cc_library`.
    """
    check_call(
        name,
        archive = (archive, "label"),
        copts = (copts, "string_list"),
        deps = (deps, "list"),
        executor = (executor, "string"),
        max_constants_bytes = (max_constants_bytes, "bytes"),
        max_workspace_bytes = (max_workspace_bytes, "bytes"),
        modules = (modules, "string_list"),
        target = (target, "string"),
    )
    check_common(name, kwargs)
    check_plain(name, ONE_TARGET, target = target)
    check_new(name, [name, name + "_archive"])
    if not is_select(executor) and executor not in [""] + list(EXECUTORS):
        refuse(name, "executor", executor, "one of " + ", ".join(EXECUTORS) + "; leave it out for the archive's own")
    make_shared(
        _foreign_archive,
        mlf_archive,
        name + "_archive",
        dict(
            for_public(kwargs),
            archive = archive,
            executor = executor,
            max_constants_bytes = max_constants_bytes,
            max_workspace_bytes = max_workspace_bytes,
            modules = modules,
            tags = kwargs.get("tags", []) + ["manual"],
            target = target,
        ),
    )
    mlf_cc_library(
        name = name,
        archive = name + "_archive",
        copts = FOREIGN_COPTS + copts,
        target = target,
        deps = deps,
        **kwargs
    )
