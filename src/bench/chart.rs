//! Sweeps as an SVG picture: a panel for each workload with speed over size. Each device has a
//! line, and a dashed one for its peak.

use std::path::Path;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::report::Row;
use crate::terminal::{Failure, write_file};

/// The width of the picture and the height of a panel, in pixels.
const WIDTH: u32 = 840;
const PANEL: u32 = 340;

/// The colours of the devices, in order, distinguishable to colour-blind readers.
const COLORS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];

/// The arithmetic intensity, in operations a byte, at which a workload counts as compute-bound.
/// Others are compared with the memory bandwidth.
const INTENSE: f64 = 10.0;

/// Draws the rows to the file `path`.
pub fn draw(rows: &[Row], path: &Path) -> Result<(), Failure> {
    let picture = svg(rows).map_err(|error| Failure::machine(format!("cannot draw the plot: {error}")))?;
    write_file(path, picture)
}

fn svg(rows: &[Row]) -> Result<String, Box<dyn std::error::Error>> {
    let mut workloads: Vec<&str> = rows.iter().map(|row| row.measurement.workload.as_str()).collect();
    workloads.dedup();
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (WIDTH, PANEL * workloads.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, workload) in area.split_evenly((workloads.len(), 1)).iter().zip(workloads) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.measurement.workload == workload).collect();
        draw_panel(panel, workload, &rows)?;
    }
    area.present()?;
    drop(area);
    Ok(picture)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_panel(panel: &Panel, workload: &str, rows: &[&Row]) -> Result<(), Box<dyn std::error::Error>> {
    let largest = rows.iter().max_by_key(|row| row.measurement.size);
    let intense = largest
        .and_then(|row| row.measurement.cost)
        .is_some_and(|cost| cost.flops as f64 >= INTENSE * cost.bytes as f64);
    let speed = |row: &Row| match intense {
        true => row.measurement.flops(),
        false => row.measurement.bandwidth(),
    };
    let best = |row: &Row| row.peak.map(|peak| if intense { peak.flops } else { peak.bandwidth } * 1e-9);
    let point = |row: &&Row| Some((row.measurement.size? as f64, speed(row)? * 1e-9));
    let points: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)))
    };
    let (left, right) = range(&mut points.iter().map(|(size, _)| *size));
    let (low, high) = range(&mut points.iter().map(|(_, speed)| *speed).chain(rows.iter().filter_map(|row| best(row))));
    if points.is_empty() || low <= 0.0 {
        return Ok(());
    }
    // The room below the lines holds the key.
    let (low, high) = (low / 4.0, high * 1.5);
    let mut chart = ChartBuilder::on(panel)
        .caption(workload, ("sans-serif", 18))
        .margin(16)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (left..right).log_scale().base(2.0),
            (low..high).log_scale().with_key_points(ticks(low, high)),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(if workload == "matmul" { "N of N x N" } else { "rows" })
        .y_desc(if intense { "GFLOP/s" } else { "GB/s" })
        .x_label_formatter(&|size| format!("{size:.0}"))
        .y_label_formatter(&|speed| ((speed * 1e6).round() / 1e6).to_string())
        .label_style(("sans-serif", 13))
        .draw()?;
    let mut devices: Vec<&str> = rows.iter().map(|row| row.measurement.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    for (device, color) in devices.into_iter().zip(COLORS.iter().cycle()) {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.measurement.device == device).collect();
        let line: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
        let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
        chart.draw_series(LineSeries::new(line.clone(), color.stroke_width(2)))?.label(device).legend(key);
        chart.draw_series(line.iter().map(|at| Circle::new(*at, 3, color.filled())))?;
        if let Some(peak) = rows.iter().find_map(|row| best(row)) {
            let ends = [(left, peak), (right, peak)];
            let key = move |(x, y)| DashedPathElement::new([(x, y), (x + 18, y)], 6, 4, color.stroke_width(1));
            let dashed = DashedLineSeries::new(ends, 6, 4, color.stroke_width(1));
            chart.draw_series(dashed)?.label(format!("{device}, peak")).legend(key);
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.filled())
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

/// Returns the numbers 1, 2, 5, 10, … within a positive range.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().floor() as i32;
    let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_ranges() {
        assert_eq!(ticks(0.4, 25.0), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(125.0, 636.0), [200.0, 500.0]);
    }
}
