"""What mlftool's commands show of an archive's module, as files of the build; and two builds compared."""

load("@mlf_system//:machines.bzl", "TOOLCHAINS")
load(":checks.bzl", "check_source", "info_of", "infos_of")
load(":cpus.bzl", "is_bare")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfFactsInfo", "MlfInfo", "MlfSpecsInfo")
load(":run.bzl", "executable")
load(":runner.bzl", "module_of")
load(":simulation.bzl", "SIMULATION_ATTRS", "simulation_requirements")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

# Kind -> the forms it is written in, the first of which `bazel run` prints.
_KINDS = {
    "bench": ["txt", "csv", "md", "json"],
    "check": ["txt", "json", "sarif"],
    "compare": ["txt", "json"],
    "diff": ["txt", "md", "json"],
    "facts": ["json"],
    "graph": ["svg", "json"],
    "graph_before": ["svg", "json"],
    "inspect": ["txt", "json"],
    "memmap": ["txt", "svg", "json"],
    "ops": ["txt", "json"],
    "profile": ["txt", "csv", "md", "json"],
    "provenance": ["json"],
    "report": ["html", "json"],
    "sbom": ["json"],
    "size": ["txt", "json"],
    "trace": ["txt", "csv", "json"],
    "verify": ["txt", "json"],
}

# Those that run a program or link one; the others look at what was compiled.
_MEASURED = ["bench", "compare", "diff", "facts", "profile", "report", "size"]

# Those that are of a target with a simulated board only.
NEEDS_BOARD = ["bench", "compare", "profile", "size"]
_WITH_VECTORS = ["bench", "compare", "profile", "report"]

# Those that look at the model itself, which an archive does not have.
_NEEDS_MODEL = ["check", "graph_before"]

# Kind -> what `against` may be.
_AGAINST = {
    "compare": [".onnx", ".tflite"],
    "diff": [".json", ".tar"],
    "size": [".json", ".tar"],
}

def _name_of(label):
    """How tables call a module: by its package and target, the same in every Bazel."""
    target = label.name[:-len("_archive")] if label.name.endswith("_archive") else label.name
    return "/".join([part for part in [label.package, target] if part])

def _check_against(label, kind, against):
    if against and kind not in _AGAINST:
        fail("%s: error[MLF0414]: against: got %s with kind '%s', expected it with %s only; leave it out" %
             (label, against.short_path, kind, ", ".join(sorted(_AGAINST))))
    if against and not against.basename.endswith(tuple(_AGAINST[kind])):
        fail("%s: error[MLF0414]: against: got %s with kind '%s', expected a file that ends in %s" %
             (label, against.short_path, kind, " or ".join(_AGAINST[kind])))
    if kind == "diff" and not against:
        fail("%s: error[MLF0414]: against: got none with kind 'diff', expected the older build: an archive, or figures of kind 'facts'" % label)

def _check_kind(ctx, target, has_model):
    label, kind = shown(ctx.label), ctx.attr.kind
    if ctx.file.vectors and kind not in _WITH_VECTORS:
        fail("%s: error[MLF0414]: vectors: got %s with kind '%s', expected it with %s only; leave it out" %
             (label, ctx.file.vectors.short_path, kind, ", ".join(_WITH_VECTORS)))
    _check_against(label, kind, ctx.file.against)
    if kind in _NEEDS_MODEL and not has_model:
        fail("%s: error[MLF0414]: archive: got %s, which does not have the model, with kind '%s'; give an mlf_compile or mlf_package target" %
             (label, shown(ctx.attr.archive.label), kind))
    if kind == "compare" and not (ctx.file.against or is_bare(target)):
        fail("%s: error[MLF0414]: against: got none for target '%s', which has no simulated board to compare with this computer; give the float model" %
             (label, target))

