"""What a misspelt word was meant to be."""

def _distance(a, b):
    """How many letters to put in, leave out, replace or swap with their neighbour make `b` of `a`."""
    rows = [list(range(len(b) + 1))]
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + cost)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]

def did_you_mean(word, known):
    """A question about the nearest of known words.

    Args:
      word: what was given, of any type.
      known: the words that there are; others than strings are left out.

    Returns:
      "; did you mean 'x'?", or "" if nothing is near: within a third of the letters.
    """
    if type(word) != "string" or len(word) > 64:
        return ""
    found = sorted([(_distance(word, one), one) for one in known if type(one) == "string"])
    if not found or found[0][0] * 3 > max(len(word), 3):
        return ""
    return "; did you mean '%s'?" % found[0][1]
