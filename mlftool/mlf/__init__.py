"""The Model Library Format. Knows nothing of the compiler."""

from mlftool.mlf.bundle import (
    Bundle,
    check_folders,
    check_writable,
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
    "check_folders",
    "check_writable",
    "epoch",
    "make_folder",
    "read_tar",
    "refused",
    "tar_bytes",
    "write_atomically",
    "write_tar",
]
