"""Running archives: on this computer, on simulated boards, and comparing what they give.

Everything here starts from a Bundle (mlftool.mlf) and real C compilers; the model compiler is never
imported, so an archive made by another tool runs the same way.
"""
