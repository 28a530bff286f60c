#!/usr/bin/env python3
"""How long whole networks take in tilec, ONNX Runtime and OpenVINO: the same ONNX file, in turn, on the cpu.

    pip install numpy onnx onnxruntime openvino onnxscript torch torchvision timm transformers
    cargo build --release && python3 benches/networks.py [--only TEXT…] [--batch 16] [--rounds 3]
    python3 benches/networks.py --where

The networks are those of torchvision (classification and segmentation), and others of timm and transformers,
with random weights. They are exported once, to a folder that later runs read (`--models`). The ratio is tilec's time to
that of the faster of the others, so 2.00 is twice as long; the error is the greatest difference from ONNX Runtime's result,
relative to its greatest value.

`--where` measures tilec's steps instead, and adds up over all networks the time that each kind of kernel takes beyond its
roofline: where most can be gained.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy

from operators import THREADS, median_of

SEGMENTATION = ["deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"]

TIMM = """beit_base_patch16_224 cait_xxs24_224 coat_tiny coatnet_0_rw_224 convmixer_768_32 cspdarknet53 davit_tiny deit_tiny_patch16_224 dla34
dpn68 edgenext_small efficientformer_l1 efficientvit_b0 eva02_tiny_patch14_224 fastvit_t8 focalnet_tiny_srf ghostnet_100 hardcorenas_a
hrnet_w18_small inception_next_tiny levit_128s maxxvit_rmlp_nano_rw_256 mixer_s16_224 mobilenetv4_conv_small mobileone_s0 mobilevit_xs
nfnet_l0 pit_ti_224 poolformer_s12 pvt_v2_b0 repvgg_a0 res2net50_14w_8s rexnet_100 selecsls42b tf_efficientnetv2_b0
tinynet_a twins_pcpvt_small vovnet39a xception41 xcit_nano_12_p16_224""".split()

# Classes of transformers, and the options of their configurations where these are not the class's own.
TRANSFORMERS = {
    "bert": ("BertModel", {"num_hidden_layers": 6}),
    "distilbert": ("DistilBertModel", {}),
    "albert": ("AlbertModel", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    "electra": ("ElectraModel", {}),
    "mobilebert": ("MobileBertModel", {}),
    "squeezebert": ("SqueezeBertModel", {}),
    "gpt2": ("GPT2LMHeadModel", {"use_cache": False}),
    "llama": ("LlamaForCausalLM", {"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "num_key_value_heads": 4, "intermediate_size": 2048, "use_cache": False}),
}
TOKENS = 128


def torchvision_names():
    import torchvision

    return torchvision.models.list_models(module=torchvision.models) + SEGMENTATION


def module_of(name, batch):
    """The network as a PyTorch module, and an input for it."""
    import torch

    module, example = make_module(name, batch)
    # Weights that start as zeros, as torchvision's last layers do, would hide errors.
    for weights in module.parameters():
        if not weights.any():
            torch.nn.init.normal_(weights, std=0.02)
    return module, example


def make_module(name, batch):
    import torch

    library, _, model = name.partition("/")
    torch.manual_seed(1)
    if library == "transformers":
        import transformers

        kind, options = TRANSFORMERS[model]
        kind = getattr(transformers, kind)
        return kind(kind.config_class(**options)), torch.randint(0, 1000, (batch, TOKENS))
    if library == "timm":
        import timm

        module = timm.create_model(model, pretrained=False)
        return module, torch.rand(batch, *module.default_cfg["input_size"])
    import torchvision

    options = {"weights_backbone": None} if model in SEGMENTATION else {}
    module = torchvision.models.get_model(model, weights=None, **options)
    size = 299 if model == "inception_v3" else 224
    return module, torch.rand(batch, 3, size, size)


def export(name, batch, file):
    """Writes the ONNX file of a network, and its input beside it."""
    import torch

    module, example = module_of(name, batch)
    torch.onnx.export(module.eval(), (example,), file, input_names=["x"], dynamo=True, external_data=False, verbose=False)
    numpy.save(file.with_suffix(".npy"), example.numpy())


def onnx_runtime(file, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def openvino(file, x):
    import openvino

    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(file, "CPU", options).create_infer_request()
    return lambda: request.infer({"x": x}, share_inputs=True, share_outputs=True)


RIVALS = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino}


def rival_time(name, file):
    """The seconds that a run takes in another runtime, in a process of its own; none if it can't run the file."""
    made = subprocess.run([sys.executable, __file__, "--rival", name, str(file)], capture_output=True, text=True)
    return float(made.stdout.splitlines()[-1]) if made.returncode == 0 else None


def run_tilec(program, command, file, *options):
    arguments = [program, command, str(file), "--device", "cpu", "--input", f"x={file.with_suffix('.npy')}", *options]
    made = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
    if made.returncode:
        raise RuntimeError((made.stderr.strip().splitlines() or [f"exit code {made.returncode}"])[0])
    return made.stdout


