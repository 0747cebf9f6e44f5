"""Finds the packages, so that none can be forgotten; the rest is in pyproject.toml."""

from setuptools import find_packages, setup

# crt/ stays at the top level for C people; inside a wheel it travels as mlftool/_crt.
setup(
    packages=[*find_packages(include=["mlftool", "mlftool.*"]), "mlftool._crt"],
    package_dir={"mlftool": "mlftool", "mlftool._crt": "crt"},
)
