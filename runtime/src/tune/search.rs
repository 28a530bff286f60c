//! The order in which schedules are measured, and when to stop. Nothing here depends on a device.
//!
//! Candidates come in the order of the cost model. A product has thousands, most of them alike, so
//! there are two passes: the first over one schedule of each *family*, which are the schedules with
//! the same tiles; the second over the rest of the winner's family. A pass ends when the next
//! candidate is predicted to take [`SLOW`] times as long as the best one was predicted to, when too
//! many in a row did not win, or when time is up. The first candidate of each template is measured
//! unless it is predicted to be [`FAR_TOO_SLOW`], since the model is least certain between
//! templates.

use std::mem::{Discriminant, discriminant};

use tile_compiler::schedule::{Blocking, MatrixTiling, Schedule, Slicing, Tiling};

/// The most times that a candidate may be predicted to take longer than the best one.
const SLOW: f64 = 3.0;

/// The same for the first of a template. It is bounded because a driver may kill a program whose
/// kernel takes seconds.
const FAR_TOO_SLOW: f64 = 50.0;

/// The most candidates in a row that do not win: of families, and within one.
const FAMILIES: usize = 16;
const WITHIN: usize = 12;

/// If there are at most this many candidates, all are measured, except those predicted to be slow.
const FEW: usize = 12;

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The number of the candidate that won.
    pub winner: usize,
    /// The number of candidates measured, the first included.
    pub measured: usize,
    /// Whether the search was not cut short.
    pub finished: bool,
}

/// Returns a schedule without the details that change little, as the name of its family.
fn family(schedule: &Schedule) -> Schedule {
    match schedule {
        Schedule::Pointwise { width, .. } => Schedule::Pointwise { workgroup: 0, width: *width },
        Schedule::Reduction(s) => Schedule::Reduction(Slicing { places: 0, ..*s }),
        Schedule::Rows { lanes, width, .. } => {
            Schedule::Rows { workgroup: 0, lanes: *lanes, width: *width }
        }
        Schedule::Transform { width, .. } => Schedule::Transform { workgroup: 0, width: *width },
        Schedule::Contraction(t) => Schedule::Contraction(Tiling {
            block_reduction: 0,
            warp_rows: 0,
            buffers: 0,
            band: 0,
            ..*t
        }),
        Schedule::Matrices(t) => {
            Schedule::Matrices(MatrixTiling { block_reduction: 0, buffers: 0, band: 0, ..*t })
        }
        Schedule::Attention(t) => Schedule::Attention(Blocking { depth: 0, ..*t }),
        Schedule::Native(method) => Schedule::Native(*method),
    }
}

