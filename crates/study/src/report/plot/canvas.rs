//! What plots are drawn on.
//!
//! A canvas is an SVG of a fixed shape that scales with its page: coordinates are in [`SCALE`]ths of
//! a pixel, so that the drawing library's whole numbers are fine enough. Marks that a reader may
//! point at carry their figures: a `title` that browsers show, and `data-` attributes for programs.

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Tick;
use super::ink::Ink;

/// Parts of a pixel.
const SCALE: f64 = 4.0;

/// Widths of lines that are no curves, pixels: unlike those of curves, so that style sheets can tell.
const CROSS: f64 = 1.75;
const WHISKER: f64 = 1.25;

/// The same as they are written into a plot.
pub(crate) const NO_CURVES: [u32; 2] = [(CROSS * SCALE) as u32, (WHISKER * SCALE) as u32];

/// Height of words, pixels.
const TEXT: f64 = 12.0;

/// The part of a canvas where data are drawn, pixels; half open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// How words stand to their point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stand {
    /// Left of it.
    Left,
    /// Right of it.
    Right,
    /// Centred above.
    Above,
    /// Centred below.
    Below,
    /// Centred.
    Middle,
}

/// A shape for the points of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Disc,
    Square,
    Triangle,
    Diamond,
    Cross,
}

impl Marker {
    /// One of them by number, beginning anew after the last.
    pub(crate) const fn of(index: usize) -> Self {
        match index % 5 {
            0 => Self::Disc,
            1 => Self::Square,
            2 => Self::Triangle,
            3 => Self::Diamond,
            _ => Self::Cross,
        }
    }

    /// For legends in words.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Disc => "●",
            Self::Square => "■",
            Self::Triangle => "▲",
            Self::Diamond => "◆",
            Self::Cross => "✕",
        }
    }
}

/// A mark that shows its figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Where, pixels.
    pub(crate) at: (f64, f64),
    /// The contestant.
    pub(crate) series: String,
    /// Its place on the x axis, in the axis's unit.
    pub(crate) x: String,
    /// Its value, in the unit of the axis.
    pub(crate) y: f64,
    /// What a person is shown.
    pub(crate) title: String,
}

/// Why a plot could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plot `{plot}` could not be drawn: {reason}")]
#[non_exhaustive]
pub struct PlotError {
    plot: String,
    reason: String,
}

/// Collects shapes; drawn by [`Canvas::finish`].
pub(crate) struct Canvas<'s> {
    root: DrawingArea<SVGBackend<'s>, Shift>,
    hits: Vec<Hit>,
    failed: Option<String>,
}

