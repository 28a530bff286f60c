//! The time of each step of a run: the table and the JSON lines of `tilec bench WHAT --profile`.

use serde::Serialize;
use serde_json::value::RawValue;
use tile_compiler::plan::{self, Plan};
use tile_compiler::schedule::Choice;
use tile_runtime::{Error, Session, Trace};

use super::peak::Peak;
use super::report::{Row, number, significant, time};
use crate::json;

/// The number of runs. The median of each step counts.
const RUNS: usize = 9;

/// The steps of a run, in order.
pub struct Profile {
    pub steps: Vec<StepProfile>,
    /// Seconds that the host takes to submit a run, if the device works asynchronously.
    pub handing_over: Option<f64>,
}

/// All launches of one step.
pub struct StepProfile {
    /// The step's index in the plan.
    pub number: usize,
    /// The name of the value that the step computes, for readers.
    pub value: String,
    pub kernel: String,
    /// Whether the schedule was tuned by measurements.
    pub tuned: bool,
    pub launches: u64,
    pub seconds: f64,
    pub flops: u64,
    pub bytes: u64,
}

/// Traced runs of a plan.
pub struct Traced {
    pub plan: Plan,
    pub traces: Vec<Trace>,
}

impl Traced {
    /// Runs the session several times. `None` on a device without a clock for kernels.
    pub fn new(session: &mut Session) -> Result<Option<Traced>, Error> {
        let mut traces = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let Some(trace) = session.trace()? else { return Ok(None) };
            traces.push(trace);
        }
        Ok(session.plan().map(|plan| Traced { plan: plan.clone(), traces }))
    }
}

impl Profile {
    /// Takes the medians of several traces of the plan.
    pub fn new(plan: &Plan, traces: &[Trace]) -> Profile {
        let mut times = vec![vec![0.0; traces.len()]; plan.steps.len()];
        for (run, trace) in traces.iter().enumerate() {
            trace.launches.iter().for_each(|launch| times[launch.step][run] += launch.seconds);
        }
        let step =
            |(number, ((step, launches), times)): (usize, ((&plan::Step, u64), &mut Vec<f64>))| {
                let cost = plan.step_cost(step);
                StepProfile {
                    number,
                    value: step.name(),
                    kernel: plan.routines[step.routine].name.clone(),
                    tuned: plan.routines[step.routine].choice == Choice::Tuned,
                    launches,
                    seconds: median(times),
                    flops: cost.flops.saturating_mul(launches),
                    bytes: cost.bytes.saturating_mul(launches),
                }
            };
        let steps =
            plan.steps.iter().zip(plan.turns()).zip(&mut times).enumerate().map(step).collect();
        let mut handing_over: Vec<f64> =
            traces.iter().filter_map(|trace| trace.handing_over).collect();
        Profile {
            steps,
            handing_over: (!handing_over.is_empty()).then(|| median(&mut handing_over)),
        }
    }