/// Searches candidates, given with their predicted times. The first one is the best so far. `known`
/// is the number of one that won an earlier search, and comes next. Candidates marked in `tried`
/// were measured before and are skipped; those measured now are marked. `wins` measures a candidate
/// and returns whether it is better than the best before it. `goes_on` is asked before each.
///
/// # Errors
/// The first error of `wins`.
pub fn search<E>(
    candidates: &[(f64, Schedule)],
    known: Option<usize>,
    tried: &mut Vec<bool>,
    mut wins: impl FnMut(usize) -> Result<bool, E>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Searched, E> {
    let mut result = Searched { winner: 0, measured: 1, finished: true };
    if candidates.len() < 2 {
        return Ok(result);
    }
    tried.resize(candidates.len(), false);
    tried[0] = true;
    known.iter().for_each(|&known| tried[known] = known == 0);
    let template = |number: usize| discriminant(&candidates[number].1);
    let mut pass = |numbers: &mut dyn Iterator<Item = usize>, patience: usize| {
        let mut lost = 0;
        let mut templates: Vec<Discriminant<Schedule>> = vec![template(0)];
        for number in numbers {
            let slower = candidates[number].0 / candidates[result.winner].0;
            let is_wanted = match templates.contains(&template(number)) {
                true => lost < patience && slower <= SLOW,
                false => slower <= FAR_TOO_SLOW,
            };
            if tried[number] || !is_wanted {
                continue;
            }
            if !goes_on() {
                result.finished = false;
                break;
            }
            templates.push(template(number));
            tried[number] = true;
            result.measured += 1;
            if wins(number)? {
                (result.winner, lost) = (number, 0);
            } else {
                lost += 1;
            }
        }
        Ok::<_, E>((result.winner, result.finished))
    };
    pass(&mut known.into_iter(), 1)?;
    if candidates.len() <= FEW {
        pass(&mut (0..candidates.len()), FEW)?;
        return Ok(result);
    }
    let mut seen = Vec::new();
    let mut is_first = |schedule: &Schedule| {
        let family = family(schedule);
        let is_new = !seen.contains(&family);
        seen.extend(is_new.then_some(family));
        is_new
    };
    let mut leaders = (0..candidates.len()).filter(|&number| is_first(&candidates[number].1));
    let (winner, finished) = pass(&mut leaders, FAMILIES)?;
    if finished {
        let won = family(&candidates[winner].1);
        let mut others =
            (0..candidates.len()).filter(|&number| family(&candidates[number].1) == won);
        pass(&mut others, WITHIN)?;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches products whose times are given by `time`. At most `most` may be measured.
    fn searched(count: u32, most: usize, time: impl Fn(u32, u32) -> f64) -> (Searched, Vec<usize>) {
        let tiling = |block_rows: u32, warp_rows: u32| {
            let (block_columns, block_reduction, thread_rows, thread_columns) = (1, 1, 1, 1);
            let (buffers, band) = (1, 1);
            Schedule::Contraction(Tiling {
                block_rows,
                block_columns,
                block_reduction,
                thread_rows,
                thread_columns,
                warp_rows,
                buffers,
                band,
            })
        };
        let of = |schedule: &Schedule| match schedule {
            Schedule::Contraction(t) => time(t.block_rows, t.warp_rows),
            _ => 0.25,
        };
        let mut candidates: Vec<(f64, Schedule)> = Vec::new();
        for number in 0..count {
            for warp in 0..3 {
                candidates.push((1.0 + f64::from(number) / 10.0, tiling(number, warp)));
            }
        }
        candidates.push((20.0, Schedule::Pointwise { workgroup: 64, width: 1 }));
        let (mut order, mut best) = (Vec::new(), of(&candidates[0].1));
        let allowed = std::cell::Cell::new(most);
        let wins = |number: usize| {
            order.push(number);
            let time = of(&candidates[number].1);
            let won = time < best;
            best = best.min(time);
            Ok::<_, ()>(won)
        };
        let goes_on = || allowed.replace(allowed.get().saturating_sub(1)) > 0;
        let result = search(&candidates, None, &mut Vec::new(), wins, goes_on).unwrap();
        (result, order)
    }

    #[test]
    fn families_first_then_the_winners_own() {
        let (result, order) = searched(4, 100, |number, warp| {
            if (number, warp) == (2, 1) { 0.125 } else { 4.0 / (2.0 + f64::from(number)) }
        });
        // Pointwise takes 0.25 and wins the first pass.
        assert_eq!(order, [3, 6, 9, 12]);
        assert_eq!(result, Searched { winner: 12, measured: 5, finished: true });
        let (result, order) =
            searched(
                4,
                100,
                |number, warp| if number == 2 { 0.2 - f64::from(warp) / 100.0 } else { 1.0 },
            );
        assert_eq!(order, [3, 6, 9, 12, 7, 8]);
        assert_eq!(result, Searched { winner: 8, measured: 7, finished: true });
    }

    #[test]
    fn it_stops_where_nothing_is_to_be_expected() {
        // Nothing wins: as many families as allowed, one of the other template, and the others of
        // the first family.
        let (result, order) = searched(30, 100, |_, _| 0.1);
        assert_eq!(order.len(), FAMILIES + 1 + 2);
        assert_eq!(result, Searched { winner: 0, measured: FAMILIES + 4, finished: true });
        // Each wins until one is predicted to be three times as slow as the best, which none is, as
        // the best is the one before.
        let (result, _) = searched(30, 100, |number, _| 1.0 / f64::from(number + 1) + 1.0);
        assert_eq!(result.measured, 30 + 1);
        // Slow ones are left out.
        let (result, _) = searched(40, 100, |number, _| f64::from(number % 2) + 1.0);
        assert!(result.measured <= 21 + 1 + 2, "{result:?}");
        // Time is up.
        let (result, order) = searched(30, 5, |_, _| 1.0);
        assert_eq!((result.measured, order.len(), result.finished), (6, 5, false));
    }
}
