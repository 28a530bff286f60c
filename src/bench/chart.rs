//! Sweeps as an SVG picture: a panel for each workload with speed over size. Each device has a
//! line, and a dashed one for its peak.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::peak::Peak;
use super::report::Row;
use super::workload::Point;
use crate::terminal::{Failure, write_file};

/// The width of the picture, and the heights of a panel and of a line of its key, in pixels.
const WIDTH: u32 = 840;
const PANEL: u32 = 340;
const KEY: u32 = 20;

/// The colours of the devices, in order, distinguishable to colour-blind readers (Okabe and Ito).
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// The arithmetic intensity, in operations a byte, at which a workload counts as compute-bound.
/// Others are compared with the memory bandwidth.
const INTENSE: f64 = 10.0;

/// The maximum number of labels on the axis of sizes.
const MOST_LABELS: usize = 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Draws the rows to the file `path`.
pub fn draw(rows: &[Row], path: &Path) -> std::result::Result<(), Failure> {
    let picture =
        svg(rows).map_err(|error| Failure::machine(format!("cannot draw the plot: {error}")))?;
    write_file(path, picture)
}

fn svg(rows: &[Row]) -> Result<String> {
    let mut workloads: Vec<&str> =
        rows.iter().map(|row| row.measurement.workload.as_str()).collect();
    workloads.dedup();
    let panels: Vec<Panel> =
        workloads.iter().filter_map(|workload| Panel::new(workload, rows)).collect();
    let height: u32 = panels.iter().map(Panel::height).sum();
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (WIDTH, height.max(1))).into_drawing_area();
    area.fill(&WHITE)?;
    let mut rest = area.clone();
    for panel in &panels {
        let (here, below) = rest.split_vertically(panel.height());
        panel.draw(&here)?;
        rest = below;
    }
    area.present()?;
    drop((area, rest));
    Ok(picture)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<SizeAxis, WithKeyPoints<LogCoord<f64>>>>;

/// The horizontal axis. plotters has a type of axis for each scale.
struct SizeAxis {
    range: Range<f64>,
    log: bool,
    labels: Vec<f64>,
}

impl SizeAxis {
    fn place(&self, size: f64) -> f64 {
        if self.log { size.max(1.0).log10() } else { size }
    }
}

impl Ranged for SizeAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, size: &f64, limit: (i32, i32)) -> i32 {
        let (left, right) = (self.place(self.range.start), self.place(self.range.end));
        // One size alone is in the middle.
        let share = if left < right { (self.place(*size) - left) / (right - left) } else { 0.5 };
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.labels.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The chart of one workload.
struct Panel<'a> {
    title: &'a str,
    /// The name and scale of the sizes, from a row.
    point: &'a Point,
    /// Whether speed is in operations, and not in bytes.
    intense: bool,
    lines: Vec<Curve<'a>>,
}

/// The measurements on one device.
struct Curve<'a> {
    device: &'a str,
    adapter: &'a str,
    /// Sizes and speeds, in ascending order of size.
    points: Vec<(f64, f64)>,
    peak: Option<f64>,
    color: RGBColor,
}

