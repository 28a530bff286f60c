//! Loss and metrics over the epochs as an SVG picture. Each has a panel with training and
//! validation.

use std::path::Path;

use plotters::prelude::*;
use tile_runtime::train::{Epoch, Reading};

use crate::terminal::{Failure, write_file};

/// The width of the picture and the height of a panel, in pixels.
const WIDTH: u32 = 720;
const PANEL: u32 = 280;

/// Draws the history to the file `path`.
pub fn draw(history: &[Epoch], path: &Path) -> Result<(), Failure> {
    let picture =
        svg(history).map_err(|error| Failure::machine(format!("cannot draw the plot: {error}")))?;
    write_file(path, picture)
}

fn svg(history: &[Epoch]) -> Result<String, Box<dyn std::error::Error>> {
    let names: Vec<String> = history
        .first()
        .map_or(Vec::new(), |epoch| numbers(&epoch.training).map(|(name, _)| name).collect());
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (WIDTH, PANEL * names.len().max(1) as u32))
        .into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, name) in area.split_evenly((names.len().max(1), 1)).iter().zip(&names) {
        let curve = |results: fn(&Epoch) -> &[(String, Reading)]| -> Vec<(f64, f64)> {
            let value = |epoch: &Epoch| {
                numbers(results(epoch)).find(|(other, _)| other == name).map(|(_, value)| value)
            };
            history
                .iter()
                .filter_map(|epoch| Some(((epoch.epoch + 1) as f64, value(epoch)?)))
                .collect()
        };
        let (training, validation) =
            (curve(|epoch| &epoch.training), curve(|epoch| &epoch.validation));
        let all = || training.iter().chain(&validation).filter(|(_, value)| value.is_finite());
        let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), (_, value)| {
            (low.min(*value), high.max(*value))
        });
        let (first, last) = all().fold((f64::MAX, f64::MIN), |(low, high), (epoch, _)| {
            (low.min(*epoch), high.max(*epoch))
        });
        if low > high {
            continue;
        }
        let margin = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-6);
        // A single epoch is centred.
        let axis = if first < last { first..last } else { first - 0.5..last + 0.5 };
        let mut chart = ChartBuilder::on(panel)
            .caption(name, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(axis, low - margin..high + margin)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("epoch")
            // Ticks between epochs have no label.
            .x_label_formatter(&|epoch| {
                if epoch.fract().abs() < 1e-9 { epoch.to_string() } else { String::new() }
            })
            .label_style(("sans-serif", 13))
            .draw()?;
        for (points, label, color) in [
            (training, "training", RGBColor(0, 114, 178)),
            (validation, "validation", RGBColor(213, 94, 0)),
        ] {
            if points.is_empty() {
                continue;
            }
            let dots = points.iter().map(|point| Circle::new(*point, 3, color.filled()));
            chart.draw_series(dots.collect::<Vec<_>>())?;
            chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?.label(label).legend(
                move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)),
            );
        }
        chart
            .configure_series_labels()
            .label_font(("sans-serif", 13))
            .border_style(BLACK.mix(0.2))
            .draw()?;
    }
    area.present()?;
    drop(area);
    Ok(picture)
}

/// Returns the results as numbers. Elements of a list are named `precision[0]`.
fn numbers(results: &[(String, Reading)]) -> impl Iterator<Item = (String, f64)> + '_ {
    results.iter().flat_map(|(name, reading)| {
        let named = move |number: usize| match reading {
            Reading::Number(_) => name.clone(),
            Reading::List(_) => format!("{name}[{number}]"),
        };
        reading.values().iter().enumerate().map(move |(number, value)| (named(number), *value))
    })
}
