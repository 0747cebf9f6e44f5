"""Codes MLF01nn: manifests."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.explain.text import Explanation

_HEAD = "version: 1\nmodels:\n  kws:\n    model: model.onnx\n"

EXPLANATIONS: Mapping[str, Explanation] = {
    "MLF0100": Explanation(
        "The file does not exist, is a folder, or may not be read.",
        "Check the path; a manifest's name usually ends in .yaml.",
        command="mlftool check missing.yaml",
    ),
    "MLF0101": Explanation(
        "A manifest is UTF-8 text without control characters. Editors that write UTF-16 or Latin-1 "
        "cause this, and so does a binary file that is given as a manifest.",
        "Save the file as UTF-8; `iconv -f latin1 -t utf8` converts it.",
        message="models.yaml:3:8: error[MLF0101]: not UTF-8; got byte 0xe4",
    ),
    "MLF0102": Explanation(
        "The YAML parser cannot read the line: a bracket or quote is open, a tab indents, or lines "
        "of one mapping are not aligned.",
        "Look at the line and the one before it. Indent with spaces.",
        manifest="version: 1\nmodels: {kws: {model: model.onnx}",
    ),
    "MLF0103": Explanation(
        "Reading stops at a size, depth and length that no manifest of real use has, so that a "
        "damaged or hostile file cannot take all memory.",
        "Split a manifest that is really this large; a workspace may have several.",
        manifest="[" * 200,
    ),
    "MLF0104": Explanation(
        "Manifests use the part of YAML that every reader understands alike: mappings with text "
        "as keys, lists and values. Anchors and aliases would hide what a model's options are.",
        "Write common values once under `defaults`, and combinations with `matrix`.",
        manifest="version: 1\nmodels:\n  kws: &base\n    model: model.onnx\n",
    ),
    "MLF0105": Explanation(
        "YAML parsers usually keep the last of two equal keys and say nothing.",
        "Remove one of the two.",
        manifest=_HEAD + "    executor: aot\n    executor: graph\n",
    ),
    "MLF0106": Explanation(
        "The key is misspelt, or stands in the wrong mapping.",
        "Take the key that the message suggests; docs/manifest.md lists all, and "
        "`mlftool schema` lets an editor complete them.",
        manifest=_HEAD + "    executer: aot\n",
    ),
    "MLF0107": Explanation(
        "Each mapping has keys without a default: `version` at the top, `model` of a model.",
        "Add the key that the message names.",
        manifest="version: 1\nmodels:\n  kws:\n    executor: aot\n",
    ),
    "MLF0108": Explanation(
        "A list stands where one value is expected, text where a number is, and so on.",
        "Write the value as the message says; quotes make text of what looks like a number.",
        manifest=_HEAD + "    targets: 7\n",
    ),
    "MLF0109": Explanation(
        "The value is of the right kind, but not one of those that are allowed.",
        "Take a value from the message.",
        manifest=_HEAD + "    optimize: tiny\n",
    ),
    "MLF0110": Explanation(
        "Names of models, archives and modules become parts of C symbols, labels and file names: "
        "letters, digits and underscores, a letter first.",
        "Rename it; the file of the model may keep its name.",
        manifest="version: 1\nmodels:\n  my model:\n    model: model.onnx\n",
    ),
    "MLF0111": Explanation(
        "Two models, archives or targets would write the same file or symbol.",
        "Rename one of them.",
        manifest=_HEAD + "archives:\n  kws: {models: [kws]}\n",
    ),
    "MLF0112": Explanation(
        "A target is a name that mlftool knows, such as cortex-m4, or a key of the manifest's own "
        "`targets`.",
        "Take a name from the message, or declare the target.",
        manifest=_HEAD + "    targets: [cortex-m44]\n",
    ),
    "MLF0113": Explanation(
        "Executors are aot (straight-line C), graph (TVM's graph JSON) and vm (bytecode).",
        "Use one of these; without the key it is aot.",
        manifest=_HEAD + "    executor: eot\n",
    ),
    "MLF0114": Explanation(
        "An archive of several models names them as the manifest's `models` does.",
        "Correct the name, or add the model.",
        manifest=_HEAD + "archives:\n  all: {models: [kws, vww]}\n",
    ),
    "MLF0115": Explanation(
        "Paths are relative to the manifest and stay inside its folder, so that a checkout builds "
        "anywhere.",
        "Move or copy the file beside the manifest, and give its name.",
        manifest="version: 1\nmodels:\n  kws:\n    model: /home/me/model.onnx\n",
    ),
    "MLF0116": Explanation(
        "The manifest names a model, data or vectors that are not there.",
        "Correct the path, or add the file; one from Git LFS may not be fetched yet.",
        manifest="version: 1\nmodels:\n  kws:\n    model: missing.onnx\n",
    ),
    "MLF0117": Explanation(
        "The number after `version:` says which keys exist. This mlftool knows an earlier one.",
        "Update mlftool, or write `version: 1`.",
        manifest="version: 99\nmodels:\n  kws:\n    model: model.onnx\n",
    ),
    "MLF0118": Explanation(
        "A target or model stands in a list twice.",
        "Remove one of the two.",
        manifest=_HEAD + "    targets: [host, host]\n",
    ),
    "MLF0119": Explanation(
        "The model's workspace, constants, inputs and outputs, or its flash and RAM as linked, are "
        "more than `budget` allows or the board has.",
        "`mlftool memmap` says what lowers the RAM, `mlftool size` what the flash is; or raise the "
        "budget.",
        message="models.yaml:6:14: error[MLF0119]: models.kws.budget.ram: got 22.1 KiB, "
        "expected at most 16 KiB",
    ),
    "MLF0120": Explanation(
        "Two keys of a model contradict each other, or one has no effect without another.",
        "Remove one of them; docs/manifest.md says what each one needs.",
        message="models.yaml:5:5: error[MLF0120]: models.kws.unpacked_api: needs executor aot",
    ),
    "MLF0121": Explanation(
        "`mlftool bazel` wrote a BUILD file from the manifest, and one of both was changed since.",
        "Run `mlftool bazel` again and commit what it writes.",
        message="models.bzl: error[MLF0121]: is not what the manifest gives",
    ),
    "MLF0122": Explanation(
        "Labels are relative to a workspace: the folder with WORKSPACE or MODULE.bazel.",
        "Put the manifest into the workspace whose BUILD files use it.",
        message="/tmp/models.yaml: error[MLF0122]: is in no Bazel workspace",
    ),
    "MLF0123": Explanation(
        "A target's `board` is the label of a folder with a board.json and a BUILD file.",
        "Add a BUILD file to the folder, or correct the label; docs/boards.md has an example.",
        message="models.yaml:4:12: error[MLF0123]: targets.mine.board: no package //boards/mine",
    ),
}
