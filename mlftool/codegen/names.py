"""Identifiers and comments made from untrusted names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mlftool.errors import MlfError, Problem
from mlftool.keywords import KEYWORDS

# Names that the standard headers of glibc and newlib define as macros: a struct member of that name
# would be replaced when a program includes them first.
_MACROS = """
    BIG_ENDIAN BUFSIZ BYTE_ORDER CHAR_BIT CLK_TCK CLOCKS_PER_SEC E2BIG EACCES EADDRINUSE
    EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR EBADRQC
    EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET
    EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EFTYPE EHOSTDOWN
    EHOSTUNREACH EHWPOISON EIDRM EILSEQ EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM
    EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC
    ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE EMULTIHOP ENAMETOOLONG
    ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV ENOENT
    ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR
    ENOSTR ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM ENOTRECOVERABLE ENOTSOCK ENOTSUP
    ENOTTY ENOTUNIQ ENXIO EOF EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO
    EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN
    ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME ETIMEDOUT ETOOMANYREFS ETXTBSY
    EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL EXIT_FAILURE EXIT_SUCCESS FD_SETSIZE
    HAVE_INITFINI_ARRAY I INFINITY LITTLE_ENDIAN L_ctermid L_tmpnam MATH_ERREXCEPT MATH_ERRNO
    MAXFLOAT MAX_CANON MAX_INPUT MINSIGSTKSZ NAN NFDBITS NGREG NSIG NULL PDP_ENDIAN PIPE_BUF
    PTHREAD_DESTRUCTOR_ITERATIONS P_tmpdir TIME_UTC WCONTINUED WEOF WEXITED WNOHANG WNOWAIT
    WSTOPPED WUNTRACED arm complex errno fd_set i386 imaginary linux math_errhandling
    noreturn physadr quad signgam stderr stdin stdout strtodf tzname unix
"""
MACROS = frozenset(_MACROS.split())
# A function of this name is the program's own.
RESERVED = KEYWORDS | {"main"}
MACRO_FORMS = re.compile(
    r"(PRI|SCN)[dioxuX]\w+|U?INT\w*_C|SIG[A-Z0-9]+|si_\w+|sa_\w+|st_[acm]time|sigev_notify_\w+"
    r"|(BUS|CLD|CLOCK|DBL|DEC\d+|DECIMAL|FE|FLT\d*X?|FP|FPE|HUGE|ILL|LC|LDBL|M|MLF|POLL|PTHREAD)_\w+"
    r"|(SA|SCHED|SEEK|SEGV|SI|SIGEV|SIG|SS|TIMER|TRAP|U?INT|WINT)_\w+"
    r"|[A-Z0-9_]+_(MAX|MIN|BIT|WIDTH)"
    # Reserved by compilers and C libraries; the rest of _[A-Z] is PyTorch's "/Add".
    r"|__\w*|_[A-Z][A-Z0-9_]*|_(Complex_I|Mdouble_complex_|Kmax|Non[nN]ull|Null_unspecified|Nullable)"
    r"|_(Accum|Alignas|Alignof|Atomic|Decimal\d+|Float\d+x?|Fract|Generic|Noreturn|Pragma|Sat)"
    r"|_(Static_assert|Thread_local)"
)


def sanitise(name: str) -> str:
    """TVM's rule: every character that is not an ASCII letter or digit becomes `_`."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def member_names(names: Iterable[str]) -> dict[str, str]:
    """A C identifier for each tensor name, different from the others even in upper case."""
    result: dict[str, str] = {}
    taken = {"WORKSPACE"}  # TVMGEN_<MODULE>_WORKSPACE_SIZE is the arena's
    for name in names:
        base = sanitise(name)[:64] or "_"
        if base[0].isdigit():
            base = "_" + base
        elif base in RESERVED or base in MACROS or MACRO_FORMS.fullmatch(base):
            base = "t_" + base if base[0] == "_" else base + "_"
        c_name, k = base, 1
        while c_name.upper() in taken:
            c_name = f"{base}_{k}"
            k += 1
        taken.add(c_name.upper())
        result[name] = c_name
    return result


def parameter(member: str) -> str:
    """The parameter for a tensor, TVM's way: the suffix keeps it apart from our own names."""
    return f"{member}_buffer_var"


def comment(text: str, limit: int = 72) -> str:
    """`text` made safe for a C comment: it cannot start or end one, has one line, and is bounded;
    the slashes of names such as /features/0/Conv stay."""
    safe = re.sub(r"[^A-Za-z0-9 _.,:;()\[\]<>=+/-]", "_", text).replace("//", "/_")
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."


def module_name_of(file: Path) -> str:
    """The default module name of a model: its file's name, as far as C allows it."""
    name = sanitise(file.stem).lower()[:64]
    return "_" + name[:63] if not name or name[0].isdigit() else name


def check_module_name(name: str) -> None:
    """Module names are part of every C symbol. Raises MlfError for invalid ones."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name):
        raise MlfError(
            Problem(
                "MLF0404",
                f"module name '{str(name)[:100]}'; expected lower-case letters, "
                "digits and _, at most 64, not starting with a digit",
            )
        )
