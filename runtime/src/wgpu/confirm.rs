//! Verification of claimed features: a feature is used only if a small kernel with it gives the
//! expected result.
//!
//! A feature is tried once for an adapter, its driver and this version. The verdicts are kept in
//! the process and in the user's cache folder.

use std::collections::BTreeMap;
use std::sync::Mutex;

use half::f16;
use tile_compiler::dtype::DType;
use tile_compiler::profile::{MatrixUnit, Profile};

use super::gpu::{Gpu, adapter_key, lock};
use super::trial::Trial;
#[cfg(not(target_family = "wasm"))]
use crate::cache::CacheFile;
use crate::error::Error;

/// The invocations in the workgroup of the subgroup probe. Every device supports this number.
const INVOCATIONS: u32 = 128;

type IsRight = dyn Fn(&[Vec<u8>]) -> bool + Send + Sync;

/// A kernel that needs a feature.
struct Probe {
    /// The feature's name, also in the cache file.
    feature: String,
    kernel: String,
    /// The contents of the buffers that the kernel reads.
    inputs: Vec<Vec<u8>>,
    /// Checks the contents of the buffers that the kernel writes.
    is_right: Box<IsRight>,
}

/// Removes unconfirmed features from the device's profile. Returns a sentence about each refuted
/// one.
pub async fn confirm(gpu: &mut Gpu) -> Vec<String> {
    /// The verdicts of this process, by adapter and feature.
    static KNOWN: Mutex<BTreeMap<(String, String), bool>> = Mutex::new(BTreeMap::new());
    let key = adapter_key(&gpu.device);
    let probes = probes(&gpu.profile);
    let place = |probe: &Probe| (key.clone(), probe.feature.clone());
    let is_known = |probe: &Probe| lock(&KNOWN).contains_key(&place(probe));
    #[cfg(not(target_family = "wasm"))]
    let mut file = probes.iter().any(|probe| !is_known(probe)).then(|| file(gpu, &key)).flatten();
    #[cfg(not(target_family = "wasm"))]
    if let Some(content) = file.as_mut().and_then(|file| file.read().ok().flatten()) {
        let text = String::from_utf8_lossy(&content);
        let verdicts = parse(&text);
        lock(&KNOWN).extend(verdicts.map(|(feature, verdict)| ((key.clone(), feature), verdict)));
    }
    for probe in &probes {
        if !is_known(probe)
            && let Some(verdict) = holds(gpu, probe).await
        {
            lock(&KNOWN).insert(place(probe), verdict);
        }
    }
    #[cfg(not(target_family = "wasm"))]
    if let Some(file) = &mut file {
        let known = lock(&KNOWN).clone();
        let of_adapter = known.iter().filter(|((adapter, _), _)| *adapter == key);
        let lines: String =
            of_adapter.map(|((_, feature), verdict)| format!("{feature} {verdict}\n")).collect();
        // If writing fails, the next process tries the features again.
        let _ = file.write(lines.as_bytes());
    }
    let without = |verdict: fn(Option<&bool>) -> bool| -> Vec<&str> {
        let wanted = |probe: &&Probe| verdict(lock(&KNOWN).get(&place(probe)));
        probes.iter().filter(wanted).map(|probe| probe.feature.as_str()).collect()
    };
    leave_out(&mut gpu.profile, &without(|verdict| verdict != Some(&true)));
    let sentence = |feature: &str| {
        format!("{}: {feature} is not used: a small product came out wrong", gpu.name)
    };
    without(|verdict| verdict == Some(&false)).into_iter().map(sentence).collect()
}

/// Returns the cache file of an adapter's verdicts.
#[cfg(not(target_family = "wasm"))]
fn file(gpu: &Gpu, key: &str) -> Option<CacheFile> {
    let info = gpu.device.adapter_info();
    CacheFile::new(&format!("confirmed-{:x}-{:x}", info.vendor, info.device), key)
}

/// Parses lines `FEATURE true` and `FEATURE false`.
#[cfg(not(target_family = "wasm"))]
fn parse(text: &str) -> impl Iterator<Item = (String, bool)> {
    text.lines().filter_map(|line| {
        let (feature, verdict) = line.rsplit_once(' ')?;
        Some((feature.to_owned(), verdict.parse().ok()?))
    })
}

