//! Matrices as heat maps.
//!
//! A cell a pair of nodes, darker where more, its figure written in it; a cell that was not measured
//! is crossed out and not coloured.

use maud::Markup;

use super::canvas::{Area, Hit, PlotError, Stand, draw};
use super::ink::{HEAT_STEPS, Ink};

/// A matrix: threads on the node of the row, memory on the node of the column.
#[derive(Clone, Debug)]
pub(crate) struct Heat<'a> {
    /// What it shows, in a sentence.
    pub(crate) about: &'a str,
    /// The unit, after a figure.
    pub(crate) unit: &'a str,
    /// Nodes of rows.
    pub(crate) rows: &'a [u64],
    /// Nodes of columns.
    pub(crate) columns: &'a [u64],
    /// By row and column.
    pub(crate) cells: &'a [Vec<Option<f64>>],
}

impl Heat<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Result<Markup, PlotError> {
        // figures need some room, and a host of 64 nodes has a page, too
        let side = (460.0 / self.columns.len().max(1) as f64).clamp(22.0, 96.0);
        let tall = side.min(48.0);
        let area = Area {
            left: 66.0,
            top: 44.0,
            width: side * self.columns.len() as f64,
            height: tall * self.rows.len() as f64,
        };
        let size = (
            (area.left + area.width + 8.0).max(200.0),
            area.top + area.height + 8.0,
        );
        let known = || {
            self.cells
                .iter()
                .flatten()
                .flatten()
                .copied()
                .filter(|v| v.is_finite())
        };
        let most = known().fold(0.0, f64::max);
        let least = known().fold(f64::INFINITY, f64::min);
        draw(self.about, size, |canvas| {
            canvas.words((area.left, 10.0), "memory on node", Stand::Right, Ink::Text);
            canvas.words((2.0, 28.0), "threads on", Stand::Right, Ink::Text);
            for (at, node) in self.columns.iter().enumerate() {
                let x = area.left + (at as f64 + 0.5) * side;
                canvas.words(
                    (x, area.top - 6.0),
                    &node.to_string(),
                    Stand::Above,
                    Ink::Text,
                );
            }
            for (at, node) in self.rows.iter().enumerate() {
                let y = area.top + (at as f64 + 0.5) * tall;
                canvas.words(
                    (area.left - 8.0, y),
                    &format!("node {node}"),
                    Stand::Left,
                    Ink::Text,
                );
            }
            for (row, cells) in self.cells.iter().enumerate() {
                for (column, cell) in cells.iter().enumerate() {
                    let from = (
                        area.left + column as f64 * side,
                        area.top + row as f64 * tall,
                    );
                    let to = (from.0 + side - 2.0, from.1 + tall - 2.0);
                    let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
                    let Some(value) = cell.filter(|value| value.is_finite()) else {
                        canvas.path([from, to], Ink::Grid, 1.5);
                        canvas.path([(from.0, to.1), (to.0, from.1)], Ink::Grid, 1.5);
                        continue;
                    };
                    let step = step(value, least, most);
                    canvas.rectangle(from, to, Ink::Heat(step), 1.0);
                    let on = match step * 2 < HEAT_STEPS {
                        true => Ink::OnLow,
                        false => Ink::OnHigh,
                    };
                    if side >= 30.0 {
                        canvas.words(middle, &short(value), Stand::Middle, on);
                    }
                    canvas.hit(Hit {
                        at: middle,
                        series: self.rows.get(row).map_or_else(String::new, u64::to_string),
                        x: self
                            .columns
                            .get(column)
                            .map_or_else(String::new, u64::to_string),
                        y: value,
                        title: format!(
                            "threads on node {}, memory on node {}: {value:.2}{}",
                            self.rows.get(row).unwrap_or(&0),
                            self.columns.get(column).unwrap_or(&0),
                            self.unit
                        ),
                    });
                }
            }
        })
    }
}

/// The step of a value between the least and the most. Values within a tenth of each other are one
/// step: noise must not look like a pattern.
fn step(value: f64, least: f64, most: f64) -> usize {
    let middle = HEAT_STEPS / 2;
    if most <= 0.0 || (most - least) / most < 0.1 {
        return middle;
    }
    let place = (value - least) / (most - least);
    // a float is cut to the range of the integer
    ((place * HEAT_STEPS as f64) as usize).min(HEAT_STEPS - 1)
}

fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_one_colour_and_differences_are_many() {
        assert_eq!(step(10.0, 9.5, 10.0), step(9.5, 9.5, 10.0));
        assert_eq!(step(2.0, 2.0, 20.0), 0);
        assert_eq!(step(20.0, 2.0, 20.0), HEAT_STEPS - 1);
        assert_eq!(step(0.0, 0.0, 0.0), HEAT_STEPS / 2);
    }
}
