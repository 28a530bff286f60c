#!/usr/bin/env python3
"""How fast tilec's cpu device writes with a GPT of GPT-2 small's size, beside the least time.

    cargo build --release && python3 benches/decode.py [--context 128 1024] [--rounds 3]

Each token reads every weight once, so that memory decides: the least time is the bytes of the weights, and of the keys
and values in the caches, over the bandwidth that `tilec bench` measures in the same process. The time of a token is the
difference between two runs, of which one writes 32 tokens more. The model is that of examples/models/gpt.tile, with 12
layers of 768 units, bytes as tokens, and initialised weights.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS, WIDTH, HEADS, VOCABULARY = 12, 768, 12, 256
PROMPT, FEWER, MORE = 8, 9, 41


def run(program, context, length):
    """A run that writes `length` tokens, as `tilec bench --json` describes it."""
    sizes = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": context, "length": length}
    settings = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    command = [program, "bench", str(ROOT / "examples/models/gpt.tile"), "--entry", "GptWriter", *settings]
    command += ["--shape", f"Prompt=i32:1x{PROMPT}", "--device", "cpu", "--iterations", "4", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", default=str(ROOT / "target/release/tilec"))
    parser.add_argument("--context", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| context | ms a token | GB a token | bandwidth, GB/s | of the least time |")
    print("|--:|--:|--:|--:|--:|")
    for context in options.context:
        times, bandwidths = [], []
        for _ in range(options.rounds):
            fewer, more = (run(options.tilec, context, length) for length in (FEWER, MORE))
            times.append((more["min_s"] - fewer["min_s"]) / (MORE - FEWER))
            bandwidths += [fewer["peak_gbs"], more["peak_gbs"]]
        weights = LAYERS * 12 * WIDTH * WIDTH + WIDTH * VOCABULARY
        caches = LAYERS * 2 * context * WIDTH
        gigabytes = 4 * (weights + caches) / 1e9
        seconds, bandwidth = statistics.median(times), statistics.median(bandwidths)
        ratio = seconds * bandwidth / gigabytes
        print(f"| {context} | {seconds * 1e3:.1f} | {gigabytes:.2f} | {bandwidth:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