/// Removes features from a profile.
fn leave_out(profile: &mut Profile, refuted: &[&str]) {
    let holds = |feature: &str| !refuted.contains(&feature);
    profile.f16 &= holds(F16);
    profile.int64 &= holds(INT64);
    profile.f64 &= holds(F64);
    profile.subgroups &= holds(SUBGROUPS);
    // Matrix operations need subgroups.
    let subgroups = profile.subgroups;
    profile.matrices.retain(|unit| subgroups && holds(&matrices(unit)));
}

const F16: &str = "f16";
const INT64: &str = "int64";
const F64: &str = "f64";
const SUBGROUPS: &str = "subgroups";

fn matrices(unit: &MatrixUnit) -> String {
    format!("matrices of {0} x {0} {1} in subgroups of {2}", unit.size, unit.factors, unit.subgroup)
}

/// Returns a probe for each feature in a profile.
fn probes(profile: &Profile) -> Vec<Probe> {
    let mut probes = Vec::new();
    probes.extend(profile.f16.then(half_precision));
    probes.extend(profile.int64.then(long_integers));
    probes.extend(profile.f64.then(double_precision));
    probes.extend(profile.subgroups.then(subgroups));
    probes.extend(profile.matrices.iter().map(matrix_product));
    probes
}

fn half_precision() -> Probe {
    let bytes = |f: fn(f32) -> f32| {
        (0..64).flat_map(|i| f16::from_f32(f(i as f32)).to_le_bytes()).collect::<Vec<u8>>()
    };
    let expected = bytes(|x| x * 1.5 + 0.25);
    Probe {
        feature: F16.into(),
        kernel: "kernel confirm_f16 workgroup(64, 1, 1) grid(1, 1, 1) {
    read x: f16[64];
    write y: f16[64];
    y[local.x] = x[local.x] * 1.5_f16 + 0.25_f16;
}
"
        .into(),
        inputs: vec![bytes(|x| x)],
        is_right: Box::new(move |outputs| outputs[0][..expected.len()] == expected),
    }
}

fn double_precision() -> Probe {
    // f32 would lose the small parts.
    let bytes = |f: fn(f64) -> f64| {
        (0..64)
            .flat_map(|i| f(1.0 + f64::from(i) * 2f64.powi(-40)).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let expected = bytes(|x| x * 1.5 + 0.25);
    Probe {
        feature: F64.into(),
        kernel: "kernel confirm_f64 workgroup(64, 1, 1) grid(1, 1, 1) {
    read x: f64[64];
    write y: f64[64];
    y[local.x] = x[local.x] * 1.5_f64 + 0.25_f64;
}
"
        .into(),
        inputs: vec![bytes(|x| x)],
        is_right: Box::new(move |outputs| outputs[0] == expected),
    }
}

fn long_integers() -> Probe {
    const FACTOR: i64 = 3_000_000_001;
    let bytes = |factor: i64| {
        (0..64i64).flat_map(|i| ((i - 32) * factor).to_le_bytes()).collect::<Vec<u8>>()
    };
    let expected = bytes(FACTOR);
    Probe {
        feature: INT64.into(),
        kernel: format!(
            "kernel confirm_int64 workgroup(64, 1, 1) grid(1, 1, 1) {{
    read x: i64[64];
    write y: i64[64];
    y[local.x] = x[local.x] * {FACTOR}_i64;
}}
"
        ),
        inputs: vec![bytes(1)],
        is_right: Box::new(move |outputs| outputs[0] == expected),
    }
}

/// Returns a probe of subgroup sums and numbering. Subgroups and their lanes must be numbered from
/// 0, with 4 to 128 lanes in all subgroups but the last.
fn subgroups() -> Probe {
    let kernel = format!(
        "kernel confirm_subgroups workgroup({INVOCATIONS}, 1, 1) grid(1, 1, 1) {{
    read x: i32[{INVOCATIONS}];
    write sums: i32[{INVOCATIONS}];
    write numbers: i32[{INVOCATIONS}];
    write lanes: i32[{INVOCATIONS}];
    subgroup sum = add(x[local.x]);
    sums[local.x] = sum;
    numbers[local.x] = subgroup.id;
    lanes[local.x] = subgroup.lane;
}}
"
    );
    let is_right = |outputs: &[Vec<u8>]| {
        let [sums, numbers, lanes] = [0, 1, 2].map(|output: usize| integers(&outputs[output]));
        // Maps each subgroup to the sum of its invocations' values, and to its lanes.
        let mut found: BTreeMap<i32, (i32, Vec<i32>)> = BTreeMap::new();
        for (i, (number, lane)) in numbers.iter().zip(&lanes).enumerate() {
            let (sum, lanes) = found.entry(*number).or_default();
            *sum += i as i32;
            lanes.push(*lane);
        }
        let count = found.len();
        found.iter_mut().enumerate().all(|(at, (number, (sum, lanes)))| {
            lanes.sort();
            let size = lanes.len() as i32;
            let of_subgroup = || sums.iter().zip(&numbers).filter(|(_, n)| *n == number);
            *number == at as i32
                && lanes.iter().copied().eq(0..size)
                && (at + 1 == count || (4..=128).contains(&size))
                && of_subgroup().all(|(found, _)| found == sum)
        })
    };
    let inputs = vec![(0..INVOCATIONS).flat_map(|i| i.to_le_bytes()).collect()];
    Probe { feature: SUBGROUPS.into(), kernel, inputs, is_right: Box::new(is_right) }
}

