#!/usr/bin/env python3
"""GPU kernels by AMD's own compiler, without a GPU: what they issue, and the least time it takes.

    cargo build --release
    python3 benches/amd.py                                  # Markdown, all workloads on navi10
    python3 benches/amd.py --card polaris10,navi31 --models mobilenet,products
    python3 benches/amd.py --family                         # for the card's family, beside `generic`
    python3 benches/amd.py --check                          # fails if a kernel spills registers
    python3 benches/amd.py --self-test                      # the counting itself, without the compiler

The compiler is Mesa's RADV, from Debian's backports, fetched into target/amd by benches/amd/setup. It
compiles each kernel for the card and gives its machine code; nothing is run. The loops of the machine
code are matched with those of the kernel's listing, which give the turns. Code under a condition
counts as if it always ran.

Columns of a kernel: launches a run; workgroups of a launch, and how busy they keep the SIMDs if all
wait for the busiest; the share of multiply-adds in the issue slots of the hot loops; waves that a SIMD
holds; registers, and those that are spilled; bytes of code; predicted microseconds of all launches,
what limits them, and the share of the card's peak; microseconds lost.

The predicted time of a launch is the longest of: issue slots of the vector units, accesses to
workgroup memory, each for whole workgroups on the busiest compute unit, and bytes by the plan over
the bandwidth. Latencies, caches, bank conflicts and launches are left out, so that it is a least
time. The bound is the larger of operations / peak and bytes / bandwidth of a step; `lost` is the
predicted time beyond it.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "amd"))

from cards import CARDS  # noqa: E402
from kernel_ir import match_loops, read_kernel, read_plan  # noqa: E402
from machine_code import Counts, read  # noqa: E402

LONE, MODELS = "benches/amd/lone.tile", "examples/models"


def model(name, *options):
    return [name, f"{MODELS}/{name.removesuffix('-step')}.tile", *options]


def lone(name, entry, sizes="", settings="", **shapes):
    """Returns a workload of a function of lone.tile: sizes `M=1,K=2`, settings, and its shapes."""
    options = [f"--entry={entry}"]
    options += [f"--dim={size}" for size in sizes.split(",") if size]
    options += [f"--set={setting}" for setting in settings.split(",") if setting]
    return [name, LONE, *options, *(f"--shape={name}={shape}" for name, shape in shapes.items())]


def product(m, k, n):
    return lone(f"{m} x {k} x {n}", "product", f"M={m},K={k},N={n}")


def heads(places):
    return {name: f"1x{places}x8x64" for name in "QKV"}


IMAGE = ["--dim=N=1", "--dim=H=224", "--dim=W=224"]
SEQUENCE = ["--dim=N=1", "--dim=T=1024"]

# For each group its workloads: name, file and options of `tilec`.
WORKLOADS = {
    "mobilenet": [model("mobilenet", *IMAGE)],
    "resnet50": [model("resnet50", *IMAGE)],
    "vgg19": [model("vgg19", *IMAGE)],
    "transformer_encoder": [model("transformer_encoder", *SEQUENCE)],
    "gpt": [
        model("gpt", *SEQUENCE, "--set=context=1024"),
        ["gpt, writing", *model("gpt", "--entry=GptWriter", "--shape=Prompt=1x16")[1:]],
    ],
    "lstm_classifier": [model("lstm_classifier", "--dim=N=1", "--dim=T=200")],
    "unet": [model("unet", "--dim=N=1", "--dim=H=256", "--dim=W=256")],
    "dcgan": [
        model("dcgan"),
        ["dcgan, discriminating", *model("dcgan", "--entry=Discriminate", "--dim=N=16")[1:]],
    ],
    "mnist_mlp": [model("mnist_mlp", "--dim=N=32")],
    "mnist_cnn": [model("mnist_cnn", "--dim=N=128")],
    "mnist_mlp-step": [model("mnist_mlp-step", "--train", "--dim=N=32")],
    "mnist_cnn-step": [model("mnist_cnn-step", "--train", "--dim=N=128")],
    "products": [
        *(product(n, n, n) for n in (1024, 2048, 4096)),
        *(product(m, 4096, 4096) for m in (1, 2, 4, 8, 32)),
    ],
    "convolutions": [
        lone("1x1, 256 to 64", "Convolution", "", "filters=64,size=1", X="1x56x56x256"),
        lone("1x1, 512 to 512", "Convolution", "", "filters=512,size=1", X="1x14x14x512"),
        lone("3x3, 64", "Convolution", "", "filters=64,size=3", X="1x56x56x64"),
        lone("3x3, 256", "Convolution", "", "filters=256,size=3", X="1x14x14x256"),
        lone("3x3, 64, batch 16", "Convolution", "", "filters=64,size=3", X="16x56x56x64"),
        lone("3x3, 128, stride 2", "Convolution", "", "filters=128,size=3,strides=2", X="1x56x56x128"),
        lone("7x7, first, stride 2", "Convolution", "", "filters=64,size=7,strides=2", X="1x224x224x3"),
        lone("3x3, first, stride 2", "Convolution", "", "filters=32,size=3,strides=2", X="1x224x224x3"),
        lone("3x3, depthwise", "Depthwise", "", "size=3", X="1x56x56x128"),
        lone("5x5, depthwise, stride 2", "Depthwise", "", "size=5,strides=2", X="1x56x56x128"),
    ],
    "attentions": [lone(f"attention, {t} places", "attention", **heads(t)) for t in (256, 1024, 4096)],
    "reductions": [
        lone("sum of rows", "rows", X="8192x4096"),
        lone("sum of columns", "columns", X="8192x4096"),
        lone("sum of all", "everything", X="8192x4096"),
        lone("softmax of rows", "probabilities", X="8192x4096"),
    ],
}
CHECKED = ["mobilenet", "resnet50", "transformer_encoder", "mnist_cnn-step"]
# Kernels of these that are known to spill registers on navi10.
SPILLING = set()
# Number of kernels in the table of greatest losses.
LOSSES = 30


class Missing(Exception):
    """The compiler cannot be fetched."""


def compiler(folder):
    """Fetches AMD's compiler into `folder`, if it is not there."""
    if not (folder / "spvstat").exists():
        setup = subprocess.run([HERE / "amd/setup", folder], capture_output=True, text=True)
        if setup.returncode:
            raise Missing(setup.stderr.strip().splitlines()[-1] if setup.stderr else "setup failed")
    return folder


