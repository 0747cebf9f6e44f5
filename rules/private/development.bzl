"""What the tests of mlftool itself need, and no workspace that uses it."""

load(":python_packages.bzl", "python_packages")

def development_repositories():
    """The packages that tests import; call it after mlf_dependencies()."""
    python_packages(name = "mlf_python_test", lock = Label("//:requirements-test.lock"), whole = True)
    python_packages(name = "mlf_python_remote", lock = Label("//:requirements-remote.lock"), whole = True)
