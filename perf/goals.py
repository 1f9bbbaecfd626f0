"""Prints figures beside their goals."""

from __future__ import annotations


def verdict(
    what: str, measured: float, goal: float, unit: str, *, at_least: bool = False, digits: int = 2
) -> bool:
    """Print a figure beside its goal, and return whether it is met.

    Args:
        what: the figure's name.
        measured, goal: in `unit`.
        unit: behind both.
        at_least: the goal is the least that is wanted; else the most.
        digits: behind the point.
    """
    met = measured >= goal if at_least else measured <= goal
    sign = "≥" if at_least else "≤"
    print(
        f"{what}: {measured:,.{digits}f} {unit}, goal {sign} {goal:,.{digits}f}, "
        f"ratio {measured / goal:.2f}: {'met' if met else 'MISSED'}"
    )
    return met
