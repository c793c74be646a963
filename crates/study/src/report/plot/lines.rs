//! Figures against the number of threads.
//!
//! A line a contestant, a whisker an interval, and behind them curves that nobody measured: what
//! would be ideal, and what models say.

use maud::Markup;

use super::axis::Axis;
use super::canvas::{Area, Hit, Marker, PlotError, draw};
use super::ink::Ink;

/// A figure with its interval, where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Threads.
    pub(crate) x: u64,
    /// The figure.
    pub(crate) y: f64,
    /// The ends of its interval.
    pub(crate) interval: Option<(f64, f64)>,
}

/// A contestant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    pub(crate) marker: Marker,
    /// By ascending threads.
    pub(crate) points: Vec<Point>,
}

/// What was not measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    pub(crate) ink: Ink,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How values are laid along the upright axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0.
    Linear,
    /// By factors.
    Log,
}

/// A plot of figures against threads.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    /// What it shows, in a sentence.
    pub(crate) about: &'a str,
    /// The figure and its unit.
    pub(crate) y: &'a str,
    /// The unit, after a figure.
    pub(crate) unit: &'a str,
    pub(crate) scale: Scale,
    pub(crate) series: &'a [Series],
    pub(crate) curves: &'a [Curve],
}

/// Pixels.
const SIZE: (f64, f64) = (560.0, 340.0);

impl Lines<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Result<Markup, PlotError> {
        let area = Area::within_axes(SIZE);
        let mut threads: Vec<u64> = self.points().map(|point| point.x).collect();
        threads.sort_unstable();
        threads.dedup();
        let x = Axis::threads(&threads);
        let measured = || {
            self.points().flat_map(|point| {
                let (low, high) = point.interval.unwrap_or((point.y, point.y));
                [point.y, low, high]
            })
        };
        let y = match self.scale {
            Scale::Log => {
                let curves = self.curves.iter().flat_map(|curve| &curve.points);
                Axis::log(measured().chain(curves.map(|point| point.1)))
            }
            Scale::Linear => {
                let curves = self.curves.iter().flat_map(|curve| &curve.points);
                // an ideal far above everything must not squeeze what was measured
                let most = measured().fold(0.0, f64::max) * 1.35;
                Axis::from_zero(measured().chain(curves.map(|point| point.1.min(most))))
            }
        };
        draw(self.about, SIZE, |canvas| {
            canvas.axes(
                &area,
                ("threads", &x.ticks_at(&threads, 0.055)),
                (self.y, &y.ticks()),
            );
            for curve in self.curves {
                let inside = |&&(px, py): &&(f64, f64)| {
                    (0.0..=1.0).contains(&x.place(px)) && (0.0..=1.001).contains(&y.place(py))
                };
                let points = curve.points.iter().filter(inside);
                canvas.path(
                    points.map(|&(px, py)| area.at(x.place(px), y.place(py))),
                    curve.ink,
                    1.5,
                );
            }
            for (index, series) in self.series.iter().enumerate() {
                // beside each other where intervals would lie on top of each other
                let aside = (index as f64 - (self.series.len() as f64 - 1.0) / 2.0) * 3.0;
                let at = |px: u64, py: f64| {
                    let (px, py) = area.at(x.place(px as f64), y.place(py));
                    (px + aside, py)
                };
                canvas.path(
                    series.points.iter().map(|point| at(point.x, point.y)),
                    series.ink,
                    2.0,
                );
                for point in &series.points {
                    if let Some((low, high)) = point.interval {
                        let (px, from) = at(point.x, low);
                        canvas.whisker(px, from, at(point.x, high).1, series.ink);
                    }
                    let place = at(point.x, point.y);
                    canvas.marker(place, series.marker, series.ink);
                    canvas.hit(self.hit(series, point, place));
                }
            }
        })
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn hit(&self, series: &Series, point: &Point, at: (f64, f64)) -> Hit {
        let threads = match point.x {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        let interval = point
            .interval
            .map_or_else(String::new, |(low, high)| format!(" [{low:.2}, {high:.2}]"));
        Hit {
            at,
            series: series.name.clone(),
            x: point.x.to_string(),
            y: point.y,
            title: format!(
                "{}, {threads}: {:.2}{}{interval}",
                series.name, point.y, self.unit
            ),
        }
    }
}
