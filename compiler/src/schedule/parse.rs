//! Parses the text form of a schedule.

use std::str::{FromStr, SplitWhitespace};

use super::{Along, Blocking, MatrixTiling, Schedule, Slicing, Tiling};
use crate::dtype::DType;
use crate::native::Method;
use crate::profile::MatrixUnit;

impl FromStr for Schedule {
    type Err = String;

    /// Parses the displayed form of a schedule. Does not check that the schedule suits a nest.
    fn from_str(text: &str) -> Result<Schedule, String> {
        let mut words = Words(text.split_whitespace());
        let schedule = read(&mut words).filter(|_| words.0.next().is_none());
        schedule.ok_or_else(|| {
            format!("`{text}` is not a schedule such as `pointwise workgroup 128 width 4`")
        })
    }
}

fn read(words: &mut Words) -> Option<Schedule> {
    Some(match words.0.next()? {
        "native" => Schedule::Native(Method::read(&mut words.0)?),
        "pointwise" => Schedule::Pointwise {
            workgroup: words.number("workgroup")?,
            width: words.number("width")?.try_into().ok()?,
        },
        "reduction" => Schedule::Reduction(Slicing {
            places: words.number("places")?,
            slices: words.number("slices")?,
            along: match words.after("along")? {
                "places" => Along::Places,
                "points" => Along::Points,
                _ => return None,
            },
            width: words.number("width")?.try_into().ok()?,
            rows: if words.0.clone().next().is_some() { words.number("rows")? } else { 1 },
        }),
        "rows" => Schedule::Rows {
            workgroup: words.number("workgroup")?,
            lanes: words.number("lanes")?,
            width: words.number("width")?.try_into().ok()?,
        },
        "transform" => Schedule::Transform {
            workgroup: words.number("workgroup")?,
            width: words.number("width")?.try_into().ok()?,
        },
        "contraction" => {
            let [block_rows, block_columns, block_reduction] = words.numbers("block")?;
            let [thread_rows, thread_columns] = words.numbers("thread")?;
            Schedule::Contraction(Tiling {
                block_rows,
                block_columns,
                block_reduction,
                thread_rows,
                thread_columns,
                warp_rows: words.number("warp")?,
                buffers: words.number("buffers")?,
                band: words.number("band")?,
            })
        }
        "matrices" => {
            let factors = DType::parse(words.0.next()?)?;
            let unit = MatrixUnit {
                factors,
                size: words.number("size")?,
                subgroup: words.number("subgroup")?,
            };
            let [block_rows, block_columns, block_reduction] = words.numbers("block")?;
            let [down, across] = words.numbers("subgroups")?;
            let (buffers, band) = (words.number("buffers")?, words.number("band")?);
            Schedule::Matrices(MatrixTiling {
                unit,
                block_rows,
                block_columns,
                block_reduction,
                down,
                across,
                buffers,
                band,
            })
        }
        "attention" => {
            let [rows, points, depth] = words.numbers("block")?;
            let [thread_rows, thread_points] = words.numbers("thread")?;
            Schedule::Attention(Blocking { rows, points, depth, thread_rows, thread_points })
        }
        _ => return None,
    })
}

/// The rest of the text.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    /// Returns the word after `name`, which must be the next word.
    fn after(&mut self, name: &str) -> Option<&'a str> {
        (self.0.next()? == name).then(|| self.0.next())?
    }

    fn number(&mut self, name: &str) -> Option<u32> {
        self.after(name)?.parse().ok()
    }

    /// Parses numbers such as `64x16x16`, after `name`.
    fn numbers<const N: usize>(&mut self, name: &str) -> Option<[u32; N]> {
        let numbers: Vec<u32> =
            self.after(name)?.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        numbers.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::native::Form;

    fn schedule() -> impl Strategy<Value = Schedule> {
        let numbers = prop::array::uniform8(any::<u32>());
        (0..8, numbers, any::<u8>(), any::<bool>()).prop_map(
            |(kind, [a, b, c, d, e, f, g, h], width, along)| match kind {
                0 => Schedule::Native(match width % 10 {
                    0 => Method::Pointwise { chunk: a as usize },
                    1 => Method::Winograd { window: a as usize, tile: b as usize },
                    2 => {
                        Method::Product { rows: a as usize, columns: b as usize, terms: c as usize }
                    }
                    3 => Method::Direct { form: if along { Form::ByNumber } else { Form::Max } },
                    4 => Method::Scatter { rows: a as usize },
                    5 => Method::Reduction { across: along },
                    6 => Method::Pieces { count: a as usize },
                    7 => Method::Running { length: a as usize },
                    8 => Method::Update { row: a as usize },
                    _ => Method::Attention { rows: a as usize },
                }),
                1 => Schedule::Pointwise { workgroup: a, width },
                2 => Schedule::Reduction(Slicing {
                    places: a,
                    slices: b,
                    along: if along { Along::Places } else { Along::Points },
                    width,
                    rows: c.max(1),
                }),
                3 => Schedule::Rows { workgroup: a, lanes: b, width },
                6 => Schedule::Transform { workgroup: a, width },
                4 => Schedule::Attention(Blocking {
                    rows: a,
                    points: b,
                    depth: c,
                    thread_rows: d,
                    thread_points: e,
                }),
                5 => Schedule::Matrices(MatrixTiling {
                    unit: MatrixUnit { size: a, factors: DType::F16, subgroup: b },
                    block_rows: c,
                    block_columns: d,
                    block_reduction: e,
                    down: f,
                    across: g,
                    buffers: h,
                    band: a,
                }),
                _ => Schedule::Contraction(Tiling {
                    block_rows: a,
                    block_columns: b,
                    block_reduction: c,
                    thread_rows: d,
                    thread_columns: e,
                    warp_rows: f,
                    buffers: g,
                    band: h,
                }),
            },
        )
    }

    proptest! {
        #[test]
        fn text_parses_back(schedule in schedule()) {
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9x ]{0,40}") {
            let _ = text.parse::<Schedule>();
        }
    }

    #[test]
    fn what_is_no_schedule() {
        let wrong = [
            "",
            "native",
            "native 1",
            "native scatter rows 1 2",
            "pointwise workgroup 128",
            "pointwise workgroup 128 width 256",
            "reduction places 1",
        ];
        for text in wrong {
            let error = text.parse::<Schedule>().unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is not a schedule such as `pointwise workgroup 128 width 4`")
            );
        }
        assert!(
            "contraction block 1x2 thread 1x1 warp 1 buffers 1 band 1".parse::<Schedule>().is_err()
        );
        assert!("reduction places 1 slices 2 along rows width 1".parse::<Schedule>().is_err());
    }
}