def _mlf_analysis_impl(ctx):
    kind, info = ctx.attr.kind, info_of(ctx, "archive", MlfInfo)
    made_from = ctx.attr.archive[MlfSpecsInfo] if MlfSpecsInfo in ctx.attr.archive else None
    _check_kind(ctx, info.target, bool(made_from))
    module = module_of(ctx, info)
    specs = [spec for spec in made_from.specs if spec.module_name == module] if made_from else []
    name = _name_of(ctx.attr.archive.label)
    vectors, against = ctx.file.vectors, ctx.file.against
    request = ctx.actions.declare_file(ctx.label.name + ".request.json")
    ctx.actions.write(request, json.encode(struct(
        against = against.path if against else None,
        archive = info.archive.path,
        label = shown(ctx.label),
        module = module,
        name = name + ":" + module if len(info.modules) > 1 else name,
        spec = specs[0] if specs else None,
        vectors = vectors.path if vectors else None,
    )))
    inputs = [info.archive, request] + ctx.files._tools + (made_from.files if made_from else [])
    if kind in _MEASURED:
        inputs += [ctx.file._qemu] + ctx.files._compilers
    made = [ctx.actions.declare_file("%s.%s" % (ctx.label.name, form)) for form in _KINDS[kind]]
    args = ctx.actions.args()
    args.add_all([kind, request] + made)
    run_mlftool(
        ctx,
        "tuner",
        "rules.private.tools.analyse",
        [args],
        inputs = inputs + [file for file in [vectors, against] if file],
        outputs = made,
        mnemonic = "MlfAnalysis",
        progress_message = "Looking at %s (%s)" % (name, kind),
        execution_requirements = simulation_requirements(ctx, kind in _MEASURED),
    )
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "#!/bin/sh\nexec cat '%s'\n" % made[0].short_path, is_executable = True)
    facts = [MlfFactsInfo(facts = made[0])] if kind == "facts" else []
    runfiles = ctx.runfiles(files = made[:1])
    return facts + [DefaultInfo(executable = script, files = depset(made), runfiles = runfiles)]

