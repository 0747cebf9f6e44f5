"""What a model costs on a device, and where: figures for people and, as JSON, for scripts.

Nothing here changes what is compiled. A `Subject` is a module to look at, from a model, an archive
or a manifest; each other file answers one question about it.
"""
