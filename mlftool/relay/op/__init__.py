"""TVM's `tvm.relay.op`, of which only `contrib` is here."""

from mlftool.moved import missing
from mlftool.relay.op import contrib

__all__ = ["contrib"]
__getattr__ = missing(__name__, __all__)