mlf_analysis = rule(
    doc = """The output of an mlftool command for a module: `bazel build` writes it in all its
forms, `bazel run` prints the first form.

```starlark
mlf_analysis(name = "keyword.profile", archive = ":keyword", kind = "profile")

mlf_analysis(name = "keyword.report", archive = ":keyword", kind = "report", vectors = "keyword.npz")
```

| `kind` | what it is | forms |
|---|---|---|
| `bench` | what an inference takes on the simulated board of the target | `.txt`, `.csv`, `.md`, `.json` |
| `check` | what the model and its quantisation could do better | `.txt`, `.json`, `.sarif` |
| `compare` | each layer against the float model that is `against`; without one, the simulated board of the target against this computer | `.txt`, `.json` |
| `diff` | what changed since the build that is `against` | `.txt`, `.md`, `.json` |
| `facts` | the figures by which `mlf_diff_test` compares two builds | `.json` |
| `graph` | the module as a picture | `.svg`, `.json` |
| `graph_before` | the model as a picture, before the compiler's passes | `.svg`, `.json` |
| `inspect` | what the archive holds | `.txt`, `.json` |
| `memmap` | who is where in the working memory, and what lowers its peak | `.txt`, `.svg`, `.json` |
| `ops` | which kernel computes each layer, and why | `.txt`, `.json` |
| `profile` | what each layer costs, counted on the simulated board of the target | `.txt`, `.csv`, `.md`, `.json` |
| `provenance` | how the archive was made, by in-toto and SLSA | `.json` |
| `report` | a page with all of it; with `vectors` also the accuracy | `.html`, `.json` |
| `sbom` | the bill of materials, by CycloneDX | `.json` |
| `size` | what flash and RAM of the linked test program are; with `against` what changed in them (`.json`: the trees) | `.txt`, `.json` |
| `trace` | which lines of C are of which node of the model | `.txt`, `.csv`, `.json` |
| `verify` | the certificates, checked again; fails if one does not hold. The archive needs `verify` | `.txt`, `.json` |

`mlf_model`, and so a manifest, makes those that need only the model. docs/analysis.md says
what the figures mean. For an archive that was compiled elsewhere, only the facts in the archive
are known: no figures of layers, for instance.""",
    implementation = _mlf_analysis_impl,
    attrs = dict({
        "against": attr.label(
            allow_single_file = True,
            doc = """For `compare`: the reference model, in the same format. For an archive that
was compiled elsewhere only the outputs are compared. For `diff`: an `mlf_analysis` of kind `facts`, a
committed file of figures, or an archive, of which fewer figures are known. For `size`: the `.json` of
another `size`, or an archive.""",
        ),
        "archive": attr.label(
            mandatory = True,
            allow_files = True,
            doc = "An `mlf_compile`, `mlf_package` or `mlf_import` (`<name>_archive`) target.",
        ),
        "kind": attr.string(mandatory = True, values = sorted(_KINDS), doc = "What to look at."),
        "module": attr.string(doc = "Which module of the archive. Default: the only one."),
        "vectors": attr.label(
            allow_single_file = [".npz"],
            doc = """Samples. `report` also needs the expected outputs, for the accuracy; `bench` and
`profile` count on the first sample instead of a pattern; `compare` uses up to eight.""",
        ),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
        "_compilers": attr.label_list(
            default = ["@mlf_system//:%s.txt" % name for name in sorted(TOOLCHAINS)],
            allow_files = True,
        ),
        "_qemu": attr.label(default = "@mlf_system//:simulators.txt", allow_single_file = True),
        "_tools": attr.label_list(
            default = [Label("//rules/private/tools:analyse.py"), Label("//rules/private/tools:package.py")],
            allow_files = True,
        ),
    }, **SIMULATION_ATTRS),
    cfg = model_transition,
    executable = True,
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_diff_test_impl(ctx):
    facts = [info.facts for info in infos_of(ctx, "facts", MlfFactsInfo)]
    baseline = check_source(ctx, "baseline")
    arguments = [baseline.short_path, baseline.path, shown(ctx.label)]
    arguments += [word for limit in ctx.attr.fail_on for word in ["--fail-on", limit]]
    arguments += [file.short_path for file in facts]
    files = facts + [baseline] + ctx.files._tools
    return [executable(ctx, "rules.private.tools.differences", arguments, files, "tuner")]

mlf_diff_test = rule(
    doc = """Fails when builds exceed the limits set by a committed file of figures: flash, RAM,
instructions and more of each module. It shows which layers changed, whether the bits of results
changed, and what a caller has to change.

```starlark
load("@models//:defs.bzl", "FACTS")

mlf_diff_test(name = "models_diff_test", baseline = "models.facts.json", facts = FACTS)
```

Start with an empty file. `bazel run //:models_diff_test -- --update` writes the current figures,
and `-- --markdown` prints a table of the changes, for a comment on a pull request; `--
--markdown=comment.md` writes only the table to a file. If a module is added or removed, the test
fails until the file is updated.""",
    implementation = _mlf_diff_test_impl,
    attrs = {
        "baseline": attr.label(
            mandatory = True,
            allow_single_file = [".json"],
            doc = "The file in the source tree.",
        ),
        "facts": attr.label_list(
            mandatory = True,
            allow_files = True,
            doc = "`mlf_analysis` targets of kind `facts`.",
        ),
        "fail_on": attr.string_list(
            default = ["flash>+2%", "ram>+2%", "instructions>+2%"],
            doc = """Limits as in `mlftool diff --fail-on`: a growth such as `flash>+2%`, or an
absolute limit such as `ram>64KiB`.""",
        ),
        "_tools": attr.label_list(
            default = [Label("//rules/private/tools:differences.py"), Label("//rules/private/tools:forms.py")],
            allow_files = True,
        ),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)
