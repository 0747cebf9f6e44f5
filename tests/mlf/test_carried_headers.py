"""An archive carries every header of ours that a file of it includes."""

from __future__ import annotations

import re

import pytest
from onnx import parser

from mlftool.codegen.executors import EXECUTORS
from mlftool.compile import ModuleSpec, compile_modules

MODEL = """<ir_version: 9, opset_import: ["": 17]> g (float[1,2,5,5] x) => (float[1,2,3,3] y)
    <float[2,2,3,3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}> {
    a = Conv (x, w) y = Sigmoid (a) }"""
INCLUDE = re.compile(rb'#[ \t]*include[ \t]*["<](mlf/\w+\.h)[">]')


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
@pytest.mark.parametrize("executor", sorted(EXECUTORS))
def test_every_include_is_there(executor: str, target: str) -> None:
    spec = ModuleSpec(parser.parse_model(MODEL), executor=executor, target=target)
    files = compile_modules([spec]).files
    included = {m.decode() for d in files.values() for m in INCLUDE.findall(d)}
    assert included
    carried = {n.partition("include/")[2] for n in files if "/include/mlf/" in n}
    assert included <= carried
