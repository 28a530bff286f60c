#!/usr/bin/env python3
"""Faults while training: kills, signals, full disks and lost devices, at random moments.

Trains a small model again and again. Each run is hit by faults, and goes on with `--resume` after
each, until it is done. Then its weights must be those of a run that was never hit, byte for byte,
and its log must have the same epochs. After each fault every file must be whole, and nothing may
have panicked. A kill may leave a temporary file, which the end of the run must have deleted, and an
incomplete last line of the log, which the next line must have replaced: Linux cuts the write of a
process that is killed, at the end of a page. Nothing else may be in the folder.

    tests/soak/train.py [--tilec PATH] [--lost PATH] [--seconds 3600] [--seed N]

`--lost` is the test binary of `runtime/tests/lost.rs`, which destroys devices from within: the
`Executable` that `cargo test -p tile-runtime --test lost --no-run` names. Without it no device is
lost. A full disk is a tmpfs where this may mount one (root), else a limit on the size of files.
Prints what happened, and exits with 1 after the first thing that is wrong.
"""

import argparse
import collections
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = """
model M(X[N, 16]) -> (Y) { Y = X |> Dense(96, activation = tanh) |> Dropout(0.1) |> Dense(1); }
train M {
    loss = mse;
    optimizer = Adam(0.003);
    metrics = [MeanAbsoluteError(name = error)];
    batch_size = 8;
    epochs = 30;
}
"""
SAMPLES = 160
SAVED = {"w.safetensors", "best.npz", "log.jsonl"}
TEMPORARY = r"\.tilec-.*\.part"


class Wrong(Exception):
    """Something that must not happen."""


def data(path):
    """Writes samples, the same in each run."""
    numbers = random.Random(7)
    with open(path, "w") as file:
        file.write(",".join([f"x{i}" for i in range(16)] + ["y"]) + "\n")
        for _ in range(SAMPLES):
            x = [numbers.uniform(-1, 1) for _ in range(16)]
            file.write(",".join(f"{value:.6f}" for value in x + [sum(x[:4]) * x[5]]) + "\n")