def error_of(program, file):
    """The greatest difference of our first output from ONNX Runtime's, relative to its greatest value."""
    expected = onnx_runtime(str(file), numpy.load(file.with_suffix(".npy")))()
    with tempfile.TemporaryDirectory() as folder:
        run_tilec(program, "run", file, "--output-dir", folder)
        import onnx

        name = onnx.load(file, load_external_data=False).graph.output[0].name
        ours = numpy.load(pathlib.Path(folder) / (re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy"))
    return float(abs(ours - expected).max() / abs(expected).max())


def exported(name, arguments):
    """The file of a network, exported now if it was not before."""
    file = arguments.models / f"{name.replace('/', '_')}_{arguments.batch}.onnx"
    if not file.with_suffix(".npy").exists():
        command = [sys.executable, __file__, "--export", name, "--batch", str(arguments.batch), "--models", str(arguments.models)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError("not exported: " + (made.stderr.strip().splitlines() or ["no reason"])[-1][:160])
    return file


def compare(name, arguments):
    """A line of the table, and the ratio."""
    file = exported(name, arguments)
    error = error_of(arguments.tilec, file)
    times = collections.defaultdict(list)
    for _ in range(arguments.rounds):
        measured = json.loads(run_tilec(arguments.tilec, "bench", file, "--json").splitlines()[-1])
        times["tilec"].append(measured["median_s"])
        for rival in RIVALS:
            seconds = rival_time(rival, file)
            if seconds is not None:
                times[rival].append(seconds)
    ours, *others = (statistics.median(times[who]) if times[who] else None for who in ["tilec", *RIVALS])
    if not any(others):
        raise RuntimeError("neither of the others runs it")
    ratio = ours / min(filter(None, others))
    shown = " | ".join("-" if t is None else f"{t * 1e3:.2f}" for t in [ours, *others])
    return f"| {name} | {shown} | {ratio:.2f} | {error:.0e} |", ratio


def kind_of(kernel):
    """The kind of a kernel: its name without the number that tells it from others."""
    return re.sub(r"(_\d+)+$", "", kernel)


def where(names, arguments):
    """Prints the kinds of kernels by the time that they take beyond their roofline, over all networks, a run of each."""
    lost, taken, networks, total = collections.Counter(), collections.Counter(), collections.defaultdict(set), 0
    for name in names:
        try:
            lines = run_tilec(arguments.tilec, "bench", exported(name, arguments), "--json", "--profile").splitlines()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"not measured: {name}: {error}", flush=True)
            continue
        steps = [step for step in map(json.loads, lines) if "step" in step]
        # Each network counts as much as any other, whatever time it takes.
        whole = sum(step["time_s"] for step in steps)
        total += 1
        for step in steps:
            kind, share = kind_of(step["kernel"]), step["time_s"] / whole
            taken[kind] += share
            lost[kind] += share * (1 - min(step["share_of_roofline"] or 0, 1))
            networks[kind].add(name)
    print(f"{total} networks: {sum(lost.values()) / total:.0%} of the time is beyond the roofline\n")
    print("| kernels | networks | of the time | beyond the roofline |\n|---|--:|--:|--:|")
    for kind, share in lost.most_common(arguments.top):
        print(f"| {kind} | {len(networks[kind])} | {taken[kind] / total:.1%} | {share / total:.1%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", default="target/release/tilec")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("target/networks"), help="the folder of the exported files")
    parser.add_argument("--only", nargs="+", help="networks whose name has one of these texts")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--where", action="store_true", help="the kinds of steps that lose most time against their roofline")
    parser.add_argument("--top", type=int, default=40, help="how many kinds `--where` prints")
    parser.add_argument("--list", action="store_true", help="print the networks' names")
    parser.add_argument("--export", help=argparse.SUPPRESS)
    parser.add_argument("--rival", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    if arguments.export:
        return export(arguments.export, arguments.batch, arguments.models / f"{arguments.export.replace('/', '_')}_{arguments.batch}.onnx")
    if arguments.rival:
        name, file = arguments.rival
        x = numpy.load(pathlib.Path(file).with_suffix(".npy"))
        return print(median_of(RIVALS[name](file, x), seconds=1.5))
    names = [f"torchvision/{name}" for name in torchvision_names()] + [f"timm/{name}" for name in TIMM] + [f"transformers/{name}" for name in TRANSFORMERS]
    names = [name for name in names if not arguments.only or any(text in name for text in arguments.only)]
    if arguments.list:
        return print("\n".join(names))
    if arguments.where:
        return where(names, arguments)
    print(f"| network, batch {arguments.batch} | tilec | {' | '.join(RIVALS)} | ratio | error |\n|---|--:|{'--:|' * len(RIVALS)}--:|--:|", flush=True)
    ratios, failures = [], []
    for name in names:
        try:
            line, ratio = compare(name, arguments)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failures.append(f"{name}: {error}")
            continue
        print(line, flush=True)
        ratios.append(ratio)
    if ratios:
        print(f"\n{len(ratios)} networks: geometric mean {statistics.geometric_mean(ratios):.2f}; {sum(r > 1.2 for r in ratios)} over 1.2")
    for failure in failures:
        print(f"not measured: {failure}")


if __name__ == "__main__":
    main()
