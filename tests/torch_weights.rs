//! Files of weights that PyTorch wrote: see golden/torch_weights.py.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::golden::path;
use insta::assert_snapshot;
use tile_runtime::Tensor;
use tile_runtime::weights::WeightsFile;

fn file(name: &str) -> PathBuf {
    path(&format!("torch_weights/{name}"))
}

/// Returns all tensors of a file.
fn tensors(name: &str) -> BTreeMap<String, Tensor> {
    let mut file = WeightsFile::open(file(name)).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
    let read = |(number, name)| (name, file.read(number).unwrap_or_else(|error| panic!("{error}")));
    names.into_iter().enumerate().map(read).collect()
}

#[test]
fn archives_of_each_version_have_the_same_tensors() {
    let expected = tensors("values.npz");
    for name in ["values.pt", "protocol4.pth", "big_endian.pt"] {
        let found = tensors(name);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        for (entry, tensor) in &found {
            assert_eq!(tensor.shape(), expected[entry].shape(), "{name}: {entry}");
            assert_eq!(tensor.to_f64s(), expected[entry].to_f64s(), "{name}: {entry}");
            if let Some(ty) = entry.strip_prefix("types.") {
                let short = ty.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i");
                assert_eq!(tensor.dtype().to_string(), short, "{name}");
            }
        }
    }
    let order = WeightsFile::open(file("values.pt")).unwrap();
    let model: Vec<&str> = order.tensors().iter().filter_map(|(name, _)| name.strip_prefix("model.")).collect();
    assert_eq!(model, ["weight", "bias"], "the order of the file");
}

#[test]
fn other_files_are_refused_with_advice() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("torch_weights");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pickle.pt"), b"\x80\x04N.").unwrap();
    fs::write(folder.join("empty.pt"), b"").unwrap();
    fs::write(folder.join("cut.pt"), &fs::read(file("values.pt")).unwrap()[..2000]).unwrap();
    let golden = ["before_1_6", "script", "module", "tensor", "no_tensors", "complex", "float8", "sparse", "negated"];
    let damaged = ["twice", "no_pickle", "no_data", "short", "compressed"];
    let golden = golden.iter().chain(&damaged).map(|name| file(&format!("{name}.pt")));
    let written = ["pickle.pt", "empty.pt", "cut.pt"].map(|name| folder.join(name));
    let refused = |path: PathBuf| {
        let error = WeightsFile::open(&path).map(|_| ()).unwrap_err();
        format!("{}: {}", path.file_name().unwrap().display(), error.what)
    };
    let errors: Vec<String> = golden.chain(written).map(refused).collect();
    assert_snapshot!(errors.join("\n"), @r#"
    before_1_6.pt: it is of a version before PyTorch 1.6, which wrote no zip archives; help: save it again in Python, with `torch.save(torch.load("old.pt"), "new.pt")`
    script.pt: it is an archive of TorchScript, with code; help: save its weights in Python, with `torch.save(torch.jit.load(FILE).state_dict(), "model.pt")`
    module.pt: its pickle is not one of a state_dict: it needs `torch.nn.modules.linear.Linear`, and no code of a file is run; help: save the weights alone, with `torch.save(model.state_dict(), "model.pt")`
    tensor.pt: it is one tensor, without a name; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    no_tensors.pt: it has no tensors; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    complex.pt: `a`: it has the type `torch.ComplexFloatStorage`, which Tile has not
    float8.pt: `a`: it has the type `torch.float8_e5m2`, which Tile has not
    sparse.pt: its pickle is not one of a state_dict: it needs `torch._utils._rebuild_sparse_tensor`, and no code of a file is run; help: save the weights alone, with `torch.save(model.state_dict(), "model.pt")`
    negated.pt: its pickle is not one of a state_dict: it has a negated or a conjugated view; help: save `tensor.resolve_neg().resolve_conj()`
    twice.pt: two tensors have the name `a.b`
    no_pickle.pt: it is a zip archive without a `data.pkl`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    no_data.pt: `types.bool`: the archive has no entry `values/data/0`
    short.pt: `types.bool`: it is bool[4] from element 0 on, and its storage has 3 bytes
    compressed.pt: `types.bool`: its data are compressed; help: save the file again with `torch.save`
    pickle.pt: it is a pickle of Python, and no archive of `torch.save`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    empty.pt: it is no archive of `torch.save`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    cut.pt: this is not a valid file of PyTorch: invalid Zip archive: Could not find EOCD
    "#);
}
