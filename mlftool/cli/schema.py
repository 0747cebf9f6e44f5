"""`mlftool schema`: the JSON Schema of manifests, for editors."""

from __future__ import annotations

import argparse
import json

from mlftool.cli.terminal import put

HELP = "print the JSON Schema of manifests, for editors"
GROUP = "help"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Save it as manifest.schema.json and begin a manifest with\n\n"
        "    # yaml-language-server: $schema=manifest.schema.json"
    )


def run(args: argparse.Namespace) -> int:
    from mlftool.manifest import schema

    put(json.dumps(schema(), indent=2))
    return 0
