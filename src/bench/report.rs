//! Measurements as lines of text and of JSON.

use serde::Serialize;
use serde_json::value::RawValue;

use super::measure::Measurement;
use super::peak::Peak;
use crate::json;

/// A measurement, and its device's hardware and peak.
pub struct Row {
    pub measurement: Measurement,
    /// The hardware's name.
    pub adapter: String,
    pub peak: Option<Peak>,
}

pub const HEADER: &str = "\
workload             variant                     device   first result     median  GFLOP/s of peak     GB/s of peak  times
";

impl Row {
    /// Returns the shares of the device's peak operations and peak bandwidth.
    fn shares(&self) -> (Option<f64>, Option<f64>) {
        let share = |value: Option<f64>, peak: fn(Peak) -> f64| Some(value? / peak(self.peak?));
        (
            share(self.measurement.flops(), |peak| peak.flops),
            share(self.measurement.bandwidth(), |peak| peak.bandwidth),
        )
    }

    /// Formats a line under [`HEADER`].
    pub fn text(&self) -> String {
        let Measurement { workload, variant, device, first_result, median, repetitions, .. } =
            &self.measurement;
        let billions =
            |value: Option<f64>| value.map_or("-".into(), |value| significant(value * 1e-9));
        let percent =
            |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0}%", share * 100.0));
        let (compute, bandwidth) = self.shares();
        format!(
            "{workload:<20} {variant:<27} {device:<8} {:>12} {:>10} {:>8} {:>7} {:>8} {:>7} {repetitions:>6}\n",
            time(*first_result),
            time(*median),
            billions(self.measurement.flops()),
            percent(compute),
            billions(self.measurement.bandwidth()),
            percent(bandwidth),
        )
    }

    /// Formats a JSON object and a newline. Scripts rely on the first seven keys.
    pub fn json(&self) -> String {
        let Measurement { workload, device, variant, cost, .. } = &self.measurement;
        let (compute, bandwidth) = self.shares();
        let billions = |value: Option<f64>| number(value.map(|value| value * 1e-9));
        json::line(&JsonLine {
            workload,
            device,
            variant,
            first_result_s: number(Some(self.measurement.first_result)),
            median_s: number(Some(self.measurement.median)),
            gflops: billions(self.measurement.flops()),
            reps: self.measurement.repetitions,
            min_s: number(Some(self.measurement.fastest)),
            gbs: billions(self.measurement.bandwidth()),
            flops: cost.map(|cost| cost.flops),
            bytes: cost.map(|cost| cost.bytes),
            peak_gflops: billions(self.peak.map(|peak| peak.flops)),
            peak_gbs: billions(self.peak.map(|peak| peak.bandwidth)),
            share_of_peak_gflops: number(compute),
            share_of_peak_gbs: number(bandwidth),
            peak_memory_bytes: self.measurement.peak_memory,
            adapter: &self.adapter,
        })
    }
}

/// The JSON object of a measurement.
#[derive(Serialize)]
struct JsonLine<'a> {
    workload: &'a str,
    device: &'a str,
    variant: &'a str,
    first_result_s: Box<RawValue>,
    median_s: Box<RawValue>,
    gflops: Box<RawValue>,
    reps: usize,
    min_s: Box<RawValue>,
    gbs: Box<RawValue>,
    flops: Option<u64>,
    bytes: Option<u64>,
    peak_gflops: Box<RawValue>,
    peak_gbs: Box<RawValue>,
    share_of_peak_gflops: Box<RawValue>,
    share_of_peak_gbs: Box<RawValue>,
    peak_memory_bytes: Option<u64>,
    adapter: &'a str,
}

/// Formats the hardware of a device, and the peak that the shares refer to.
pub fn footer(device: &str, adapter: &str, peak: Option<Peak>) -> String {
    let peak = peak.map_or_else(String::new, |Peak { flops, bandwidth }| {
        let (flops, bandwidth) = (significant(flops * 1e-9), significant(bandwidth * 1e-9));
        format!("; peak, as measured: {flops} GFLOP/s, {bandwidth} GB/s")
    });
    format!("{device}: {adapter}{peak}\n")
}

/// Returns a number of six significant digits, or null.
pub fn number(value: Option<f64>) -> Box<RawValue> {
    let rounded = value.and_then(|value| format!("{value:.5e}").parse::<f64>().ok());
    json::number(rounded.unwrap_or(f64::NAN).to_string())
}

/// Formats three significant digits, or all before the decimal point.
pub fn significant(value: f64) -> String {
    let decimals = if value > 0.0 { (2 - value.log10().floor() as i32).clamp(0, 6) } else { 0 };
    format!("{value:.*}", decimals as usize)
}

pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", significant(s * 1e6)),
        s if s < 1.0 => format!("{} ms", significant(s * 1e3)),
        s => format!("{} s", significant(s)),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use tile_runtime::Cost;

    use super::*;

    fn row(cost: Option<Cost>, peak: Option<Peak>) -> Row {
        let measurement = Measurement {
            workload: "matmul".into(),
            point: None,
            device: "cpu".into(),
            variant: "M=K=N=256".into(),
            first_result: 0.0123456789,
            median: 0.000256,
            fastest: 0.000250,
            repetitions: 400,
            cost,
            peak_memory: Some(12 << 20),
        };
        Row { measurement, adapter: "a processor".into(), peak }
    }

    #[test]
    fn lines() {
        let cost = Cost { flops: 2 << 24, bytes: 12 << 16 };
        let full = row(Some(cost), Some(Peak { flops: 200e9, bandwidth: 30e9 }));
        let bare = row(None, None);
        assert_snapshot!(HEADER.to_string() + &full.text() + &bare.text() + &footer("cpu", "a processor", full.peak), @"
        workload             variant                     device   first result     median  GFLOP/s of peak     GB/s of peak  times
        matmul               M=K=N=256                   cpu           12.3 ms     256 µs      131     66%     3.07     10%    400
        matmul               M=K=N=256                   cpu           12.3 ms     256 µs        -       -        -       -    400
        cpu: a processor; peak, as measured: 200 GFLOP/s, 30.0 GB/s
        ");
        assert_snapshot!(full.json() + &bare.json(), @r#"
        {"workload":"matmul","device":"cpu","variant":"M=K=N=256","first_result_s":0.0123457,"median_s":0.000256,"gflops":131.072,"reps":400,"min_s":0.00025,"gbs":3.072,"flops":33554432,"bytes":786432,"peak_gflops":200,"peak_gbs":30,"share_of_peak_gflops":0.65536,"share_of_peak_gbs":0.1024,"peak_memory_bytes":12582912,"adapter":"a processor"}
        {"workload":"matmul","device":"cpu","variant":"M=K=N=256","first_result_s":0.0123457,"median_s":0.000256,"gflops":null,"reps":400,"min_s":0.00025,"gbs":null,"flops":null,"bytes":null,"peak_gflops":null,"peak_gbs":null,"share_of_peak_gflops":null,"share_of_peak_gbs":null,"peak_memory_bytes":12582912,"adapter":"a processor"}
        "#);
    }

    #[test]
    fn units() {
        let times = [1.234e-6, 0.0123456, 0.9996, 12.34].map(time);
        assert_eq!(times, ["1.23 µs", "12.3 ms", "1000 ms", "12.3 s"]);
        assert_eq!(
            [0.0, 0.00123, 999.9, 12345.6].map(significant),
            ["0", "0.00123", "1000", "12346"]
        );
    }
}