def machine_code(folder, card, kernels):
    """Returns what `spvstat -s` prints for files of SPIR-V."""
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(folder / "root/usr/lib/x86_64-linux-gnu"),
        "VK_ICD_FILENAMES": str(folder / "radv.json"),
        "MESA_SHADER_CACHE_DISABLE": "true",
        "RADV_FORCE_FAMILY": card,
    }
    command = [folder / "spvstat", "-s", *kernels]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"spvstat: {done.stderr.strip() or done.stdout[-500:]}")
    return done.stdout


def verify(compiled):
    """Fails if other numbers of vector instructions were read than the driver counts. Up to a tenth
    differs in kernels with f16, some of whose instructions the disassembler does not know."""
    issued, counted = int(compiled.statistics["VALU"]), static(compiled.program).vector
    if abs(issued - counted) > 1 + 0.1 * counted:
        raise SystemExit(f"`{compiled.name}`: {counted} vector instructions were read of {issued}")


def static(loop):
    """Returns the instructions of a loop, or program, each counted once."""
    total = Counts()
    total.add(loop.counts)
    for inner in loop.loops:
        total.add(static(inner))
    return total


def count(loop, sources, times=1):
    """Returns the instructions of a wave in a loop, or program, that is executed `times` times.
    `sources` has the kernel's loop of each loop."""
    total = Counts()
    total.add(loop.counts, times)
    for inner in loop.loops:
        total.add(count(inner, sources, times * sources[id(inner)].turns))
    return total


def share(program, sources, kernel):
    """Returns the share of multiply-adds in the issue slots of the hot loops: those with multiply-adds,
    or all code where the compiler unrolled these. None without multiply-adds."""
    hot = []
    for loop in program.loops:
        counts = count(loop, sources, sources[id(loop)].turns)
        if counts.fma:
            if not any(sources[id(loop)] is outer for outer in kernel.loops):
                hot = []
                break
            hot.append(counts)
    hot = hot or [count(program, sources)]
    slots, fma = (sum(getattr(counts, name) for counts in hot) for name in ("slots", "fma"))
    return fma / slots if fma else None


