"""Makes einsum.txt: the results of NumPy's einsum.

    pip install numpy && python3 compiler/src/lower/tests/einsum.py

A line is `EQUATION; SHAPE of each operand; SHAPE of the result; its elements`.
Element n of operand k is (7n + 3k) mod 5 - 2.
"""

import pathlib

import numpy as np

CASES = [
    ("ab,bc->ac", [2, 3], [3, 4]),
    ("ab,bc", [2, 3], [3, 4]),
    ("ba,cb", [3, 2], [4, 3]),
    ("abc,cd->abd", [2, 3, 4], [4, 2]),
    ("abc,cde->abde", [2, 2, 3], [3, 2, 4]),
    ("bthd,bshd->bhts", [2, 3, 2, 4], [2, 5, 2, 4]),
    ("bhts,bshd->bthd", [2, 2, 3, 5], [2, 5, 2, 4]),
    ("...x,xy->...y", [2, 3, 4], [4, 2]),
    ("...x,xy->...y", [4], [4, 2]),
    ("x...,xy->y...", [4, 2, 3], [4, 2]),
    ("...ab,...bc->...ac", [2, 1, 2, 3], [4, 3, 2]),
    ("...ab,...bc", [5, 2, 3], [3, 2]),
    ("a...b->b...a", [2, 3, 4, 5]),
    ("...,...", [2, 3], [3]),
    ("ii->i", [4, 4]),
    ("ii", [4, 4]),
    ("ij,ij->", [3, 4], [3, 4]),
    ("i,j->ij", [3], [4]),
    ("ij->ji", [3, 4]),
    ("ijk->j", [2, 3, 4]),
    (" ij , jk -> ik ", [2, 3], [3, 2]),
    ("a,ab,b->", [3], [3, 4], [4]),
    ("ab,ac,ad->abcd", [2, 2], [2, 3], [2, 2]),
    (",a->a", [], [3]),
    ("Ab,bA->A", [2, 3], [3, 2]),
    ("ab,bc->ac", [2, 0], [0, 3]),
    ("ab,bc->ac", [2, 1], [3, 4]),
    ("ab,bc->ac", [2, 3], [1, 4]),
    ("ab,ab->", [1, 3], [2, 1]),
    ("ab,ab->ba", [1, 3], [2, 1]),
    ("ii,i->i", [1, 1], [3]),
    ("ii,i->i", [3, 3], [1]),
    ("iij,j->ij", [2, 2, 3], [1]),
    ("...ii->...i", [2, 3, 3]),
    ("a...,a...->...", [2, 1, 3], [1, 4, 1]),
    ("a,a->a", [1], [0]),
    ("a,a", [1], [5]),
    ("a,b,c,a,c->abc", [1], [2], [3], [2], [1]),
    (",->", [], []),
]


def text(numbers):
    return " ".join(map(str, numbers))


lines = []
for equation, *shapes in CASES:
    count = [int(np.prod(shape)) for shape in shapes]
    operands = [((7 * np.arange(n) + 3 * k) % 5 - 2).reshape(s) for k, (n, s) in enumerate(zip(count, shapes))]
    result = np.einsum(equation, *operands)
    lines.append("; ".join([equation, *map(text, shapes), text(result.shape), text(result.ravel())]))
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
