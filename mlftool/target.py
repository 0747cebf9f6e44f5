"""TVM's `tvm.target`, and `tvm.target.target`, which is the same here."""

from __future__ import annotations

import sys

from mlftool.api import Target
from mlftool.errors import ArgumentError, Problem, did_you_mean
from mlftool.moved import missing

# TVM's names of microcontrollers, and of the boards of its templates -> the target of their core.
MODELS = {
    "host": "host",
    **dict.fromkeys(("atsamd51", "cxd5602gg", "nrf52840", "stm32l4r5zi"), "cortex-m4"),
    **dict.fromkeys(("imxrt10xx", "stm32f746xx", "stm32h7xx"), "cortex-m7"),
    **dict.fromkeys(("mps2_an521", "nrf5340dk", "stm32u5xx"), "cortex-m33"),
    "mps3_an547": "cortex-m55",
    "rp2040": "cortex-m0",
    "sam3x8e": "cortex-m3",
}
BOARDS = {
    **dict.fromkeys(("b_u585i_iot02a", "mps2_an521", "nrf5340dk_nrf5340_cpuapp"), "cortex-m33"),
    **dict.fromkeys(("metrom4", "nano33ble", "nucleo_l4r5zi", "pybadge"), "cortex-m4"),
    **dict.fromkeys(("spresense", "wioterminal"), "cortex-m4"),
    **dict.fromkeys(("mimxrt1050_evk", "nucleo_f746zg", "portentah7"), "cortex-m7"),
    **dict.fromkeys(("stm32f746g_disco", "teensy40", "teensy41"), "cortex-m7"),
    "due": "cortex-m3",
    "mps3_an547": "cortex-m55",
    "qemu_riscv32": "rv32imc",
    "qemu_x86": "host",
    "rpipico": "cortex-m0",
}


def micro(model: str = "host", options: object = None) -> Target:
    """TVM's function: the target of a microcontroller. Raises ArgumentError for others, and for
    options, which are the target's here."""
    if model not in MODELS:
        text = f"no microcontroller '{model}' is known; name its core instead"
        hint = f"Target('cortex-m4') and so on; {did_you_mean(model, MODELS)}"
        raise ArgumentError(Problem("MLF0403", text, help=hint))
    if options:
        text = "micro takes no options here; write a target such as 'c -mcpu=cortex-m4'"
        raise ArgumentError(Problem("MLF0403", text))
    return Target(MODELS[model])


__all__ = ["Target", "micro"]
__getattr__ = missing(__name__, __all__)
target = sys.modules[f"{__name__}.target"] = sys.modules[__name__]