def predict(card, kernel, compiled, steps):
    """Returns the row of a kernel that is launched by `steps`, with the seconds of all launches."""
    sources = match_loops(compiled.program, kernel.loops)
    if sources is None:
        raise SystemExit(f"`{kernel.name}`: the loops of the machine code are not those of the kernel")
    total = count(compiled.program, sources)
    wave = int(compiled.statistics["subgroup"])
    waves = math.ceil(kernel.threads / wave)
    groups = math.ceil(kernel.groups / card.compute_units)  # of the busiest compute unit
    turns = math.ceil(groups * waves / card.simds)  # waves of its busiest SIMD
    vector = turns * card.clocks(total.slots, total.dual, wave) / card.clock
    shared = groups * waves * wave * total.shared_bytes / card.shared_rate / card.clock
    row = {
        "kernel": kernel.name,
        "launches": sum(step.launches for step in steps),
        "groups": kernel.groups,
        "busy": kernel.groups * waves / (turns * card.simds * card.compute_units),
        "fma_share": share(compiled.program, sources, kernel),
        "waves": int(compiled.statistics["Subgroups_per_SIMD"]),
        "vgprs": int(compiled.statistics["VGPRs"]),
        "spills": int(compiled.statistics["Spilled_VGPRs"]) + int(compiled.statistics["Spilled_SGPRs"]),
        "code": int(compiled.statistics["Code_size"]),
        "time": 0.0, "bound": 0.0, "operations": 0.0, "limit": "",
    }
    # A plan counts the operations on a row's values once for each product with them; no kernel issues
    # as many.
    peak = card.peak * (card.matrix_gain if total.matrices else 1)
    most = 2 * total.products * wave * waves * kernel.groups or math.inf
    longest = 0.0
    for step in steps:
        memory, operations = step.bytes / card.bandwidth, min(step.operations, most)
        time, limit = max((vector, "vector"), (shared, "shared"), (memory, "memory"))
        row["time"] += step.launches * time
        row["bound"] += step.launches * max(operations / peak, memory)
        row["operations"] += step.launches * operations
        if time > longest:
            longest, row["limit"] = time, limit
    return row


def compile_for(target, workload, tilec, to):
    """Compiles a workload for a target into the folder `to`. Returns its kernels by the names of
    their files, and its steps."""
    name, file, *options = workload
    command = [tilec, HERE.parent / file, *options, "--quiet", "--target", target]
    command += ["--emit", "spirv,kernels,plan", "-o", to]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    kernels = {path.stem: read_kernel(path.read_text()) for path in sorted(to.glob("*.kernel"))}
    (plan,) = to.glob("*.plan")
    return kernels, read_plan(plan.read_text())


def measure(workload, targets, folder, tilec):
    """Returns for each card the rows of a workload's kernels. `targets` has the target of each card."""
    rows = {}
    for target in sorted(set(targets.values())):
        with tempfile.TemporaryDirectory() as to:
            files = pathlib.Path(to)
            kernels, steps = compile_for(target, workload, tilec, files)
            for card in (card for card in targets if targets[card] == target):
                text = machine_code(folder, card, [files / f"{kernel}.spv" for kernel in kernels])
                rows[card] = []
                for compiled in read(text.splitlines(), CARDS[card].costs):
                    verify(compiled)
                    kernel = kernels[pathlib.Path(compiled.name).stem]
                    launched = [step for step in steps if step.kernel == kernel.name]
                    rows[card].append(predict(CARDS[card], kernel, compiled, launched))
    return rows


