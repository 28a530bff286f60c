//! Results of tuning: a table, and JSON lines.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;
use serde_json::value::RawValue;
use tile_runtime::Device;
use tile_runtime::tune::{Timed, TunedKernel, Tuning};

use crate::bench::report::{number, time};
use crate::json;

/// The ratio to the tuned time up to which the default schedule counts as close.
const CLOSE: f64 = 1.5;

/// Formats a row for each kernel, and a summary.
pub fn text(tuning: &Tuning, device: &Device) -> String {
    if tuning.kernels.is_empty() {
        return format!("no kernel was measured on {}\n", device.name());
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "kernel", "launches", "default", "time", "tuned", "time", "ratio", "measured",
    ]);
    for kernel in &tuning.kernels {
        let TunedKernel { name, launches, default, tuned, .. } = kernel;
        let same = default.schedule == tuned.schedule;
        let schedule = |timed: &Timed| timed.schedule.to_string();
        table.add_row([
            name.clone(),
            launches.to_string(),
            schedule(default),
            time(default.seconds),
            if same { "the same".into() } else { schedule(tuned) },
            time(tuned.seconds),
            format!("{:.2}", default.seconds / tuned.seconds),
            measured(kernel),
        ]);
    }
    for number in [1, 3, 5, 6] {
        table
            .column_mut(number)
            .into_iter()
            .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    let rows: String = table.lines().map(|line| format!("{}\n", line.trim())).collect();
    let mut text = format!("{rows}{}\n", summary(tuning));
    if !tuning.finished {
        text += "the search did not come to its end: `tilec tune` goes on from here, and `--budget` gives it more time\n";
    }
    text += &match &tuning.file {
        Some(file) => format!("kept for {} in {}\n", device.name(), file.display()),
        None => format!(
            "not kept: there is no cache folder, and {} forgets it with this process\n",
            device.name()
        ),
    };
    text
}

/// Formats the number of measured schedules.
fn measured(kernel: &TunedKernel) -> String {
    match kernel.known {
        true => "before".into(),
        false if kernel.finished => format!("{} of {}", kernel.measured, kernel.candidates),
        false => format!("{} of {}, so far", kernel.measured, kernel.candidates),
    }
}

/// Formats `12 kernels: 1.31 ms by default, 1.02 ms tuned, 1.28 times as fast; …`
pub fn summary(tuning: &Tuning) -> String {
    let (default, tuned) = tuning.totals();
    let close = tuning
        .kernels
        .iter()
        .filter(|kernel| kernel.default.seconds <= CLOSE * kernel.tuned.seconds)
        .count();
    let count = tuning.kernels.len();
    format!(
        "{count} kernel{}: {} by default, {} tuned, {:.2} times as fast; {close} of them within {CLOSE} times of the tuned one by default",
        if count == 1 { "" } else { "s" },
        time(default),
        time(tuned),
        default / tuned,
    )
}

pub fn json(tuning: &Tuning, device: &Device) -> String {
    let line = |kernel: &TunedKernel| {
        json::line(&JsonLine {
            kernel: &kernel.name,
            device: device.name(),
            launches: kernel.launches,
            default: kernel.default.schedule.to_string(),
            default_s: number(Some(kernel.default.seconds)),
            tuned: kernel.tuned.schedule.to_string(),
            tuned_s: number(Some(kernel.tuned.seconds)),
            ratio: number(Some(kernel.default.seconds / kernel.tuned.seconds)),
            measured: kernel.measured,
            candidates: kernel.candidates,
            finished: kernel.finished,
            known: kernel.known,
        })
    };
    tuning.kernels.iter().map(line).collect()
}

/// The JSON object of a kernel.
#[derive(Serialize)]
struct JsonLine<'a> {
    kernel: &'a str,
    device: &'a str,
    launches: u64,
    default: String,
    default_s: Box<RawValue>,
    tuned: String,
    tuned_s: Box<RawValue>,
    ratio: Box<RawValue>,
    measured: usize,
    candidates: usize,
    finished: bool,
    known: bool,
}
