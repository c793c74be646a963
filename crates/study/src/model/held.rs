//! How well a model predicts what it has not seen.

use super::{Errors, Model, Point, choose};

/// What a model is held to where it predicts: the median error, and the largest.
const MEDIAN: f64 = 0.15;
const LARGEST: f64 = 0.25;

/// A model of three points (the fewest threads, about a quarter of the most, the most), held against the
/// others.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Threads of the points that it was chosen and fitted by.
    pub calibrated: [f64; 3],
    /// The model.
    pub model: Model,
    /// How it misses the others.
    pub errors: Errors,
    /// How `max(t1 / n, t_all)`, which takes no model, misses them.
    pub bound: Errors,
}

impl Held {
    /// Of points with four different numbers of threads or more; `None` of fewer.
    ///
    /// The model is chosen before the points that it is held against are looked at.
    pub fn of(points: &[Point]) -> Option<Self> {
        let mut points = points.to_vec();
        points.sort_by(|one, other| one.threads.total_cmp(&other.threads));
        let (first, last) = (*points.first()?, *points.last()?);
        let far = |point: &Point| (point.threads / last.threads * 4.0).ln().abs();
        let between = |point: &Point| point.threads > first.threads && point.threads < last.threads;
        let quarter = points
            .iter()
            .copied()
            .filter(between)
            .min_by(|one, other| far(one).total_cmp(&far(other)))?;
        let chosen = choose(&[first, quarter, last]).ok()?;
        // each of the three once: somebody may have measured one number of threads twice
        let mut calibrated = vec![first, quarter, last];
        points.retain(
            |point| match calibrated.iter().position(|known| known == point) {
                Some(at) => {
                    calibrated.swap_remove(at);
                    false
                }
                None => true,
            },
        );
        if !points.iter().any(between) {
            return None;
        }
        Some(Self {
            calibrated: [first.threads, quarter.threads, last.threads],
            model: chosen.model,
            errors: Errors::of(&points, |threads| chosen.model.time(threads))?,
            bound: Errors::of(&points, |threads| {
                (first.time * first.threads / threads).max(last.time)
            })?,
        })
    }

    /// Whether it misses by more than a prediction may: 15 % by the median, 25 % at most.
    pub fn misses(&self) -> bool {
        !(self.errors.median <= MEDIAN && self.errors.largest <= LARGEST)
    }
}

/// `from 1, 4 and 16 threads: median error 5.7 %, largest 9.3 % (8 threads)`.
impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [first, quarter, last] = self.calibrated;
        write!(
            f,
            "from {first}, {quarter} and {last} threads: {}",
            self.errors
        )?;
        if self.misses() {
            write!(
                f,
                "; MISSED ({:.0} % and {:.0} % are asked)",
                MEDIAN * 100.0,
                LARGEST * 100.0
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_points_leave_nothing_to_be_held_against() {
        let point = |threads: f64, time: f64| Point { threads, time };
        let mut points = vec![point(4.0, 30.0), point(1.0, 100.0), point(16.0, 10.0)];
        assert_eq!(Held::of(&points), None);
        assert_eq!(Held::of(&[]), None);
        // far above what threads beside it take: no smooth curve goes through it
        points.push(point(8.0, 60.0));
        let held = Held::of(&points).unwrap();
        assert_eq!(held.calibrated, [1.0, 4.0, 16.0]);
        assert_eq!(held.errors.each.len(), 1);
        assert!(
            held.misses() && held.to_string().contains("MISSED"),
            "{held}"
        );
    }
}
