// scratch: model_scratch NAME [DEVICE]
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::data::npy;
use tile_runtime::{Device, Model};
fn hashed(name: &str, ty: &TensorType, low: f64, high: f64) -> Tensor {
    let mut seed = 0xCBF29CE484222325u64;
    for b in name.bytes() {
        seed = (seed ^ b as u64).wrapping_mul(0x100000001B3);
    }
    let n = ty.elements();
    let f = |i: u64| {
        let mut z = seed.wrapping_add(i.wrapping_mul(0x9E3779B97F4A7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
        z = (z ^ (z >> 31)) >> 40;
        low + (high - low) * (z as f64 / (1u64 << 24) as f64)
    };
    let v = (1..=n as u64).map(|i| {
        if ty.dtype == DType::I32 {
            Scalar::from_f64(DType::F64, f(i).floor()).cast(DType::I32)
        } else {
            Scalar::from_f64(DType::F64, f(i)).cast(ty.dtype)
        }
    });
    Tensor::from_scalars(ty.clone(), v).unwrap()
}
fn ty(text: &str) -> TensorType {
    let (d, s) = text.split_once('[').unwrap();
    let s = s.trim_end_matches(']');
    let sh: Vec<usize> = s.split(", ").filter(|x| !x.is_empty()).map(|x| x.parse().unwrap()).collect();
    TensorType::new(DType::parse(d).unwrap(), sh)
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let device = match args.get(2).map(String::as_str) {
        Some("reference") => Device::reference(),
        Some(n) => Device::named(n).unwrap(),
        None => Device::cpu(),
    };
    let name = &args[1];
    let short = name.split('-').next().unwrap();
    let source = match std::env::var("ALL") {
        Ok(p) => std::fs::read_to_string(p).unwrap(),
        Err(_) => std::fs::read_to_string(format!("examples/models/{short}.tile")).unwrap(),
    };
    let dir = std::env::var("MODELS").unwrap_or("tests/golden/models".into());
    let text = std::fs::read_to_string(format!("{dir}/{name}.txt")).unwrap();
    let mut data = std::io::BufReader::new(std::fs::File::open(format!("{dir}/{name}.npy")).unwrap());
    let show = |e: tile_runtime::Error| -> ! {
        println!("{}", e.render("x", false));
        std::process::exit(1)
    };
    let t0 = std::time::Instant::now();
    let model = Model::compile(&source).unwrap_or_else(|e| show(e));
    let mut entry = String::new();
    let mut b = None;
    let mut given = vec![];
    let mut outs = vec![];
    for line in text.lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        if kind == "model" {
            entry = rest.into();
            b = Some(model.on(&device).entry(entry.clone()));
            continue;
        }
        let (n, rest) = rest.split_once(' ').unwrap();
        let close = rest.find(']').unwrap() + 1;
        let t = ty(&rest[..close]);
        let tail: Vec<&str> = rest[close..].split_whitespace().collect();
        match kind {
            "input" | "weight" => {
                let v = hashed(n, &t, tail[0].parse().unwrap(), tail[1].parse().unwrap());
                if kind == "input" {
                    b = Some(b.unwrap().input(n, t.clone()));
                }
                given.push((kind.to_string(), n.to_string(), v));
            }
            "output" => outs.push((n.to_string(), t, tail[1].parse::<usize>().unwrap())),
            _ => panic!("{kind}"),
        }
    }
    let t1 = std::time::Instant::now();
    let mut s = b.unwrap().build().unwrap_or_else(|e| show(e));
    println!("{entry}: parse {:?}, build {:?}", t1 - t0, t1.elapsed());
    let mine: Vec<String> = s.weights().map(|w| w.0.to_string()).collect();
    let total: usize = s.weights().map(|w| w.1.elements()).sum();
    println!("weights {} parameters {total}", mine.len());
    for m in &mine {
        if !given.iter().any(|g| &g.1 == m) {
            println!("EXTRA {m}");
        }
    }
    for g in given.iter().filter(|g| g.0 == "weight") {
        if !mine.contains(&g.1) {
            println!("MISSING {}", g.1);
        }
    }
    for (_, n, v) in &given {
        if let Err(e) = s.set(n, v) {
            println!("{e}");
        }
    }
    let t = std::time::Instant::now();
    s.execute().unwrap_or_else(|e| show(e));
    println!("first run {:?}", t.elapsed());
    let mut best = std::time::Duration::MAX;
    let n: usize = std::env::var("RUNS").ok().and_then(|x| x.parse().ok()).unwrap_or(0);
    for _ in 0..n {
        let t = std::time::Instant::now();
        s.execute().unwrap();
        best = best.min(t.elapsed());
    }
    if n > 0 {
        println!("best of {n}: {best:?}");
    }
    let out = s.read().unwrap();
    for (n, t, step) in outs {
        let got = out.get(&n).unwrap();
        assert_eq!(got.shape(), t.shape.as_slice());
        let want = npy::read(&mut data).unwrap();
        let g: Vec<f64> = got.scalars().step_by(step).map(|x| x.to_f64()).collect();
        let w: Vec<f64> = want.scalars().map(|x| x.to_f64()).collect();
        assert_eq!(g.len(), w.len());
        let scale = w.iter().fold(0f64, |m, x| m.max(x.abs()));
        let worst = g.iter().zip(&w).map(|(a, b)| (a - b).abs() / scale).fold(0f64, f64::max);
        let rel = g.iter().zip(&w).map(|(a, b)| (a - b).abs() / b.abs().max(1e-30)).fold(0f64, f64::max);
        println!("{n}: worst of max {worst:.2e}, elementwise {rel:.2e}");
    }
}
