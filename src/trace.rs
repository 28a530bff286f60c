//! `--trace FILE`: writes the start and duration of each kernel as JSON trace events, for
//! chrome://tracing and Perfetto.

use std::path::Path;

use serde_json::{Value, json};
use tile_compiler::plan::Plan;
use tile_runtime::Trace;

use crate::terminal::{Failure, write_file};

/// A trace file of several runs, each in its own row.
#[derive(Default)]
pub struct TraceFile {
    runs: u64,
    events: Vec<Value>,
}

impl TraceFile {
    /// Adds a run of `plan` on a device, as the row `what`.
    pub fn add(&mut self, what: &str, device: &str, plan: &Plan, trace: &Trace) {
        let microseconds = |seconds: f64| (seconds * 1e9).round() / 1e3;
        let pid = self.runs;
        self.runs += 1;
        let named = |kind: &str, name: &str| json!({"name": kind, "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}});
        self.events.extend([named("process_name", what), named("thread_name", device)]);
        for launch in &trace.launches {
            let step = &plan.steps[launch.step];
            let kernel = &plan.routines[step.routine].name;
            let cost = plan.step_cost(step);
            self.events.push(json!({
                "name": step.name(),
                "cat": "kernel",
                "ph": "X",
                "ts": microseconds(launch.start),
                "dur": microseconds(launch.seconds),
                "pid": pid,
                "tid": 0,
                "args": {"step": launch.step, "kernel": kernel, "flops": cost.flops, "bytes": cost.bytes},
            }));
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = json!({"displayTimeUnit": "ns", "traceEvents": self.events}).to_string();
        write_file(path, text)
    }
}
