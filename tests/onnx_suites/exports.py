#!/usr/bin/env python3
"""Exports of well-known networks with random weights, by PyTorch's two exporters, to models/.

usage: exports.py [--folder models] [NAME...]
NAME.onnx is what the older exporter makes (dynamo=False), NAME_dynamo.onnx what the newer one does. NAME.input.npz has the inputs by their
names, and NAME.output.npz what ONNX Runtime makes of them. For each the operators with their counts, and the opset, are printed.
"""

import argparse, collections, contextlib, io, os, warnings

warnings.filterwarnings("ignore")
import numpy as np, onnx, onnxruntime, torch, torchvision, transformers

transformers.logging.set_verbosity_error()
onnxruntime.set_default_logger_severity(3)
# One operator for all of an attention, which the older exporter does not have.
torch.backends.mha.set_fastpath_enabled(False)


class LstmClassifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 64)
        self.lstm = torch.nn.LSTM(64, 128, num_layers=2, batch_first=True, bidirectional=True)
        self.classifier = torch.nn.Linear(256, 10)

    def forward(self, input_ids):
        outputs, _ = self.lstm(self.embedding(input_ids))
        return self.classifier(outputs.mean(dim=1))


class Logits(torch.nn.Module):
    """A network of transformers that gives its logits alone."""

    def __init__(self, network, names):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *inputs):
        return self.network(**dict(zip(self.names, inputs)), use_cache=False).logits


class BertLogits(Logits):
    def forward(self, *inputs):
        return self.network(**dict(zip(self.names, inputs))).logits


def picture(name):
    def make():
        network = getattr(torchvision.models, name)(weights=None)
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
            # A vision transformer begins with a head of zeros.
            if isinstance(module, torch.nn.Linear) and not module.weight.any():
                torch.nn.init.normal_(module.weight, std=0.05)
        return network, {"image": torch.randn(1, 3, 224, 224)}

    return make


def bert():
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        num_labels=4,
        max_position_embeddings=128,
        attn_implementation="eager",
    )
    mask = torch.ones(2, 32, dtype=torch.int64)
    mask[1, 20:] = 0
    inputs = {
        "input_ids": torch.randint(0, 1000, (2, 32)),
        "attention_mask": mask,
        "token_type_ids": (torch.arange(32) > 15).long().repeat(2, 1),
    }
    return BertLogits(transformers.BertForSequenceClassification(config), list(inputs)), inputs


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=1000,
        n_embd=128,
        n_layer=2,
        n_head=2,
        n_positions=128,
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=0,
    )
    # Without a mask transformers looks for packed sequences, with an operator that the older exporter does not have.
    inputs = {"input_ids": torch.randint(0, 1000, (1, 32)), "attention_mask": torch.ones(1, 32, dtype=torch.int64)}
    return Logits(transformers.GPT2LMHeadModel(config), list(inputs)), inputs


def lstm():
    return LstmClassifier(), {"input_ids": torch.randint(0, 1000, (2, 40))}


NETWORKS = {
    "mobilenet_v2": picture("mobilenet_v2"),
    "mobilenet_v3_small": picture("mobilenet_v3_small"),
    "efficientnet_b0": picture("efficientnet_b0"),
    "resnet50": picture("resnet50"),
    "vit_b_16": picture("vit_b_16"),
    "bert_tiny": bert,
    "gpt2_tiny": gpt2,
    "lstm_classifier": lstm,
}


def export(name, folder, dynamo):
    torch.manual_seed(0)
    network, inputs = NETWORKS[name]()
    network.eval()
    path = f"{folder}/{name}{'_dynamo' if dynamo else ''}"
    options = dict(external_data=False, verbose=False) if dynamo else {}
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        expected = network(*inputs.values()).numpy()
        torch.onnx.export(
            network,
            tuple(inputs.values()),
            f"{path}.onnx",
            input_names=list(inputs),
            output_names=["output"],
            dynamo=dynamo,
            **options,
        )
    arrays = {key: value.numpy() for key, value in inputs.items()}
    session = onnxruntime.InferenceSession(f"{path}.onnx", providers=["CPUExecutionProvider"])
    kept = {i.name for i in session.get_inputs()}
    arrays = {key: value for key, value in arrays.items() if key in kept}
    outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, arrays)))
    np.savez(f"{path}.input.npz", **arrays)
    np.savez(f"{path}.output.npz", **outputs)
    difference = np.abs(outputs["output"] - expected).max() / np.abs(expected).max()
    model = onnx.load(f"{path}.onnx")
    counts = collections.Counter()

    def count(graph):
        for node in graph.node:
            counts[(node.domain + "." if node.domain else "") + node.op_type] += 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count(attribute.g)

    count(model.graph)
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    functions = f"; functions: {len(model.functions)}" if model.functions else ""
    shapes = ", ".join(f"{key} {value.dtype}{list(value.shape)}" for key, value in arrays.items())
    print(
        f"{os.path.basename(path)}: opset {opsets}{functions}; {shapes} -> {list(outputs['output'].shape)}; "
        f"{difference:.1e} from PyTorch; {os.path.getsize(path + '.onnx') / 1e6:.1f} MB"
    )
    print("   ", ", ".join(f"{op} {n}" for op, n in sorted(counts.items())), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    for name in given.names:
        for dynamo in (False, True):
            try:
                export(name, given.folder, dynamo)
            except Exception as problem:
                print(
                    f"{name}{'_dynamo' if dynamo else ''}: FAILED: {type(problem).__name__}: {str(problem)[:500]}",
                    flush=True,
                )
