"""Reads what `spvstat -s` prints: statistics and machine code of kernels, as trees of loops."""

import re
from dataclasses import dataclass, field

# A multiply-add of floats; one instruction that does two is one issue slot.
MULTIPLY_ADD = re.compile(r"v_(dual_|pk_)?(fma|fmac|mac|mad|fmaak|fmamk|madak|madmk|dot\d\w*)(_\w+)?_f(16|32|64)(?!\d)")
# Of the two halves of a dual instruction, the second.
SECOND = re.compile(r":: (v_dual_\w+)")
# A wave of 64 on RDNA 3 issues these at once instead of in two halves.
DUAL = re.compile(r"v_(fma|fmac|fmaak|fmamk|mul|add|sub|subrev|max|min)_f(16|32)|v_(mov|cndmask)_b32")
SHARED = re.compile(r"ds_(read|load|write|store)_?(2?)\w*?_[biu](\d+)")
BRANCH = re.compile(r"s_c?branch\w* (BB\d+)")
REPEATED = re.compile(r"\(then repeated (\d+) times\)")
# A vector instruction that the disassembler does not know, by the first bits of its code.
UNKNOWN = re.compile(r"\(invalid instruction\)")
NUMBER = re.compile(r"(?<![\w\[:.])-?(?:0x[0-9a-f]+|\d+)\b(?![:.\]])")


@dataclass
class Counts:
    """Instructions of a wave. `slots` are issue slots of a vector unit, of which `fma` are
    multiply-adds and `dual` can be issued at double rate."""

    vector: float = 0
    fma: float = 0
    products: float = 0  # multiply-adds of a lane: two in some instructions
    slots: float = 0
    matrices: float = 0  # products of matrices
    dual: float = 0
    shared_reads: float = 0
    shared_bytes: float = 0  # of one lane, read and written
    loads: float = 0
    scalar: float = 0

    def add(self, other, times=1):
        for name in vars(self):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


@dataclass
class Loop:
    """A loop, or the whole program. `counts` are of the code outside the loops in it."""

    start: int
    end: int
    counts: Counts = field(default_factory=Counts)
    loops: list = field(default_factory=list)
    # Constants that comparisons and additions directly in the loop have.
    compared: set = field(default_factory=set)
    added: set = field(default_factory=set)


@dataclass
class Compiled:
    name: str
    statistics: dict
    program: Loop


def instruction(text, counts, costs):
    """Adds an instruction to `counts`. `costs` has the patterns of those with several slots."""
    if text.startswith("v_") or UNKNOWN.match(text):
        cost = next((slots for pattern, slots in costs if pattern.match(text)), 1)
        second = SECOND.search(text)
        products = [MULTIPLY_ADD.match(half) for half in [text, *(second.groups() if second else ())]]
        counts.vector += 1
        counts.slots += cost
        if text.startswith("v_wmma"):
            # 16 x 16 x 16 products by 64 lanes.
            counts.matrices += 1
            counts.fma += cost
            counts.products += 16**3 // 64
            return
        counts.fma += any(products)
        counts.products += sum(map(bool, products)) * (2 if text.startswith("v_pk_") else 1)
        counts.dual += bool(DUAL.match(text))
    elif text.startswith("ds_"):
        found = SHARED.match(text)
        size = int(found[3]) // 8 * (2 if found[2] else 1) if found else 4
        counts.shared_reads += text.startswith(("ds_read", "ds_load"))
        counts.shared_bytes += max(size, 4)
    elif re.match(r"(buffer|global)_load", text):
        counts.loads += 1
    elif text.startswith("s_") and not text.startswith(("s_waitcnt", "s_clause", "s_delay", "s_nop")):
        counts.scalar += 1


def program(code, costs):
    """Returns the tree of loops of a list of instructions and labels."""
    labels, instructions, ends = {}, [], {}
    for text in code:
        label = re.match(r"(BB\d+):", text)
        if label:
            labels[label[1]] = len(instructions)
        else:
            branch = BRANCH.match(text)
            if branch and branch[1] in labels:
                ends[labels[branch[1]]] = len(instructions)
            instructions.append(text)
    root = Loop(0, len(instructions) - 1)
    open_loops = [root]
    for at, text in enumerate(instructions):
        while at > open_loops[-1].end:
            open_loops.pop()
        if at in ends:
            loop = Loop(at, ends[at])
            open_loops[-1].loops.append(loop)
            open_loops.append(loop)
        loop = open_loops[-1]
        instruction(text, loop.counts, costs)
        operands = text.partition(" ")[2]
        # `s_addk_i32 s0, 0x10`, `v_cmp_gt_u32 vcc, 0x310, v1`.
        for name, found in [("_cmp", loop.compared), ("_add", loop.added), ("_sub", loop.added)]:
            if name in text.split(" ")[0]:
                found.update(int(number, 0) for number in NUMBER.findall(operands))
    return root


def read(lines, costs):
    """Yields the kernels of the output of `spvstat -s` for a card with these costs."""
    name, statistics, code, is_code = None, {}, [], False
    for line in [*lines, "end.spv "]:
        if re.match(r"\S+\.spv[ :]", line):
            if code:
                yield Compiled(name, statistics, program(code, costs))
            if "not compiled" in line:
                raise SystemExit(line)
            name, *fields = line.split()
            statistics = dict(field.split("=", 1) for field in fields)
            code, is_code = [], False
        elif line.startswith("---- "):
            is_code = "Assembly" in line
        elif is_code and (text := line.split(";")[0].strip()):
            repeated = REPEATED.match(text)
            code += [code[-1]] * int(repeated[1]) if repeated else [text]