    fn seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.seconds).sum()
    }

    /// Formats a table, with a line on the host's time below it.
    pub fn text(&self, peak: Option<Peak>) -> String {
        let width = |of: fn(&StepProfile) -> &str, head: &str| {
            self.steps
                .iter()
                .map(|step| of(step).chars().count())
                .chain([head.len()])
                .max()
                .unwrap_or(0)
        };
        let (values, kernels) =
            (width(|step| &step.value, "value"), width(|step| &step.kernel, "kernel"));
        let mut text = format!(
            "  step  {:<values$}  {:<kernels$} launches       time  share  GFLOP/s     GB/s  of roofline\n",
            "value", "kernel"
        );
        let line = |number: &str,
                    value: &str,
                    kernel: &str,
                    launches: u64,
                    seconds: f64,
                    flops: u64,
                    bytes: u64| {
            let percent = |share: f64| format!("{:.0}%", share * 100.0);
            format!(
                "  {number:>4}  {value:<values$}  {kernel:<kernels$} {launches:>8} {:>10} {:>6} {:>8} {:>8} {:>12}",
                time(seconds),
                percent(seconds / self.seconds()),
                significant(flops as f64 / seconds * 1e-9),
                significant(bytes as f64 / seconds * 1e-9),
                peak.map_or("-".into(), |peak| percent(peak.least(flops, bytes) / seconds)),
            )
        };
        for s in &self.steps {
            text += &line(
                &s.number.to_string(),
                &s.value,
                &s.kernel,
                s.launches,
                s.seconds,
                s.flops,
                s.bytes,
            );
            text += if s.tuned { "  tuned\n" } else { "\n" };
        }
        let sum =
            |of: fn(&StepProfile) -> u64| self.steps.iter().map(of).fold(0, u64::saturating_add);
        let launches = sum(|step| step.launches);
        text += &(line(
            "",
            "all",
            "",
            launches,
            self.seconds(),
            sum(|step| step.flops),
            sum(|step| step.bytes),
        ) + "\n");
        if let Some(seconds) = self.handing_over {
            let each = time(seconds / launches.max(1) as f64);
            text += &format!("  handed over by the host in {}, {each} a launch\n", time(seconds));
        }
        text
    }

    /// Formats a JSON line for each step, starting with the keys that identify the measurement.
    pub fn json(&self, row: &Row) -> String {
        let measurement = &row.measurement;
        let line = |step: &StepProfile| {
            let rate = |count: u64| number(Some(count as f64 / step.seconds * 1e-9));
            let roofline = row.peak.map(|peak| peak.least(step.flops, step.bytes) / step.seconds);
            json::line(&JsonLine {
                workload: &measurement.workload,
                device: &measurement.device,
                variant: &measurement.variant,
                step: step.number,
                value: &step.value,
                kernel: &step.kernel,
                tuned: step.tuned,
                launches: step.launches,
                time_s: number(Some(step.seconds)),
                share: number(Some(step.seconds / self.seconds())),
                gflops: rate(step.flops),
                gbs: rate(step.bytes),
                flops: step.flops,
                bytes: step.bytes,
                share_of_roofline: number(roofline),
                handing_over_s: number(self.handing_over),
            })
        };
        self.steps.iter().map(line).collect()
    }
}

/// The JSON object of a step.
#[derive(Serialize)]
struct JsonLine<'a> {
    workload: &'a str,
    device: &'a str,
    variant: &'a str,
    step: usize,
    value: &'a str,
    kernel: &'a str,
    tuned: bool,
    launches: u64,
    time_s: Box<RawValue>,
    share: Box<RawValue>,
    gflops: Box<RawValue>,
    gbs: Box<RawValue>,
    flops: u64,
    bytes: u64,
    share_of_roofline: Box<RawValue>,
    handing_over_s: Box<RawValue>,
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_steps() {
        let step = |number: usize, value: &str, launches, seconds, flops, bytes| {
            let (value, kernel) = (value.to_string(), "dense_relu".to_string());
            StepProfile {
                number,
                value,
                kernel,
                tuned: number == 1,
                launches,
                seconds,
                flops,
                bytes,
            }
        };
        let steps = vec![
            step(0, "encoder[0].ff.Y", 1, 0.75e-3, 60_000_000, 12_000),
            step(1, "Z", 200, 0.25e-3, 0, 5_000_000),
        ];
        let profile = Profile { steps, handing_over: Some(402e-6) };
        let peak = Peak { flops: 100e9, bandwidth: 40e9 };
        insta::assert_snapshot!(profile.text(Some(peak)) + &profile.text(None), @"
        step  value            kernel     launches       time  share  GFLOP/s     GB/s  of roofline
           0  encoder[0].ff.Y  dense_relu        1     750 µs    75%     80.0   0.0160          80%
           1  Z                dense_relu      200     250 µs    25%        0     20.0          50%  tuned
              all                              201    1.00 ms   100%     60.0     5.01          60%
        handed over by the host in 402 µs, 2.00 µs a launch
        step  value            kernel     launches       time  share  GFLOP/s     GB/s  of roofline
           0  encoder[0].ff.Y  dense_relu        1     750 µs    75%     80.0   0.0160            -
           1  Z                dense_relu      200     250 µs    25%        0     20.0            -  tuned
              all                              201    1.00 ms   100%     60.0     5.01            -
        handed over by the host in 402 µs, 2.00 µs a launch
        ");
    }
}
