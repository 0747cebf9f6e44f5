"""The Model Library Format. Knows nothing of the compiler."""

from mlftool.mlf.bundle import Bundle, epoch, read_tar, tar_bytes, write_atomically, write_tar

__all__ = ["Bundle", "epoch", "read_tar", "tar_bytes", "write_atomically", "write_tar"]
