"""The processors we compile for, as mlftool.targets and the folders of crt/boards describe them.

Nothing is written twice: Python reads them for the repository @mlf_system.
"""

load("@mlf_system//:machines.bzl", "BOARDS", "SIMULATORS", "TARGETS")
load(":words.bzl", "did_you_mean")

# Targets with a cross compiler, a row each; `board` is the folder under crt/boards of the board that runs
# them, if any.
CPUS = {
    name: struct(board = row["board"], flags = row["flags"], toolchain = row["toolchain"])
    for name, row in TARGETS.items()
    if row["toolchain"]
}

# Targets that are the machine Bazel runs on, with what gcc must be told more.
HOSTS = {name: row["flags"] for name, row in TARGETS.items() if not row["toolchain"]}

def missing_simulator(command):
    """How to install what runs programs of a board, if it is missing.

    Args:
      command: list of strings, the simulator and its arguments. Of one we do not know nothing is said.

    Returns:
      A command line, or "".
    """
    simulator = SIMULATORS.get(command[0])
    return "" if not simulator or simulator["path"] else simulator["install"]

def simulator_of(cpu):
    """What runs programs of the board that we have for a processor.

    Args:
      cpu: the name of a target or of a board of ours.

    Returns:
      list of strings, empty if no board of ours has it.
    """
    board = BOARDS.get(TARGETS[cpu]["board"] if cpu in TARGETS else cpu)
    return board["simulator"] if board else []

def is_bare(target):
    """Whether programs of a target run without an operating system.

    Args:
      target: the name of a target.

    Returns:
      bool.
    """
    return target in CPUS and "".join(simulator_of(target)[:1]).startswith("qemu-system-")

def condition(label):
    """A label of ours as `select` takes it in any package.

    Args:
      label: a Label.

    Returns:
      string.
    """
    text = str(label)

    # Of our main repository Bazel 4 leaves the name out, and the caller may be another.
    return "@" + text if text.startswith("//") else text

def device_of(target, where = "target"):
    """The processor that a target means, which TVM's strings name by -mcpu or -march.

    Args:
      target: as `mlftool compile --target` takes it.
      where: for messages: the label or name, and the attribute.

    Returns:
      A key of CPUS or HOSTS, or "" for one that is told by its triple only.
    """
    words = target.split(" ")
    named = [w.rpartition("=")[2] for w in words if w.startswith("-mcpu=") or w.startswith("-march=")]
    if not named and words[0] in ["c", "llvm"]:
        named = [""] if [w for w in words if w.startswith("-mtriple=")] else ["host"]
    device = named[0] if named else target or "host"
    if device and not (device in CPUS or device in HOSTS):
        known = ", ".join(sorted(HOSTS) + sorted(CPUS))
        fail("%s: got '%s', expected one of %s, or TVM's words for one, such as 'llvm -mcpu=cortex-m4'%s" %
             (where, target, known, did_you_mean(target, list(HOSTS) + list(CPUS))))
    return device
