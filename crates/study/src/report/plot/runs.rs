//! Every run in the order in which it was made.
//!
//! A dot a run: its time over the median of its contestant. A band that wanders is drift, a dot far
//! off an outlier; both are what medians within rounds are there for.

use maud::Markup;

use super::axis::Axis;
use super::canvas::{Area, Hit, Marker, PlotError, draw};
use super::ink::Ink;

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dot {
    /// The contestant, in words.
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// Its place in the order of runs, from 0.
    pub(crate) order: usize,
    /// Its round, from 0.
    pub(crate) round: u64,
    /// Time over the median of its contestant.
    pub(crate) ratio: f64,
    /// Whether it is an outlier.
    pub(crate) outlier: bool,
}

/// At most so many dots on a page.
const DOTS: usize = 4000;

/// Leaves out what cannot be told apart, but no outlier; how many of how many are left where some
/// went.
pub(crate) fn thin(dots: Vec<Dot>) -> (Vec<Dot>, Option<(usize, usize)>) {
    let all = dots.len();
    let step = all.div_ceil(DOTS).max(1);
    let kept: Vec<Dot> = dots
        .into_iter()
        .enumerate()
        .filter(|(at, dot)| dot.outlier || at % step == 0)
        .map(|(_, dot)| dot)
        .collect();
    let note = (kept.len() < all).then_some((kept.len(), all));
    (kept, note)
}

/// All runs.
#[derive(Clone, Debug)]
pub(crate) struct Runs<'a> {
    /// What it shows, in a sentence.
    pub(crate) about: &'a str,
    pub(crate) dots: &'a [Dot],
}

const SIZE: (f64, f64) = (1140.0, 240.0);

impl Runs<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Result<Markup, PlotError> {
        let area = Area::within_axes(SIZE);
        let runs = self.dots.iter().map(|dot| dot.order + 1).max().unwrap_or(1);
        let x = Axis::Linear { to: runs as f64 };
        let y = Axis::log(self.dots.iter().map(|dot| dot.ratio).chain([0.9, 1.12]));
        draw(self.about, SIZE, |canvas| {
            canvas.axes(
                &area,
                ("runs in the order in which they were made", &x.ticks()),
                ("time ÷ median of its contestant", &y.ticks()),
            );
            for dot in self.dots {
                let at = area.at(x.place(dot.order as f64 + 0.5), y.place(dot.ratio));
                match dot.outlier {
                    true => canvas.marker(at, Marker::Cross, Ink::Alarm),
                    false => canvas.dot(at, 2.2, dot.ink, 0.75),
                }
                if dot.outlier {
                    canvas.hit(Hit {
                        at,
                        series: dot.name.clone(),
                        x: dot.order.to_string(),
                        y: dot.ratio,
                        title: format!(
                            "{}, round {}: {:.2} times its median",
                            dot.name,
                            dot.round + 1,
                            dot.ratio
                        ),
                    });
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_runs_every_outlier_is_left() {
        let dots = |count: usize| -> Vec<Dot> {
            let dot = |order| Dot {
                name: "x".into(),
                ink: Ink::Series(0),
                order,
                round: 0,
                ratio: 1.0,
                outlier: order % 1001 == 7,
            };
            (0..count).map(dot).collect()
        };
        let (few, note) = thin(dots(DOTS));
        assert_eq!((few.len(), note), (DOTS, None));
        let (kept, note) = thin(dots(10 * DOTS));
        assert_eq!(note, Some((kept.len(), 10 * DOTS)));
        assert!(kept.len() <= DOTS + 40);
        assert_eq!(kept.iter().filter(|dot| dot.outlier).count(), 40);
    }
}
