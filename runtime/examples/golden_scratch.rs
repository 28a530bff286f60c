// scratch: cargo run --example golden_scratch -- FAMILY[,..] [FILTER] [DEVICE] ; std read from tile-lang/std at run time
use std::io::{BufReader, Read};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::data::npy;
use tile_runtime::{Device, Model};

#[derive(Default, Debug)]
struct Case {
    name: String,
    body: Vec<String>,
    training: bool,
    items: Vec<(String, String, Tensor)>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let device = match args.get(3).map(String::as_str) {
        Some("reference") => Device::reference(),
        Some("check") => Device::check(tile_compiler::profile::Profile::generic()),
        Some(n) => Device::named(n).unwrap(),
        None => Device::cpu(),
    };
    let filter = args.get(2).cloned().unwrap_or_default();
    let mut std_text = String::new();
    let mut files: Vec<_> = std::fs::read_dir("tile-lang/std").unwrap().map(|f| f.unwrap().path()).collect();
    for n in ["core", "activations", "initializers", "random"] {
        let o = format!("/work/wt/libb/tile-lang/std/{n}.tile");
        if std::path::Path::new(&o).exists() {
            files.retain(|f: &std::path::PathBuf| f.file_stem().unwrap() != n);
            files.push(o.into());
        }
    }
    files.sort();
    if let Ok(extra) = std::env::var("EXTRA") {
        files.push(extra.into());
    }
    for f in files {
        std_text += &std::fs::read_to_string(f).unwrap();
        std_text.push('\n');
    }
    let (mut good, mut bad) = (0, 0);
    for family in args[1].split(',') {
        let base = format!("tests/golden/layers/{family}");
        let text = std::fs::read_to_string(format!("{base}.txt")).unwrap();
        let mut data = BufReader::new(std::fs::File::open(format!("{base}.npy")).unwrap());
        for block in text.split("\n\n") {
            let mut case = Case::default();
            for line in block.lines() {
                if let Some(n) = line.strip_prefix("case ") {
                    case.name = n.into();
                } else if line.starts_with("    ") {
                    case.body.push(line.trim().into());
                } else if line == "training" {
                    case.training = true;
                } else if !line.is_empty() {
                    let mut parts = line.splitn(3, ' ');
                    let (kind, name) = (parts.next().unwrap().to_string(), parts.next().unwrap().to_string());
                    let t = npy::read(data.by_ref()).unwrap();
                    case.items.push((kind, name, t));
                }
            }
            if !case.name.contains(&filter) {
                continue;
            }
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&case, &std_text, &device))) {
                Ok(Ok(err)) if err <= 1e-5 => {
                    good += 1;
                    if std::env::var("V").is_ok() {
                        println!("{} ok {err:.1e}", case.name);
                    }
                }
                Ok(Ok(err)) => {
                    bad += 1;
                    println!("{} BAD {err:.1e}", case.name);
                }
                Ok(Err(e)) => {
                    bad += 1;
                    println!("{} ERROR {e}", case.name);
                }
                Err(_) => {
                    bad += 1;
                    println!("{} PANIC", case.name);
                }
            }
        }
    }
    println!("good {good} bad {bad}");
}

fn of<'a>(case: &'a Case, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
    case.items.iter().filter(move |i| i.0 == kind).map(|i| (i.1.as_str(), &i.2))
}

fn run(case: &Case, std_text: &str, device: &Device) -> Result<f64, String> {
    let inputs: Vec<&str> = of(case, "input").map(|i| i.0).collect();
    let outputs: Vec<&str> = of(case, "output").map(|i| i.0).collect();
    let source = format!(
        "{std_text}\nmodel Case({}) -> ({}) {{ {} }}",
        inputs.join(", "),
        outputs.join(", "),
        case.body.join("\n")
    );
    let show = |e: tile_runtime::Error| {
        let t = e.render("x", false);
        t.lines().take(9).collect::<Vec<_>>().join("\n    ")
    };
    let model = Model::compile(&source).map_err(show)?;
    let mut b = model.on(device).training(case.training);
    for (n, t) in of(case, "input") {
        b = b.input(n, t.ty().clone());
    }
    let mut s = b.build().map_err(show)?;
    let mine: Vec<(String, TensorType)> = s.weights().map(|(n, t)| (n.to_string(), t.clone())).collect();
    for (n, t) in &mine {
        if !of(case, "weight").any(|w| w.0 == n) {
            return Err(format!("extra weight {n} {t}"));
        }
    }
    for (n, t) in of(case, "weight") {
        s.set(n, t).map_err(|e| format!("{e}"))?;
    }
    let out = s.run(of(case, "input")).map_err(show)?;
    let mut worst: f64 = 0.0;
    for (n, t) in of(case, "output").chain(of(case, "update")) {
        let got = out.get(n).ok_or(format!("no output {n}"))?;
        if got.shape() != t.shape() {
            return Err(format!("{n}: shape {:?} not {:?}", got.shape(), t.shape()));
        }
        let scale = t.scalars().map(|v| v.to_f64().abs()).fold(1e-30, f64::max);
        for (a, b) in got.scalars().zip(t.scalars()) {
            let d = (a.to_f64() - b.to_f64()).abs() / scale.max(b.to_f64().abs());
            worst = if d.is_nan() { f64::INFINITY } else { worst.max(d) };
        }
    }
    for n in out.names() {
        if n != "penalty" && !of(case, "output").chain(of(case, "update")).any(|w| w.0 == n) {
            return Err(format!("extra output {n}"));
        }
    }
    Ok(worst)
}
