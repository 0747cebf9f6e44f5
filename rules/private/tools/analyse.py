"""`analyse KIND REQUEST.json OUT...`: what commands of mlftool show of a module, for mlf_analysis.

REQUEST has what the rule knows of the module; each OUT ends in the form that is written there.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlftool import table
from mlftool.advice import advice
from mlftool.cli import main as mlftool
from mlftool.cli.formats import checked, counted, sarif
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError, Problem, exits
from mlftool.insight import (
    bench,
    compare,
    diff,
    graph,
    memmap,
    operators,
    profile,
    report,
    size,
    source_map,
)
from mlftool.insight.facts import facts, read_facts, to_bytes
from mlftool.insight.subject import Subject, of_archive, of_spec
from mlftool.insight.trace import Finished, finished
from mlftool.mlf import write_atomically
from mlftool.runtime.execute import place_for
from mlftool.runtime.vectors import load_vectors, paired
from rules.private.tools.package import module_spec

Forms = Mapping[str, str]


def subject(request: Mapping[str, Any]) -> Subject:
    """The module; of an archive from elsewhere, as far as that says."""
    name, spec = request["name"], request["spec"]
    if spec is None:
        found = of_archive(Path(request["archive"]), request["module"])
        return Subject(found.file, name, found.bundle, found.module)
    return of_spec(module_spec(spec), request["label"], name)


def _json(**data: Any) -> str:
    return json.dumps({"schema_version": 1, **data}, indent=2) + "\n"


def _bench(request: Mapping[str, Any]) -> Forms:
    about, inputs = subject(request), request["vectors"]
    place = bench.place_of(about.interface.target, None, request["label"])
    found = bench.bench(about, place, Path(inputs) if inputs else None)
    return {
        "txt": bench.text([found]) + "\n",
        "csv": table.comma_separated(bench.tabled([found])),
        "md": table.markdown(bench.tabled([found])) + "\n",
        "json": _json(benches=[bench.to_json(found)]),
    }


def _check(request: Mapping[str, Any]) -> Forms:
    """A model with problems has no archive, so there are only warnings."""
    spec = module_spec(request["spec"])
    warnings = advice(compile_module(spec), str(spec.model))
    told = [*map(str, warnings), f"{spec.model}: {counted(warnings)}"]
    return {
        "txt": "\n".join(told) + "\n",
        "json": _json(**checked(str(spec.model), (), warnings)),
        "sarif": sarif(warnings) + "\n",
    }


def _diff(request: Mapping[str, Any]) -> Forms:
    older = Path(request["against"])
    old = read_facts(older) if older.suffix == ".json" else [facts(of_archive(older))]
    found, alone = diff.paired(old, [facts(subject(request))])
    data = {"differences": [diff.to_json(d) for d in found], "unpaired": list(alone)}
    return {
        "txt": "\n\n".join([*map(diff.text, found), *alone]) + "\n",
        "md": diff.markdown(found, alone) + "\n",
        "json": _json(**data),
    }


def _profile(request: Mapping[str, Any]) -> Forms:
    inputs = request["vectors"]
    found = profile.profile(subject(request), inputs=Path(inputs) if inputs else None)
    return {
        "txt": profile.text(found) + "\n",
        "csv": table.comma_separated(profile.several([found])),
        "md": profile.text(found, markdown=True) + "\n",
        "json": _json(profiles=[profile.to_json(found)]),
    }


def _size(request: Mapping[str, Any]) -> Forms:
    """The trees; with an older build, what changed in them. The JSON has the trees either way."""
    found = size.size_of(subject(request))
    text = size.text(found, size.USUAL_DEPTH)
    if request["against"]:
        old = _older_size(Path(request["against"]), found.name)
        text = size.compared(old, found, size.USUAL_DEPTH)
    return {"txt": text + "\n", "json": _json(sizes=[found.to_json()])}


def _older_size(file: Path, name: str) -> size.Size:
    """Of several programs in a file of sizes the one of that name. Raises MlfError."""
    if file.suffix != ".json":
        return size.size_of(of_archive(file))
    sizes = size.read_sizes(file)
    named = {s.name: s for s in sizes}
    if len(sizes) != 1 and name not in named:
        text = f"has no program '{name}': {', '.join(named) or 'it has none'}"
        raise MlfError(Problem("MLF0405", text, str(file)))
    return sizes[0] if len(sizes) == 1 else named[name]


def _memmap(request: Mapping[str, Any]) -> Forms:
    found = memmap.memory_map(subject(request), True)
    return {
        "txt": memmap.text(found) + "\n",
        "svg": memmap.drawing(found),
        "json": _json(maps=[memmap.to_json(found)]),
    }


def _graph(request: Mapping[str, Any]) -> Forms:
    return _drawn(graph.after(subject(request)))


def _graph_before(request: Mapping[str, Any]) -> Forms:
    return _drawn(graph.before(subject(request)))


def _drawn(found: graph.Drawing) -> Forms:
    return {"svg": graph.drawing(found), "json": _json(**graph.to_json(found))}


def _trace(request: Mapping[str, Any]) -> Forms:
    found = source_map.source_map(subject(request))
    return {
        "txt": source_map.text(found) + "\n",
        "csv": table.comma_separated(source_map.table(found)),
        "json": _json(**source_map.to_json(found)),
    }


def _report(request: Mapping[str, Any]) -> Forms:
    about, vectors = subject(request), request["vectors"]
    samples = paired(Path(vectors), Path(vectors), about.interface) if vectors else None
    found = report.report(about, None, samples, [f"bazel build {request['label']}"])
    return {"html": report.page(found), "json": _json(**report.to_json(found))}


def _facts(request: Mapping[str, Any]) -> Forms:
    return {"json": to_bytes([facts(subject(request))]).decode()}


def _ops(request: Mapping[str, Any]) -> Forms:
    if request["spec"] is None:
        found = operators.of_archive(subject(request))
    else:
        target = request["spec"]["target"]
        found = operators.judged(request["name"], {target: module_spec(request["spec"])})
    made = {"txt": operators.text(found), "json": _json(**operators.judgement_json(found))}
    return {"txt": made["txt"] + "\n", "json": made["json"]}


def _compare(request: Mapping[str, Any]) -> Forms:
    vectors = request["vectors"]
    arrays = load_vectors(Path(vectors)) if vectors else None
    given = compare.Samples(arrays, compare.USUAL_SAMPLES, str(vectors))
    found = _against(request, given) if request["against"] else _on_board(request, given)
    return {"txt": compare.text(found) + "\n", "json": _json(**compare.to_json(found))}


def _against(request: Mapping[str, Any], given: compare.Samples) -> compare.Compared:
    reference = Path(request["against"])
    names = (request["name"], reference.name)
    other = ModuleSpec(reference, request["module"])
    if request["spec"] is None:
        of = (_finished(request), finished(other), names)
        return compare.archives_against(*of, given, compare.USUAL_SQNR)
    spec = module_spec(request["spec"])
    return compare.against(spec, other, names, given, compare.USUAL_SQNR)


def _on_board(request: Mapping[str, Any], given: compare.Samples) -> compare.Compared:
    name, label = request["name"], request["label"]
    if request["spec"] is None:
        archive = _finished(request)
        place = place_for(archive.interface.target, None, label)
        return compare.archive_on_board(archive, name, place, given)
    place = place_for(request["spec"]["target"], None, label)
    return compare.on_board(module_spec(request["spec"]), name, place, given)


def _finished(request: Mapping[str, Any]) -> Finished:
    about = subject(request)
    return Finished(about.bundle, about.interface)


def _said(request: Mapping[str, Any], command: str, *words: str) -> str:
    """What a command prints of the archive, by the module's name instead of a path of Bazel's own.
    Raises MlfError if it fails, which has said why."""
    with contextlib.redirect_stdout(io.StringIO()) as talk:
        code = mlftool((command, request["archive"], *words))
    if code:
        raise MlfError([], code)
    return talk.getvalue().replace(request["archive"], request["name"])


def _inspect(request: Mapping[str, Any]) -> Forms:
    return {"txt": _said(request, "inspect"), "json": _said(request, "inspect", "--json")}


def _verify(request: Mapping[str, Any]) -> Forms:
    return {"txt": _said(request, "verify"), "json": _said(request, "verify", "--json")}


def _sbom(request: Mapping[str, Any]) -> Forms:
    return {"json": _said(request, "sbom")}


def _provenance(request: Mapping[str, Any]) -> Forms:
    return {"json": _said(request, "sbom", "--format", "provenance")}


KINDS: Mapping[str, Callable[[Mapping[str, Any]], Forms]] = {
    "bench": _bench,
    "check": _check,
    "compare": _compare,
    "diff": _diff,
    "facts": _facts,
    "graph": _graph,
    "graph_before": _graph_before,
    "inspect": _inspect,
    "memmap": _memmap,
    "ops": _ops,
    "profile": _profile,
    "provenance": _provenance,
    "report": _report,
    "sbom": _sbom,
    "size": _size,
    "trace": _trace,
    "verify": _verify,
}


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    kind, request, *outputs = arguments
    forms = KINDS[kind](json.loads(Path(request).read_text()))
    for file in map(Path, outputs):
        write_atomically(file, forms[file.suffix[1:]].encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