impl<'a> Panel<'a> {
    /// Returns the chart of a workload, or `None` if there is nothing to draw.
    fn new(title: &'a str, rows: &'a [Row]) -> Option<Panel<'a>> {
        let rows = || rows.iter().filter(|row| row.measurement.workload == title);
        let size = |row: &&Row| row.measurement.point.as_ref().map(|point| point.size);
        let point = rows().find_map(|row| row.measurement.point.as_ref())?;
        // The reference interpreter has no plan, and so no cost.
        let largest = rows().filter(|row| row.measurement.cost.is_some()).max_by_key(size)?;
        let intense = largest
            .measurement
            .cost
            .is_some_and(|cost| cost.flops as f64 >= INTENSE * cost.bytes as f64);
        let speed = |row: &Row| match intense {
            true => row.measurement.flops(),
            false => row.measurement.bandwidth(),
        };
        let best = |peak: Peak| if intense { peak.flops } else { peak.bandwidth } * 1e-9;
        let mut devices: Vec<&str> = rows().map(|row| row.measurement.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        let line = |(device, color): (&'a str, &RGBColor)| {
            let rows = || rows().filter(|row| row.measurement.device == device);
            let at = |row: &'a Row| {
                Some((size(&row)? as f64, speed(row).filter(|speed| *speed > 0.0)? * 1e-9))
            };
            let mut points: Vec<(f64, f64)> = rows().filter_map(at).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let row = rows().next().filter(|_| !points.is_empty())?;
            Some(Curve {
                device,
                adapter: &row.adapter,
                points,
                peak: row.peak.map(best),
                color: *color,
            })
        };
        let lines: Vec<Curve> =
            devices.into_iter().zip(COLORS.iter().cycle()).filter_map(line).collect();
        (!lines.is_empty()).then_some(Panel { title, point, intense, lines })
    }

    fn height(&self) -> u32 {
        PANEL + KEY * self.lines.len() as u32
    }

    /// Returns the labelled sizes.
    fn labels(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|(size, _)| *size)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let every = sizes.len().div_ceil(MOST_LABELS).max(1);
        match self.point.log {
            true => sizes.into_iter().step_by(every).collect(),
            false => even_ticks(sizes.last().copied().unwrap_or(1.0)),
        }
    }

    fn draw(&self, area: &Area) -> Result<()> {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
                (low.min(value), high.max(value))
            })
        };
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (left, right) = range(&mut points().map(|(size, _)| *size));
        let peaks = self.lines.iter().filter_map(|line| line.peak);
        let (low, high) = range(&mut points().map(|(_, speed)| *speed).chain(peaks));
        let (low, high) = (low / 1.5, high * 1.5);
        let left = if self.point.log { left } else { 0.0 };
        let sizes = SizeAxis { range: left..right, log: self.point.log, labels: self.labels() };
        let (above, key) = area.split_vertically(PANEL);
        let mut chart = ChartBuilder::on(&above)
            .caption(self.title, ("sans-serif", 18))
            .margin(16)
            .margin_right(28)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(sizes, (low..high).log_scale().with_key_points(ticks(low, high)))?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(&self.point.axis)
            .y_desc(if self.intense { "GFLOP/s" } else { "GB/s" })
            .x_label_formatter(&|size| label(*size))
            .y_label_formatter(&|speed| ((speed * 1e6).round() / 1e6).to_string())
            .label_style(("sans-serif", 13))
            .draw()?;
        for (number, line) in self.lines.iter().enumerate() {
            line.draw(&mut chart, (left, right))?;
            line.draw_key(&key, number as i32)?;
        }
        Ok(())
    }
}

impl Curve<'_> {
    /// Draws the speeds, and the peak from the first size to the last.
    fn draw(&self, chart: &mut Chart, (left, right): (f64, f64)) -> Result<()> {
        chart.draw_series(LineSeries::new(self.points.clone(), self.color.stroke_width(2)))?;
        chart.draw_series(self.points.iter().map(|at| Circle::new(*at, 3, self.color.filled())))?;
        if let Some(peak) = self.peak {
            let ends = [(left, peak), (right, peak)];
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, self.color.stroke_width(1)))?;
        }
        Ok(())
    }

    /// Draws a line of the key, below the chart, where it hides nothing.
    fn draw_key(&self, area: &Area, number: i32) -> Result<()> {
        let y = number * KEY as i32 + KEY as i32 / 2;
        let text = |text: String, x: i32| Text::new(text, (x, y - 6), ("sans-serif", 13));
        area.draw(&PathElement::new([(80, y), (104, y)], self.color.stroke_width(2)))?;
        area.draw(&text(format!("{}: {}", self.device, self.adapter), 112))?;
        if self.peak.is_some() {
            let x = WIDTH as i32 - 100;
            area.draw(&DashedPathElement::new(
                [(x - 32, y), (x - 8, y)],
                6,
                4,
                self.color.stroke_width(1),
            ))?;
            area.draw(&text("peak".into(), x))?;
        }
        Ok(())
    }
}

/// Formats a size with few characters: `4096`, `1.5e6`, `1e7`.
fn label(size: f64) -> String {
    let rounded = size.round();
    if rounded < 1e5 {
        rounded.to_string()
    } else {
        format!("{:e}", format!("{rounded:.2e}").parse().unwrap_or(rounded))
    }
}

/// Returns the multiples of 1, 2 or 5 times a power of ten up to `high`, at most about eight.
fn even_ticks(high: f64) -> Vec<f64> {
    let decade = 10f64.powf((high.max(1.0) / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|step| step * 8.0 >= high);
    let step = step.unwrap_or(high).max(1.0);
    (0..=(high / step) as usize).map(|number| number as f64 * step).collect()
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
        assert_eq!(even_ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(even_ticks(3.0), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(even_ticks(1e7).len(), 6);
    }

    #[test]
    fn labels() {
        assert_eq!([16.0, 4096.0, 1e7, 1.5e6].map(label), ["16", "4096", "1e7", "1.5e6"]);
    }
}
