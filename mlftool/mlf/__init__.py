"""The Model Library Format. Knows nothing of the compiler."""

from mlftool.mlf.bundle import (
    Bundle,
    epoch,
    make_folder,
    read_tar,
    refused,
    tar_bytes,
    write_atomically,
    write_tar,
)

__all__ = [
    "Bundle",
    "epoch",
    "make_folder",
    "read_tar",
    "refused",
    "tar_bytes",
    "write_atomically",
    "write_tar",
]