/// Returns a probe in which two subgroups of the unit's size each multiply matrices of small
/// integers.
fn matrix_product(unit: &MatrixUnit) -> Probe {
    let MatrixUnit { size, factors, subgroup } = *unit;
    let (square, invocations) = (size * size, 2 * subgroup);
    // Leaves room for more subgroups, should they be smaller than the unit claims.
    let room = square * invocations.div_ceil(4);
    let cast = |value: &str| {
        if factors == DType::F32 { value.to_owned() } else { format!("{factors}({value})") }
    };
    let (left, right) = (cast("x[at]"), cast("w[at]"));
    let kernel = format!(
        "kernel confirm_matrices workgroup({invocations}, 1, 1) grid(1, 1, 1) {{
    read x: f32[{square}];
    read w: f32[{square}];
    write product: f32[{two}];
    write numbers: i32[{invocations}];
    shared left: {factors}[{square}];
    shared right: {factors}[{square}];
    shared sums: f32[{room}];
    matrix left a: {factors}[{size}];
    matrix right b: {factors}[{size}];
    matrix sum total: f32[{size}];
    for at in local.x..{square} step {invocations} {{
        left[at] = {left};
        right[at] = {right};
    }}
    for at_2 in local.x..{room} step {invocations} {{
        sums[at_2] = 0.0;
    }}
    barrier;
    total = sums[subgroup.id * {square}] by {size};
    a = left[0] by {size};
    b = right[0] by {size};
    total += a * b;
    barrier;
    sums[subgroup.id * {square}] by {size} = total;
    barrier;
    for at_3 in local.x..{two} step {invocations} {{
        product[at_3] = sums[at_3];
    }}
    numbers[local.x] = subgroup.id;
}}
",
        two = 2 * square
    );
    let numbers = |factor: usize, modulus: usize| {
        (0..square as usize)
            .map(|i| (i * factor % modulus) as f32 - (modulus / 2) as f32)
            .collect::<Vec<f32>>()
    };
    let (x, w) = (numbers(5, 11), numbers(3, 7));
    let size = size as usize;
    // The right operand is stored column by column.
    let sum = |at: usize| {
        (0..size).map(|k| x[at / size * size + k] * w[at % size * size + k]).sum::<f32>()
    };
    let expected: Vec<u8> =
        (0..2).flat_map(|_| (0..size * size).flat_map(|at| sum(at).to_le_bytes())).collect();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let is_right = move |outputs: &[Vec<u8>]| {
        let numbers = integers(&outputs[1]);
        outputs[0] == expected
            && (0..2)
                .all(|n| numbers.iter().filter(|number| **number == n).count() == subgroup as usize)
    };
    let inputs = vec![bytes(&x), bytes(&w)];
    Probe { feature: matrices(unit), kernel, inputs, is_right: Box::new(is_right) }
}

fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
}

/// Returns whether a probe gives the expected result. An error of the driver counts as false. A
/// lost device or lack of memory gives `None`.
async fn holds(gpu: &Gpu, probe: &Probe) -> Option<bool> {
    match outputs(gpu, probe).await {
        Ok(outputs) => Some((probe.is_right)(&outputs)),
        Err(Error::DeviceLost { .. } | Error::OutOfMemory { .. }) => None,
        Err(_) => Some(false),
    }
}

/// Runs a probe's kernel, and returns the buffers that it writes.
async fn outputs(gpu: &Gpu, probe: &Probe) -> Result<Vec<Vec<u8>>, Error> {
    let trial = Trial::new(gpu, &probe.kernel, &probe.inputs).await?;
    trial.launch(gpu, 1).await?;
    trial.outputs(gpu).await
}

#[cfg(test)]
mod tests;