def table(rows, card):
    """Prints kernels that are launched in each run, the greatest loss first."""
    columns = "launches groups busy fma waves VGPRs spills code time limit peak lost".split()
    print(f"| kernel | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for row in sorted(rows, key=lambda row: row["bound"] - row["time"]):
        if row["launches"]:
            fma = "-" if row["fma_share"] is None else f"{row['fma_share']:.2f}"
            peak = row["operations"] / row["time"] / card.peak
            print(
                f"| {row['kernel']} | {row['launches']} | {row['groups']} | {row['busy']:.2f} | {fma} "
                f"| {row['waves']} | {row['vgprs']} | {row['spills']} | {row['code']} "
                f"| {row['time'] * 1e6:.1f} | {row['limit']} | {peak:.2f} "
                f"| {(row['time'] - row['bound']) * 1e6:.1f} |"
            )
    print()


def summary(measured):
    """Prints the sum of each workload: a list of names with rows."""
    print("| workload | time, µs | bound, µs | ratio | spilling kernels |")
    print("|---|--:|--:|--:|--:|")
    for name, rows in measured:
        time, bound, spilling = sums(rows)
        print(f"| {name} | {time * 1e6:.1f} | {bound * 1e6:.1f} | {time / bound:.2f} | {spilling} |")
    print()


def sums(rows):
    """Returns the time and the bound of kernels, and how many of them spill."""
    time, bound = (sum(row[key] for row in rows) for key in ("time", "bound"))
    return time, bound, sum(row["spills"] > 0 for row in rows)


def comparison(generic, family, target):
    """Prints the sum of each workload for `generic` and for a card's family."""
    print(f"| workload | generic, µs | ratio | {target}, µs | ratio | gain |")
    print("|---|--:|--:|--:|--:|--:|")
    for (name, rows), (_, others) in zip(generic, family):
        (time, bound, _), (other, other_bound, _) = sums(rows), sums(others)
        print(
            f"| {name} | {time * 1e6:.1f} | {time / bound:.2f} "
            f"| {other * 1e6:.1f} | {other / other_bound:.2f} | {time / other:.2f} |"
        )
    print()


def report(measured, card):
    """Prints all tables of a card, the kernels with the greatest losses last."""
    for name, rows in measured:
        print(f"### {name}\n")
        table(rows, card)
    print("### Sums\n")
    summary(measured)
    print("### Greatest losses\n")
    rows = [row | {"kernel": f"{name}: {row['kernel']}"} for name, rows in measured for row in rows]
    table(sorted(rows, key=lambda row: row["bound"] - row["time"])[:LOSSES], card)


def check(folder, tilec):
    """Returns 1 if the kernels of the checked workloads that spill registers on navi10 are not those
    that are known to."""
    spilling = set()
    for workload in (workload for group in CHECKED for workload in WORKLOADS[group]):
        rows = measure(workload, {"navi10": "generic"}, folder, tilec)["navi10"]
        print(f"{workload[0]}: {len(rows)} kernels")
        spilling |= {(workload[0], row["kernel"]) for row in rows if row["spills"]}
    for name, kernel in sorted(spilling - SPILLING):
        print(f"`{kernel}` of {name} spills registers", file=sys.stderr)
    for name, kernel in sorted(SPILLING - spilling):
        print(f"note: `{kernel}` of {name} does not spill any more: take it from the list")
    return int(not spilling <= SPILLING)


# The kernel of sample.s. Its inner loop has 4 turns in each of 5.
SAMPLE = """kernel c workgroup(128, 1, 1) grid(100, 2, 1) {
    let slice = local.x // 4 + workgroup.x % 1;
    if slice < 4 {
        for unrolled in slice..3 {
        }
    }
    for first in 0..80 step 16 {
        for k in slice..15 step 4 {
        }
    }
}
"""
PLAN = """plan c
step  value  kernel  type          in      reads   writes  operations     time  operands
once, and when weights change:
   0  A      a       f32[8]        kept      0 B    1.5 KB        1.3K  1.9 ns
in each run:
   1  B, C   b       f32[8], f32[2]  slot 0  2.5 MB    8 B           0  1.9 ns  A, B
      64 times, carrying H, C:
   2    D    c       f32[8]        carry    4 B    4 B           2.1M  1.9 ns  A
   3  E      c       f32[8]        output   1.0 GB  4 B           7  1.9 ns  A
"""


def self_test():
    """Compares all that is counted in sample.s, SAMPLE and PLAN with counts by hand."""
    kernel, card = read_kernel(SAMPLE), CARDS["navi10"]
    lines = (HERE / "amd/sample.s").read_text().splitlines()
    (compiled,) = read(lines, card.costs)
    verify(compiled)
    sources = match_loops(compiled.program, kernel.loops)
    once = {"vector": 10, "fma": 2, "products": 3, "slots": 14, "dual": 5, "scalar": 3}
    outer = {"vector": 2, "slots": 2, "shared_bytes": 16, "loads": 1, "scalar": 6}
    inner = {"vector": 6, "fma": 4, "products": 5, "slots": 6, "dual": 1}
    inner |= {"shared_reads": 2, "shared_bytes": 24, "scalar": 3}
    expected = Counts(**once)
    expected.add(Counts(**outer), 5)
    expected.add(Counts(**inner), 20)
    assert count(compiled.program, sources) == expected, count(compiled.program, sources)
    assert share(compiled.program, sources, kernel) == 20 * 4 / (20 * 6 + 5 * 2)
    # On GCN `v_exp_f32` and `v_fma_f32` take four slots each.
    (other,) = read(lines, CARDS["polaris10"].costs)
    assert other.program.counts.slots == 14 + 3 + 3, other.program.counts
    steps = [(step.kernel, step.launches, step.bytes, step.operations) for step in read_plan(PLAN)]
    each = [("b", 1, 2.5e6 + 8, 0), ("c", 64, 8, 2.1e6), ("c", 1, 1e9 + 4, 7)]
    assert steps == [("a", 0, 1.5e3, 1.3e3), *each], steps
    # 200 groups of 2 waves: 5 groups for each of 40 compute units, 5 waves for each of its SIMDs. A
    # wave accesses 5 * 16 + 20 * 24 bytes a lane, and a compute unit 128 bytes a clock.
    slots = 14 + 5 * 2 + 20 * 6
    shared, vector = 5 * 2 * 560 * 64 / 128, 5 * 2 * slots
    row = predict(card, kernel, compiled, read_plan(PLAN)[2:3])
    assert math.isclose(row["time"], 64 * shared / card.clock), row
    assert math.isclose(row["bound"], 64 * 2.1e6 / card.peak), row
    assert (row["limit"], row["busy"], row["launches"]) == ("shared", 1.0, 64), row
    row = predict(dataclasses.replace(card, shared_rate=1024), kernel, compiled, read_plan(PLAN)[2:3])
    assert math.isclose(row["time"], 64 * vector / card.clock) and row["limit"] == "vector", row
    assert math.isclose(card.peak, 9.75e12, rel_tol=1e-3), card.peak
    # In a wave of 64 on RDNA 3, 5 + 20 instructions take one clock instead of two.
    assert CARDS["navi31"].clocks(expected.slots, expected.dual, 64) == 2 * slots - 25


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--card", default="navi10", help=", ".join(CARDS))
    arguments.add_argument("--models", default=",".join(WORKLOADS), help=", ".join(WORKLOADS))
    arguments.add_argument("--setup", type=pathlib.Path, default=HERE.parent / "target/amd", metavar="FOLDER")
    arguments.add_argument("--tilec", default=HERE.parent / "target/release/tilec")
    arguments.add_argument("--family", action="store_true", help="compile for the family of each card, too")
    arguments.add_argument("--storage", metavar="TYPE", help="store tensors as f16, without the steps of training")
    arguments.add_argument("--weights-type", metavar="TYPE", help="store weights as int8, without the steps of training")
    arguments.add_argument("--json", action="store_true", help="a line for each kernel, card and workload")
    arguments.add_argument("--check", action="store_true", help="fail if a kernel spills registers")
    arguments.add_argument("--self-test", action="store_true", help="test the counting")
    given = arguments.parse_args()
    if given.self_test:
        self_test()
        return 0
    cards, groups = given.card.split(","), given.models.split(",")
    for names, known in [(cards, CARDS), (groups, WORKLOADS)]:
        unknown = [name for name in names if name not in known]
        if unknown:
            arguments.error(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        folder = compiler(given.setup.resolve())
    except Missing as reason:
        print(f"not run: AMD's compiler cannot be fetched: {reason}", file=sys.stderr)
        return 0 if given.check else 1
    if given.check:
        return check(folder, given.tilec)
    workloads = [workload for group in groups for workload in WORKLOADS[group]]
    narrow = ["--storage", given.storage] if given.storage else []
    narrow += ["--weights-type", given.weights_type] if given.weights_type else []
    if narrow:
        workloads = [(*workload, *narrow) for workload in workloads if "--train" not in workload]

    def measured(targets):
        return [(workload[0], measure(workload, targets, folder, given.tilec)) for workload in workloads]

    generic = measured({card: "generic" for card in cards})
    chosen = measured({card: CARDS[card].family for card in cards}) if given.family else generic
    for card in cards:
        if given.json:
            for name, rows in chosen:
                for row in rows[card]:
                    print(json.dumps({"workload": name, "card": card} | row))
            continue
        mesa = (folder / "version").read_text().strip()
        print(f"## {card} ({CARDS[card].name}), Mesa {mesa}\n")
        of_card = [(name, rows[card]) for name, rows in chosen]
        report(of_card, CARDS[card])
        if given.family:
            print("### By the family's profile\n")
            comparison([(name, rows[card]) for name, rows in generic], of_card, CARDS[card].family)
    return 0


if __name__ == "__main__":
    sys.exit(main())