/// Draws a plot of so many pixels; `about` is what it shows, for those who cannot see it.
pub(crate) fn draw(
    about: &str,
    (width, height): (f64, f64),
    paint: impl FnOnce(&mut Canvas<'_>),
) -> Result<Markup, PlotError> {
    let mut svg = String::new();
    let size = (units(width).unsigned_abs(), units(height).unsigned_abs());
    let (hits, failed) = {
        let mut canvas = Canvas {
            root: SVGBackend::with_string(&mut svg, size).into_drawing_area(),
            hits: Vec::new(),
            failed: None,
        };
        paint(&mut canvas);
        let presented = canvas.root.present().err().map(|error| error.to_string());
        (canvas.hits, canvas.failed.or(presented))
    };
    let wrong = |reason: &str| PlotError {
        plot: about.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(reason) = failed {
        return Err(wrong(&reason));
    }
    // its own outermost element is replaced by ours
    let body = svg
        .split_once('>')
        .and_then(|(_, rest)| rest.rsplit_once("</svg>"))
        .map(|(body, _)| body)
        .ok_or_else(|| wrong("no svg element"))?;
    Ok(html! {
        svg class="plot" role="img" aria-label=(about) width=(width)
            viewBox={ "0 0 " (size.0) " " (size.1) } xmlns="http://www.w3.org/2000/svg" {
            (PreEscaped(body))
            @for hit in &hits {
                circle class="hit" cx=(units(hit.at.0)) cy=(units(hit.at.1)) r=(units(8.0))
                    data-series=(hit.series) data-x=(hit.x) data-y=(hit.y) {
                    title { (hit.title) }
                }
            }
        }
    })
}

fn units(pixels: f64) -> i32 {
    // a float is cut to the range of the integer
    (pixels * SCALE).round() as i32
}

fn point((x, y): (f64, f64)) -> (i32, i32) {
    (units(x), units(y))
}

fn stroke(ink: Ink, width: f64) -> ShapeStyle {
    ShapeStyle {
        color: ink.colour().to_rgba(),
        filled: false,
        stroke_width: units(width).unsigned_abs(),
    }
}

fn fill(ink: Ink, opacity: f64) -> ShapeStyle {
    ShapeStyle {
        color: ink.colour().mix(opacity),
        filled: true,
        stroke_width: 0,
    }
}

impl Canvas<'_> {
    fn keep<E: std::error::Error>(&mut self, drawn: Result<(), E>) {
        if let Err(error) = drawn {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// A line through points.
    pub(crate) fn path(
        &mut self,
        points: impl IntoIterator<Item = (f64, f64)>,
        ink: Ink,
        width: f64,
    ) {
        let points: Vec<_> = points.into_iter().map(point).collect();
        if points.len() > 1 {
            let drawn = self
                .root
                .draw(&PathElement::new(points, stroke(ink, width)));
            self.keep(drawn);
        }
    }

    /// A filled rectangle.
    pub(crate) fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, opacity: f64) {
        let shape = Rectangle::new([point(from), point(to)], fill(ink, opacity));
        let drawn = self.root.draw(&shape);
        self.keep(drawn);
    }

    /// A filled polygon.
    pub(crate) fn polygon(
        &mut self,
        points: impl IntoIterator<Item = (f64, f64)>,
        ink: Ink,
        opacity: f64,
    ) {
        let points: Vec<_> = points.into_iter().map(point).collect();
        let drawn = self.root.draw(&Polygon::new(points, fill(ink, opacity)));
        self.keep(drawn);
    }

    /// A small disc.
    pub(crate) fn dot(&mut self, at: (f64, f64), radius: f64, ink: Ink, opacity: f64) {
        let drawn = self.root.draw(&Circle::new(
            point(at),
            units(radius).unsigned_abs(),
            fill(ink, opacity),
        ));
        self.keep(drawn);
    }

    /// The point of a contestant.
    pub(crate) fn marker(&mut self, (x, y): (f64, f64), marker: Marker, ink: Ink) {
        let r = 4.0;
        match marker {
            Marker::Disc => self.dot((x, y), r, ink, 1.0),
            Marker::Square => {
                let r = r * 0.9;
                self.polygon(
                    [
                        (x - r, y - r),
                        (x + r, y - r),
                        (x + r, y + r),
                        (x - r, y + r),
                    ],
                    ink,
                    1.0,
                );
            }
            Marker::Triangle => {
                self.polygon(
                    [
                        (x, y - r * 1.2),
                        (x + r * 1.1, y + r * 0.8),
                        (x - r * 1.1, y + r * 0.8),
                    ],
                    ink,
                    1.0,
                );
            }
            Marker::Diamond => {
                let r = r * 1.25;
                self.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], ink, 1.0);
            }
            Marker::Cross => {
                self.path([(x - r, y - r), (x + r, y + r)], ink, CROSS);
                self.path([(x - r, y + r), (x + r, y - r)], ink, CROSS);
            }
        }
    }

    /// An interval: a whisker with feet.
    pub(crate) fn whisker(&mut self, x: f64, from: f64, to: f64, ink: Ink) {
        self.path([(x, from), (x, to)], ink, WHISKER);
        for y in [from, to] {
            self.path([(x - 3.5, y), (x + 3.5, y)], ink, WHISKER);
        }
    }

    /// Words beside a point.
    pub(crate) fn words(&mut self, at: (f64, f64), words: &str, stand: Stand, ink: Ink) {
        let (h, v) = match stand {
            Stand::Left => (HPos::Right, VPos::Center),
            Stand::Right => (HPos::Left, VPos::Center),
            Stand::Above => (HPos::Center, VPos::Bottom),
            Stand::Below => (HPos::Center, VPos::Top),
            Stand::Middle => (HPos::Center, VPos::Center),
        };
        // the backend divides the size by 1.24
        let colour = ink.colour();
        let style = TextStyle::from(("sans-serif", TEXT * SCALE * 1.24))
            .color(&colour)
            .pos(Pos::new(h, v));
        let drawn = self.root.draw_text(words, &style, point(at));
        self.keep(drawn);
    }

    /// A mark that shows its figures.
    pub(crate) fn hit(&mut self, hit: Hit) {
        self.hits.push(hit);
    }

    /// Grid, axes, ticks and names; ticks of `x` run rightwards, those of `y` upwards.
    pub(crate) fn axes(&mut self, area: &Area, x: (&str, &[Tick]), y: (&str, &[Tick])) {
        let bottom = area.top + area.height;
        for tick in y.1 {
            let level = bottom - tick.place * area.height;
            self.path(
                [(area.left, level), (area.left + area.width, level)],
                Ink::Grid,
                1.0,
            );
            self.words(
                (area.left - 7.0, level),
                &tick.label,
                Stand::Left,
                Ink::Text,
            );
        }
        for tick in x.1 {
            let at = area.left + tick.place * area.width;
            self.path([(at, bottom), (at, bottom + 4.0)], Ink::Axis, 1.0);
            self.words((at, bottom + 7.0), &tick.label, Stand::Below, Ink::Text);
        }
        self.path(
            [(area.left, bottom), (area.left + area.width, bottom)],
            Ink::Axis,
            1.0,
        );
        self.words(
            (area.left + area.width / 2.0, bottom + 25.0),
            x.0,
            Stand::Below,
            Ink::Text,
        );
        // above the axis and not along it: words that stand on their side are slow to read
        self.words((2.0, area.top - 20.0), y.0, Stand::Right, Ink::Text);
    }
}

impl Area {
    /// What two axes and their words leave of a canvas, pixels.
    pub(crate) fn within_axes(size: (f64, f64)) -> Self {
        let (left, top, right, below) = (52.0, 36.0, 14.0, 46.0);
        Self {
            left,
            top,
            width: size.0 - left - right,
            height: size.1 - top - below,
        }
    }

    /// The pixel of a place along both axes.
    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            self.left + x.clamp(-0.05, 1.05) * self.width,
            self.top + (1.0 - y.clamp(-0.05, 1.05)) * self.height,
        )
    }
}
