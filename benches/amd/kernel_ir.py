"""Reads what `tilec --emit kernels,plan` writes: trip counts of loops, and the steps of a plan."""

import ast
import math
import re
from dataclasses import dataclass, field
from functools import lru_cache

# Invocations of a subgroup, as the driver chooses for compute shaders on all cards.
SUBGROUP = 64
# Unrolled loops around others have few turns.
MOST_COPIES = 8
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass
class For:
    bound: int
    step: int
    turns: int
    loops: list = field(default_factory=list)


@dataclass
class Kernel:
    name: str
    threads: int  # of a workgroup
    groups: int
    loops: list


def evaluate(text, known):
    """Returns the value of an integer expression, or None if it depends on what is not known."""

    def value(node):
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=axis):
                return known.get(f"{name}.{axis}")
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                if a is None or b is None:
                    return None
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.FloorDiv():
                        return a // b
                    case ast.Mod():
                        return a % b
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments):
                values = [value(argument) for argument in arguments]
                return None if None in values else {"min": min, "max": max}[name](values)
        return None

    try:
        return value(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return None


def read_kernel(text):
    """Returns the kernel of a listing. Bounds of loops are those of the first invocation of a
    workgroup in the middle of the grid, at the middle turn of the loops around."""
    head = re.match(r"kernel (\w+) workgroup\((\d+), (\d+), (\d+)\) grid\((\d+), (\d+), (\d+)\)", text)
    sizes = [int(size) for size in head.groups()[1:]]
    known = {f"local.{axis}": 0 for axis in "xyz"}
    known |= {f"workgroup.{axis}": size // 2 for axis, size in zip("xyz", sizes[3:])}
    threads, groups = math.prod(sizes[:3]), math.prod(sizes[3:])
    known |= {"subgroup.size": SUBGROUP, "subgroup.count": -(-threads // SUBGROUP)}
    root = []
    blocks = [root]
    for line in text.splitlines()[1:]:
        line = line.strip()
        if found := re.match(r"(?:let|var) (\w+) = (.*);", line):
            known[found[1]] = evaluate(found[2], known)
        elif found := re.match(r"(\w+) = ", line):
            known[found[1]] = None
        elif found := re.match(r"for (\w+) in (.+)\.\.(.+?)(?: step (\d+))? \{", line):
            start, bound, step = evaluate(found[2], known), evaluate(found[3], known), int(found[4] or 1)
            if start is None or bound is None:
                raise SystemExit(f"`{head[1]}`: the bounds of `{line}` are not known")
            turns = max(0, -(-(bound - start) // step))
            known[found[1]] = start + turns // 2 * step
            loop = For(bound, step, turns)
            blocks[-1].append(loop)
            blocks.append(loop.loops)
        elif line.startswith("if ") and line.endswith("{"):
            blocks.append(blocks[-1])
        elif line.startswith("}"):
            blocks.pop()
            if line.endswith("{"):
                blocks.append(blocks[-1])
    return Kernel(head[1], threads, groups, root)


def match_loops(compiled, loops):
    """Returns the loop of the kernel for each loop of machine code, by the latter's identity. The
    compiler keeps their order, and unrolls some: a loop around others gives copies of these. Of
    several ways it takes the one with most equal constants. None if there is no way."""
    by_number = {}

    def number(loop):
        by_number[id(loop)] = loop
        return id(loop)

    @lru_cache(maxsize=None)
    def best(codes, sources):
        if not codes:
            return 0, ()
        if not sources:
            return None
        source, code = by_number[sources[0]], by_number[codes[0]]
        children = tuple(number(loop) for loop in source.loops)
        ways = [best(codes, children * min(source.turns, MOST_COPIES) + sources[1:])]
        inside = best(tuple(number(loop) for loop in code.loops), children)
        after = best(codes[1:], sources[1:])
        if inside and after:
            fits = 2 * (source.bound in code.compared) + (source.step in code.added)
            pairs = ((codes[0], source), *inside[1], *after[1])
            ways.append((fits + inside[0] + after[0], pairs))
        return max((way for way in ways if way), key=lambda way: way[0], default=None)

    found = best(tuple(map(number, compiled.loops)), tuple(map(number, loops)))
    return dict(found[1]) if found else None


def quantity(text):
    """Returns `65.5 KB` or `1.6G` as a number."""
    number, unit = re.fullmatch(r"([\d.]+) ?([A-Z]*)", text).groups()
    return float(number) * UNITS[unit]


@dataclass
class Step:
    kernel: str
    launches: int  # a run; 0 if it is launched once for all runs
    bytes: float
    operations: float


def read_plan(text):
    """Returns the steps of a plan, in order."""
    steps, is_each, repeats = [], True, [(0, 1)]
    for line in text.partition("\nstep ")[2].splitlines()[1:]:
        depth = len(line) - len(line.lstrip())
        if line.startswith("once, "):
            is_each = False
        elif line.startswith("in each run"):
            is_each = True
        elif found := re.match(r" +(\d+) times", line):
            while repeats[-1][0] >= depth:
                repeats.pop()
            repeats.append((depth, repeats[-1][1] * int(found[1])))
        elif found := re.match(r" *\d+( +)\S", line):
            # A body's names are indented more than the heading of its loop.
            name = found.end() - 1
            while repeats[-1][0] >= name:
                repeats.pop()
            fields = re.split(r"\s{2,}", line[name:].strip())
            reads, writes, operations = map(quantity, fields[4:7])
            launches = repeats[-1][1] if is_each else 0
            steps.append(Step(fields[1], launches, reads + writes, operations))
    return steps