def check_safetensors(path):
    """A safetensors file says how long it is."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    end = max(entry["data_offsets"][1] for entry in header.values())
    if 8 + length + end != len(content):
        raise Wrong(f"{path} is {len(content)} bytes long, and says {8 + length + end}")


def epochs(path, cut=None):
    """The epochs of a log without their times. `cut` is what a kill has left of it."""
    with open(path) as file:
        text = file.read()
    if text and not text.endswith("\n"):
        if text != cut:
            raise Wrong(f"{path} ends within a line")
        text = text[: text.rfind("\n") + 1]
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line.pop("seconds")
    return lines


def cut_by_kill(folder):
    """The content of a log if a kill has cut its last write, at the end of a page."""
    path = os.path.join(folder, "log.jsonl")
    if os.path.exists(path) and os.path.getsize(path) % os.sysconf("SC_PAGE_SIZE") == 0:
        with open(path) as file:
            return file.read()
    return None


def check(folder, allowed=TEMPORARY, cut=None):
    """Sees that every file is whole, but for a log that a kill has `cut`, and that the names of all
    others are allowed."""
    found = set(os.listdir(folder))
    left = sorted(name for name in found - SAVED if not re.fullmatch(allowed, name))
    if left:
        raise Wrong(f"left behind: {left}")
    if "w.safetensors" in found:
        check_safetensors(os.path.join(folder, "w.safetensors"))
    if "best.npz" in found:
        subprocess.run([sys.executable, "-m", "zipfile", "-t", os.path.join(folder, "best.npz")],
                       check=True, stdout=subprocess.DEVNULL)
    if "log.jsonl" in found:
        epochs(os.path.join(folder, "log.jsonl"), cut)


class Soak:
    def __init__(self, arguments, base):
        self.tilec, self.lost, self.base = arguments.tilec, arguments.lost, base
        self.random = random.Random(arguments.seed)
        self.counts = collections.Counter()
        self.program, self.data = os.path.join(base, "m.tile"), os.path.join(base, "d.csv")
        with open(self.program, "w") as file:
            file.write(PROGRAM)
        data(self.data)
        self.whole = os.path.join(base, "whole")
        os.mkdir(self.whole)
        started = time.monotonic()
        self.finish(self.start(self.whole), [0])
        self.duration = time.monotonic() - started
        with open(os.path.join(self.whole, "w.safetensors"), "rb") as file:
            self.weights = file.read()
        self.disk = self.mount()

    def mount(self):
        """A small disk, if there may be one: room for some copies of the weights."""
        disk = os.path.join(self.base, "disk")
        os.mkdir(disk)
        size = f"size={8 * len(self.weights)}"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], stderr=subprocess.DEVNULL)
        return disk if mounted.returncode == 0 else None

    def start(self, folder, limit=None):
        """Begins to train, or goes on where there is something to go on with."""
        path = lambda name: os.path.join(folder, name)
        line = [self.tilec, "train", self.program, "--data", self.data, "--validation", "0.2", "--device", "cpu"]
        line += ["--save", path("w.safetensors"), "--save-best", path("best.npz"), "--log", path("log.jsonl"), "-q"]
        if os.path.exists(path("w.safetensors")):
            line += ["--resume", path("w.safetensors")]
        limited = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
        environment = dict(os.environ, TILE_CACHE="")
        return subprocess.Popen(line, stderr=subprocess.PIPE, preexec_fn=limited, env=environment, text=True)

    def finish(self, process, codes):
        said = process.communicate(timeout=120)[1]
        if "panicked" in said or process.returncode not in codes:
            raise Wrong(f"exit code {process.returncode}, not in {codes}: {said}")
        return process.returncode, said

    def some_time(self):
        time.sleep(self.random.uniform(0, 0.7 * self.duration))

    def kill(self, folder):
        process = self.start(folder)
        self.some_time()
        process.kill()
        self.counts["kills"] += 1
        done = self.finish(process, [0, -signal.SIGKILL])[0] == 0
        self.cut = cut_by_kill(folder) or self.cut
        return done

    def interrupt(self, folder):
        process = self.start(folder)
        self.some_time()
        number = self.random.choice([signal.SIGINT, signal.SIGTERM])
        process.send_signal(number)
        self.counts["signals"] += 1
        # Before there is something to keep, the signal ends the process as any other.
        return self.finish(process, [0, 130, -number])[0] == 0

    def fill(self, folder):
        """Fills the disk for a while; or limits the size of files."""
        self.counts["full disks"] += 1
        if self.disk is None or folder != self.disk:
            process = self.start(folder, self.random.randrange(1, len(self.weights)))
            code, said = self.finish(process, [0, 3])
        else:
            process = self.start(folder)
            self.some_time()
            self.overfill()
            code, said = self.finish(process, [0, 3])
            check(folder, f"ballast|{TEMPORARY}", self.cut)
            os.remove(os.path.join(folder, "ballast"))
        if code == 3 and "cannot write" not in said:
            raise Wrong(f"a full disk is reported as: {said}")
        self.counts["full disks that ended a run"] += code == 3
        return code == 0

    def overfill(self):
        with open(os.path.join(self.disk, "ballast"), "wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def lose(self):
        rounds = 4
        environment = dict(os.environ, TILE_LOST_ROUNDS=str(rounds), TILE_CACHE="")
        run = subprocess.run([self.lost, "--nocapture"], env=environment, capture_output=True, text=True, timeout=600)
        if run.returncode != 0:
            raise Wrong(f"lost devices: {run.stdout}{run.stderr}")
        if "there is no adapter" not in run.stdout:
            self.counts["lost devices (inference)"] += rounds
            self.counts["lost devices (training)"] += rounds

    def run(self):
        """One run from beginning to end."""
        folder = self.disk if self.disk and self.random.random() < 0.4 else os.path.join(self.base, "run")
        shutil.rmtree(folder) if folder != self.disk and os.path.exists(folder) else None
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        fault = self.fill if folder == self.disk else self.kill
        self.cut = None
        for _ in range(200):
            hit = self.random.choice([self.kill, self.kill, self.interrupt, self.fill, fault])
            done = hit(folder)
            check(folder, cut=self.cut)
            if done:
                break
        self.finish(self.start(folder), [0])
        check(folder, allowed="")
        for name in ("w.safetensors", "best.npz"):
            with open(os.path.join(folder, name), "rb") as one, open(os.path.join(self.whole, name), "rb") as other:
                if one.read() != other.read():
                    raise Wrong(f"{name} is not that of a run without faults")
        if epochs(os.path.join(folder, "log.jsonl")) != epochs(os.path.join(self.whole, "log.jsonl")):
            raise Wrong("the log is not that of a run without faults")
        self.counts["runs"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", default="target/release/tilec")
    parser.add_argument("--lost", help="the test binary that destroys devices")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    base = tempfile.mkdtemp(prefix="tilec-soak-")
    until = time.monotonic() + arguments.seconds
    soak, wrong = None, None
    try:
        soak = Soak(arguments, base)
        while time.monotonic() < until:
            soak.run()
            if arguments.lost and soak.random.random() < 0.3 or soak.counts["runs"] == 1 and arguments.lost:
                soak.lose()
    except (Wrong, subprocess.SubprocessError, ValueError, OSError) as error:
        wrong = error
    finally:
        if soak and soak.disk:
            subprocess.run(["umount", soak.disk])
        shutil.rmtree(base, ignore_errors=True)
    counts = soak.counts if soak else {}
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) + f"; seed {arguments.seed}")
    if wrong:
        print(f"WRONG: {wrong}", file=sys.stderr)
    sys.exit(wrong is not None)


main()
