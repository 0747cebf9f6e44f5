"""Labels as messages have them."""

def shown(label):
    """A label as people write it.

    Args:
      label: a Label.

    Returns:
      string: from Bazel 6 on that of the main repository would be "@@//x".
    """
    text = str(label)
    return text.lstrip("@") if text.startswith(("@//", "@@//")) else text
