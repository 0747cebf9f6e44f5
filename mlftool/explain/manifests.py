"""Codes MLF01nn: manifests."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.explain.text import Explanation

_HEAD = "version: 1\nmodels:\n  kws:\n    model: model.onnx\n"

EXPLANATIONS: Mapping[str, Explanation] = {
    "MLF0100": Explanation(
        "The file does not exist, is a folder, or is not readable.",
        "Check the path; a manifest's name usually ends in .yaml.",
        command="mlftool check missing.yaml",
    ),
    "MLF0101": Explanation(
        "A manifest is UTF-8 text without control characters. The file was saved as UTF-16 or "
        "Latin-1, or is a binary file.",
        "Save the file as UTF-8; `iconv -f latin1 -t utf8` converts it.",
        message="models.yaml:3:8: error[MLF0101]: the file is not UTF-8; got byte 0xe4",
    ),
    "MLF0102": Explanation(
        "The YAML parser cannot read the line: a bracket or quote is open, a tab indents, or lines "
        "of one mapping are not aligned.",
        "Look at the line and the one before it. Indent with spaces.",
        manifest="version: 1\nmodels: {kws: {model: model.onnx}",
    ),
    "MLF0103": Explanation(
        "mlftool limits the size, depth and length of manifests, so that a damaged or hostile "
        "file cannot use all memory. Real manifests stay far below the limits.",
        "If a manifest is really this large, split it; a workspace may have several.",
        manifest="[" * 200,
    ),
    "MLF0104": Explanation(
        "Manifests use the part of YAML that all readers agree on: mappings with text as keys, "
        "lists and values. Anchors and aliases would hide the options of a model.",
        "Write common values once under `defaults`, and combinations with `matrix`.",
        manifest="version: 1\nmodels:\n  kws: &base\n    model: model.onnx\n",
    ),
    "MLF0105": Explanation(
        "YAML parsers usually keep the last of two equal keys and say nothing.",
        "Remove one of the two.",
        manifest=_HEAD + "    executor: aot\n    executor: graph\n",
    ),
    "MLF0106": Explanation(
        "The key is misspelt, or is in the wrong mapping.",
        "Use the key that the message suggests; docs/manifest.md lists all keys, and "
        "`mlftool schema` lets an editor complete them.",
        manifest=_HEAD + "    executer: aot\n",
    ),
    "MLF0107": Explanation(
        "Some keys have no default: `version` at the top level, `model` in a model.",
        "Add the key that the message names: `version: 1` as the first line, `model: FILE.onnx` in "
        "a model.",
        manifest="version: 1\nmodels:\n  kws:\n    executor: aot\n",
    ),
    "MLF0108": Explanation(
        "The value has another type than the key expects: a list instead of one value, or text "
        "instead of a number.",
        "Write the value in the form that the message expects: `[host, cortex-m4]` for a list, "
        "`true` or `false`, `16KiB` for a size. Put text that looks like a number into quotes.",
        manifest=_HEAD + "    targets: 7\n",
    ),
    "MLF0109": Explanation(
        "The value has the right type, but is not one of the allowed values.",
        "Use one of the values in the message; `mlftool schema` prints those of every key.",
        manifest=_HEAD + "    optimize: tiny\n",
    ),
    "MLF0110": Explanation(
        "Names of models, archives and modules become parts of C symbols, labels and file names: "
        "letters, digits and underscores, a letter first.",
        "Rename it; the model's file may keep its name.",
        manifest="version: 1\nmodels:\n  my model:\n    model: model.onnx\n",
    ),
    "MLF0111": Explanation(
        "Two models, archives or targets have names that give the same file or symbol.",
        "Rename one of them.",
        manifest=_HEAD + "archives:\n  kws: {target: host, models: [kws]}\n",
    ),
    "MLF0112": Explanation(
        "A target is a name that mlftool knows, such as cortex-m4, or a key of the manifest's own "
        "`targets`.",
        "Use the name that the message suggests, or declare the target: "
        "`targets: {mine: {base: cortex-m4}}` at the top level.",
        manifest=_HEAD + "    targets: [cortex-m44]\n",
    ),
    "MLF0113": Explanation(
        "Executors are aot (straight-line C), graph (TVM's graph JSON) and vm (bytecode).",
        "Use one of these; the default is aot.",
        manifest=_HEAD + "    executor: eot\n",
    ),
    "MLF0114": Explanation(
        "An archive lists names of the manifest's `models`.",
        "Correct the name, or add the model.",
        manifest=_HEAD + "archives:\n  all: {target: host, models: [kws, vww]}\n",
    ),
    "MLF0115": Explanation(
        "Paths are relative to the manifest and stay inside its folder, so a checkout builds "
        "anywhere.",
        "Move or copy the file into the manifest's folder, and give its name.",
        manifest="version: 1\nmodels:\n  kws:\n    model: /home/me/model.onnx\n",
    ),
    "MLF0116": Explanation(
        "The manifest names a file of a model, data or vectors that does not exist.",
        "Correct the path, or add the file; a file in Git LFS may not be fetched yet.",
        manifest="version: 1\nmodels:\n  kws:\n    model: missing.onnx\n",
    ),
    "MLF0117": Explanation(
        "The number after `version:` is the version of the format. This mlftool supports only an "
        "earlier version.",
        "Update mlftool, or write `version: 1`.",
        manifest="version: 99\nmodels:\n  kws:\n    model: model.onnx\n",
    ),
    "MLF0118": Explanation(
        "A target or model is in a list twice.",
        "Remove one of the two.",
        manifest=_HEAD + "    targets: [host, host]\n",
    ),
    "MLF0119": Explanation(
        "The model's working memory or constants, or the flash and RAM of the linked program, "
        "exceed `budget` or the memory of the board.",
        "`mlftool memmap` shows what lowers the RAM, `mlftool size` what takes the flash. Or "
        "raise the budget.",
        message="models.yaml:6:14: error[MLF0119]: models.kws.budget.ram: kws/cortex-m4-aot.tar "
        "is over this limit; got 22640 bytes (20480 working memory, 2160 inputs and outputs), "
        "expected at most 16384 bytes",
    ),
    "MLF0120": Explanation(
        "Two keys of a model contradict each other, or a key needs another one.",
        "Remove one of the keys in the message, or add what it misses; `mlftool schema` prints "
        "what each key needs.",
        message="models.yaml:5:5: error[MLF0120]: models.kws.unpacked_api: aot is not among the "
        "executors",
    ),
    "MLF0121": Explanation(
        "`mlftool bazel` wrote a BUILD file from the manifest, and one of the two has changed "
        "since.",
        "Run `mlftool bazel` again and commit the file.",
        message="BUILD.bazel: error[MLF0121]: does not match its manifest",
    ),
    "MLF0122": Explanation(
        "Labels are relative to a workspace: the folder with WORKSPACE or MODULE.bazel.",
        "Put the manifest into the workspace whose BUILD files use it.",
        message="/tmp/models.yaml: error[MLF0122]: no folder above it has one of MODULE.bazel, "
        "REPO.bazel, WORKSPACE.bazel, WORKSPACE",
    ),
    "MLF0123": Explanation(
        "A target's `board` is the label of an mlf_board in a folder with a BUILD file.",
        "Correct the label, or add a BUILD file with `mlf_board(name = ...)` to the folder; "
        "docs/boards.md has an example.",
        message="models.yaml:4:12: error[MLF0123]: targets.mine.board: no such package; got "
        "'//boards/mine', expected the label of an mlf_board",
    ),
}
