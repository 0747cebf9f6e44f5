"""Requantisation: from sums to stored values, with the bits of the node's rounding, in the fewest
instructions that a core has for it."""
