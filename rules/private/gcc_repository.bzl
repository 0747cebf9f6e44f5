"""A cross compiler that is not the distribution's: from a folder, or from an archive with its checksum."""

load(":options.bzl", "C_TOOLCHAINS", "TOOLCHAINS")
load(":system_tools.bzl", "PROBE", "clean_environment", "find_python", "probe")

_SOURCES = ["path", "archive", "urls"]

# What is loaded as it is: the repository's own BUILD file names the rest.
_BUILD = """load("{gcc}", "gcc_toolchains")

gcc_toolchains(
    compiler = {compiler},
    constraint = "{constraint}",
    files = {files},
    prefix = "{prefix}",
)
"""

def _refuse(rctx, attribute, text):
    fail("mlf_gcc_repository(name = \"%s\"): %s: %s" % (rctx.name, attribute, text))

def _check_sum(rctx, python, archive):
    """Bazel checks what it downloads; a file of the workspace is ours to check."""
    program = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
    done = rctx.execute(
        [python, "-B", "-s", "-S", "-c", program, str(archive)],
        environment = clean_environment(rctx),
    )
    if done.return_code:
        _refuse(rctx, "archive", "%s cannot be read: %s" % (rctx.attr.archive, done.stderr))
    if done.stdout.strip() != rctx.attr.sha256.lower():
        _refuse(rctx, "sha256", "got '%s', and %s has %s; use that if the file is the right one" %
                                (rctx.attr.sha256, rctx.attr.archive, done.stdout.strip()))

def _folder(rctx, python):
    """The folder with bin/, and whether it is in this repository."""
    given = [name for name in _SOURCES if getattr(rctx.attr, name)]
    if len(given) != 1:
        _refuse(rctx, ", ".join(_SOURCES), "got %s, expected one of them" % (", ".join(given) or "none"))
    if given == ["path"]:
        if not rctx.attr.path.startswith("/"):
            _refuse(rctx, "path", "got '%s', expected an absolute path" % rctx.attr.path)
        return rctx.path(rctx.attr.path), False
    if given == ["urls"]:
        if not rctx.attr.sha256:
            _refuse(rctx, "sha256", "got '', expected the checksum of what urls name")
        rctx.download_and_extract(rctx.attr.urls, sha256 = rctx.attr.sha256, stripPrefix = rctx.attr.strip_prefix)
    else:
        archive = rctx.path(rctx.attr.archive)
        _check_sum(rctx, python, archive)
        rctx.extract(archive, stripPrefix = rctx.attr.strip_prefix)
    return rctx.path("."), True

def _gcc_repository_impl(rctx):
    python = find_python(rctx)
    folder, inside = _folder(rctx, python)
    prefix = rctx.attr.prefix
    gcc = "bin/%s-gcc" % prefix
    program = folder.get_child("bin").get_child(prefix + "-gcc")
    if not program.exists:
        source = [name for name in _SOURCES if getattr(rctx.attr, name)][0]
        hint = " after strip_prefix = \"%s\"" % rctx.attr.strip_prefix if inside else " in it"
        _refuse(rctx, source, "got '%s', and there is no %s%s" % (getattr(rctx.attr, source), gcc, hint))

    # An option of its own tells gcc not to look for its parts where links lead: in a sandbox that is
    # outside.
    flags = rctx.attr.flags + (["-no-canonical-prefixes"] if inside else [])
    compiler = probe(rctx, python, [prefix, str(program)] + flags)
    if not compiler["path"]:
        _refuse(rctx, "flags", "got %s, and with them %s does not find string.h; they must name a C library, as \"--specs=picolibc.specs\" does" % (rctx.attr.flags, program))
    root = str(rctx.path("."))
    if inside:
        # With Bazel's modules a repository's name is its canonical one, written with two.
        own = "%%package(%s%s//)%%" % ("@@" if str(Label("//rules")).startswith("@@") else "@", rctx.name)
        compiler["path"] = gcc
        compiler["includes"] = [
            own + path[len(root):] if path.startswith(root + "/") else path
            for path in compiler["includes"]
        ]
    rctx.file("compiler.txt", compiler["fingerprint"] + "\n")
    rctx.file("BUILD.bazel", _BUILD.format(
        compiler = repr(compiler),
        constraint = rctx.attr.constraint,
        files = "glob([\"**\"], exclude = [\"BUILD.bazel\", \"WORKSPACE\"])" if inside else "[\"compiler.txt\"]",
        gcc = Label("//rules/toolchains:gcc.bzl"),
        prefix = prefix,
    ))

mlf_gcc_repository = repository_rule(
    doc = """A gcc of your own for mlftool's processors, in place of the distribution's.

```starlark
mlf_gcc_repository(
    name = "arm_gcc",
    path = "/opt/arm-gnu-toolchain-13.2",
    prefix = "arm-none-eabi",
)

register_toolchains("@arm_gcc//:all")  # before mlf_register_toolchains()
```

`@arm_gcc//:cortex-m4` and so on are toolchains; Bazel uses the first registered one that fits a
platform. From Bazel 7 on, load the rule in `MODULE.bazel` by `use_repo_rule`.

The compiler is in a folder of the machine (`path`; after a change there run `bazel sync
--configure`), in an archive of the workspace (`archive`) or in a downloaded archive (`urls`).
Every file of an archive is an input of each action, so remote workers get the compiler, too.""",
    implementation = _gcc_repository_impl,
    attrs = dict(
        PROBE,
        archive = attr.label(allow_single_file = True, doc = "An archive of the workspace, checked by `sha256`."),
        constraint = attr.string(
            default = "usual",
            doc = "`usual`, or another for platforms that have this constraint.",
            values = C_TOOLCHAINS,
        ),
        flags = attr.string_list(doc = "Options of every use, such as `--specs=picolibc.specs`."),
        path = attr.string(doc = "The folder that has `bin/<prefix>-gcc`, absolute."),
        prefix = attr.string(
            mandatory = True,
            doc = "What the names of its programs begin with: the processors are those that mlftool compiles with it.",
            values = TOOLCHAINS,
        ),
        sha256 = attr.string(doc = "Checksum of the archive; mandatory with `archive` and `urls`."),
        strip_prefix = attr.string(doc = "The folder inside the archive that has `bin`."),
        urls = attr.string_list(doc = "Where the archive is: the first that answers."),
    ),
    configure = True,
    environ = ["MLF_PYTHON", "PATH"],
)
