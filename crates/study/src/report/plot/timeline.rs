//! When each worker wrote which sections.
//!
//! A row a worker, a bar a stretch of sections, coloured by the node that they belong to. Where there
//! are more pieces of work than pixels, neighbours are drawn as one, and the page says so.

use maud::Markup;

use super::axis::{Axis, number};
use super::canvas::{Area, Hit, PlotError, Stand, draw};
use super::ink::Ink;

/// A stretch of work of one worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The row, from the top.
    pub(crate) row: usize,
    /// The colour, by number.
    pub(crate) shade: usize,
    /// From when, ns after the start.
    pub(crate) begin: u64,
    /// To when, ns after the start.
    pub(crate) end: u64,
    /// The first section.
    pub(crate) section: u64,
    /// How many sections.
    pub(crate) sections: u64,
}

/// A timeline.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<'a> {
    /// What it shows, in a sentence.
    pub(crate) about: &'a str,
    /// Names of rows.
    pub(crate) rows: &'a [String],
    /// In any order.
    pub(crate) bars: &'a [Bar],
}

const WIDTH: f64 = 1140.0;

/// Room for the names of rows, pixels.
const NAMES: f64 = 120.0;

impl Timeline<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Result<Markup, PlotError> {
        // a host of 384 CPUs has thin rows without names, but all of them
        let tall = (640.0 / self.rows.len().max(1) as f64).clamp(3.0, 22.0);
        let area = Area {
            left: NAMES,
            top: 8.0,
            width: WIDTH - NAMES - 14.0,
            height: tall * self.rows.len() as f64,
        };
        let end = self
            .bars
            .iter()
            .map(|bar| bar.end)
            .max()
            .unwrap_or(1)
            .max(1);
        let (unit, divisor) = unit(end);
        let to = end as f64 / divisor;
        let axis = Axis::Linear { to };
        draw(
            self.about,
            (WIDTH, area.top + area.height + 46.0),
            |canvas| {
                canvas.axes(
                    &area,
                    (&format!("time after the start, {unit}"), &axis.ticks()),
                    ("", &[]),
                );
                for (at, name) in self.rows.iter().enumerate() {
                    let y = area.top + (at as f64 + 0.5) * tall;
                    if tall >= 12.0 {
                        canvas.words((area.left - 7.0, y), &shorten(name), Stand::Left, Ink::Text);
                    }
                }
                for bar in self.bars {
                    let x = |ns: u64| area.left + ns as f64 / end as f64 * area.width;
                    let y = area.top + bar.row as f64 * tall;
                    // a hair of the page's colour between bars
                    let right = (x(bar.end) - 0.5).max(x(bar.begin) + 0.25);
                    canvas.rectangle(
                        (x(bar.begin), y + tall * 0.1),
                        (right, y + tall * 0.9),
                        Ink::Series(bar.shade),
                        1.0,
                    );
                    canvas.hit(Hit {
                        at: ((x(bar.begin) + x(bar.end)) / 2.0, y + tall / 2.0),
                        series: self.rows.get(bar.row).cloned().unwrap_or_default(),
                        x: bar.section.to_string(),
                        y: (bar.end - bar.begin) as f64,
                        title: format!(
                            "{} from section {}: {} {unit} from {}",
                            match bar.sections {
                                1 => "1 section".to_owned(),
                                sections => format!("{sections} sections"),
                            },
                            bar.section,
                            number((bar.end - bar.begin) as f64 / divisor),
                            number(bar.begin as f64 / divisor),
                        ),
                    });
                }
            },
        )
    }
}

fn unit(ns: u64) -> (&'static str, f64) {
    match ns {
        0..10_000 => ("ns", 1.0),
        10_000..10_000_000 => ("µs", 1e3),
        10_000_000..10_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

fn shorten(name: &str) -> String {
    match name.chars().count() {
        0..=17 => name.to_owned(),
        _ => name.chars().take(16).chain(['…']).collect(),
    }
}

/// Joins neighbours of a row and shade until there are at most `most` bars; the total of each row
/// stays what it was up to the gaps that are covered. Bars come back by row and begin.
pub(crate) fn thin(mut bars: Vec<Bar>, most: usize) -> Vec<Bar> {
    bars.sort_unstable_by_key(|bar| (bar.row, bar.begin));
    let end = bars.iter().map(|bar| bar.end).max().unwrap_or(0);
    // what is shorter than that is joined, with ever larger steps
    let mut grain = end / 4096 + 1;
    while bars.len() > most.max(1) {
        let before = bars.len();
        let mut kept: Vec<Bar> = Vec::with_capacity(before / 2);
        for bar in bars {
            match kept.last_mut() {
                Some(last)
                    if last.row == bar.row
                        && last.shade == bar.shade
                        && (bar.end - last.begin <= grain || grain > end) =>
                {
                    last.end = last.end.max(bar.end);
                    last.section = last.section.min(bar.section);
                    last.sections += bar.sections;
                }
                _ => kept.push(bar),
            }
        }
        bars = kept;
        if grain > end {
            break;
        }
        grain *= 2;
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_rows_shades_and_sections() {
        let bars: Vec<Bar> = (0..10_000)
            .map(|i| Bar {
                row: (i % 2) as usize,
                shade: (i / 5000) as usize,
                begin: i / 2 * 10,
                end: i / 2 * 10 + 9,
                section: i,
                sections: 1,
            })
            .collect();
        let thin = thin(bars, 300);
        assert!(thin.len() <= 300, "{}", thin.len());
        assert!(thin.len() > 40, "not more than needed: {}", thin.len());
        for row in 0..2 {
            for shade in 0..2 {
                let of = thin
                    .iter()
                    .filter(|bar| bar.row == row && bar.shade == shade);
                assert_eq!(of.map(|bar| bar.sections).sum::<u64>(), 2500);
            }
        }
    }

    #[test]
    fn few_bars_stay_as_they_are() {
        let bar = Bar {
            row: 0,
            shade: 0,
            begin: 5,
            end: 9,
            section: 3,
            sections: 1,
        };
        assert_eq!(thin(vec![bar.clone()], 300), [bar]);
        assert_eq!(thin(Vec::new(), 300), []);
    }
}
