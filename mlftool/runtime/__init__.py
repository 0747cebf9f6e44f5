"""Running archives: on this computer, on simulated boards, and comparing what they give.

Everything here starts from a Bundle (mlftool.mlf) and real C compilers; the model compiler is never
imported, so an archive that somebody else made runs the same way.
"""
