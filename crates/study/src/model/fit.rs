//! Models fitted to points, and which of them to take.
//!
//! # Implementation
//! Errors are relative (a thread more or less matters as much at the end as at the beginning), so all
//! fits are by least squares of logarithms, found by a search that narrows: the parameters are two or
//! three, and each has bounds that it means something within.

use super::{Kind, Model, Point};

/// A model that misses its own points by less is as good as exact.
const EXACT: f64 = 0.01;
/// Steps of the search in each direction, and how often it narrows.
const STEPS: usize = 24;
const ROUNDS: usize = 14;

/// Why nothing was fitted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Too few different numbers of threads.
    #[error("a {} model needs {needed} different numbers of threads, not {given}", kind.name())]
    TooFew {
        /// The model.
        kind: Kind,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// A point that is none.
    #[error("{time} with {threads} threads is no time; both must be positive")]
    BadPoint {
        /// Its threads.
        threads: f64,
        /// Its time.
        time: f64,
    },
}

/// A model, how well it meets the points that it was fitted to, and why it was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The model.
    pub model: Model,
    /// The largest relative error at the points that it was fitted to.
    pub residual: f64,
    /// Of each kind that could be fitted, that error.
    pub candidates: Vec<(Kind, f64)>,
}

/// Fits all models and takes the one that meets these points best; of those that meet them within 1 %
/// the one that explains most. No other point is looked at.
///
/// # Errors
/// [`FitError`] where not even the simplest can be fitted.
pub fn choose(points: &[Point]) -> Result<Chosen, FitError> {
    let mut fitted: Vec<(Model, f64)> = Vec::new();
    let mut refused = None;
    for kind in Kind::ALL {
        match fit(kind, points) {
            Ok(model) => fitted.push((model, residual(&model, points))),
            Err(error) => refused = Some(error),
        }
    }
    let best = fitted
        .iter()
        .copied()
        // the first of equals: kinds are in order
        .reduce(|best, next| match next.1.max(EXACT) < best.1.max(EXACT) {
            true => next,
            false => best,
        });
    match (best, refused) {
        (Some((model, residual)), _) => Ok(Chosen {
            model,
            residual,
            candidates: fitted
                .iter()
                .map(|(model, residual)| (model.kind(), *residual))
                .collect(),
        }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(FitError::TooFew {
            kind: Kind::Amdahl,
            needed: 2,
            given: 0,
        }),
    }
}

/// Fits one kind of model.
///
/// # Errors
/// [`FitError`].
pub fn fit(kind: Kind, points: &[Point]) -> Result<Model, FitError> {
    let bad = |point: &&Point| {
        let good = |value: f64| value.is_finite() && value > 0.0;
        !(good(point.threads) && good(point.time))
    };
    if let Some(point) = points.iter().find(bad) {
        return Err(FitError::BadPoint {
            threads: point.threads,
            time: point.time,
        });
    }
    let mut threads: Vec<f64> = points.iter().map(|point| point.threads).collect();
    threads.sort_unstable_by(f64::total_cmp);
    threads.dedup();
    let needed = match kind {
        Kind::Amdahl => 2,
        Kind::Usl | Kind::Roofline => 3,
    };
    if threads.len() < needed {
        return Err(FitError::TooFew {
            kind,
            needed,
            given: threads.len(),
        });
    }
    // the scale is the best one for given shapes: the mean of the logarithms' differences
    let scaled = |shape: Model| {
        let offsets: Vec<f64> = points
            .iter()
            .map(|point| (point.time / shape.time(point.threads)).ln())
            .collect();
        let offset = offsets.iter().sum::<f64>() / offsets.len() as f64;
        let error: f64 = offsets.iter().map(|own| (own - offset).powi(2)).sum();
        (offset.exp(), error)
    };
    let shape = |x: f64, y: f64, scale: f64| match kind {
        Kind::Roofline => Model::Roofline {
            core: scale,
            node: scale * x.exp(),
            knee: y.exp(),
        },
        Kind::Usl => Model::Usl {
            one: scale,
            contention: x,
            coherence: y.exp() - 1e-9,
        },
        Kind::Amdahl => Model::Amdahl {
            one: scale,
            serial: x,
        },
    };
    let most = threads.last().copied().unwrap_or(1.0);
    let (x, y) = match kind {
        // the node takes as long as a tenth of the cores would need, up to one alone; knees 1 to 32
        Kind::Roofline => (((0.1 / most).ln(), 0.0), (0.0, 32_f64.ln())),
        Kind::Usl => ((0.0, 1.0), (1e-9_f64.ln(), 0.0)),
        Kind::Amdahl => ((0.0, 1.0), (0.0, 0.0)),
    };
    let (x, y) = search(x, y, |x, y| scaled(shape(x, y, 1.0)).1);
    Ok(shape(x, y, scaled(shape(x, y, 1.0)).0))
}

/// The place of the least value in a rectangle: a grid that narrows around its best point.
fn search(x: (f64, f64), y: (f64, f64), value: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let (mut around_x, mut around_y) = (x, y);
    let mut best = (f64::INFINITY, x.0, y.0);
    let step = |range: (f64, f64)| (range.1 - range.0) / STEPS as f64;
    for _ in 0..ROUNDS {
        for i in 0..=STEPS {
            for j in 0..=STEPS {
                let at_x = around_x.0 + step(around_x) * i as f64;
                let at_y = around_y.0 + step(around_y) * j as f64;
                let value = value(at_x, at_y);
                if value < best.0 {
                    best = (value, at_x, at_y);
                }
            }
        }
        let near = |at: f64, around: (f64, f64), all: (f64, f64)| {
            let reach = 3.0 * step(around);
            ((at - reach).max(all.0), (at + reach).min(all.1))
        };
        around_x = near(best.1, around_x, x);
        around_y = near(best.2, around_y, y);
    }
    (best.1, best.2)
}

fn residual(model: &Model, points: &[Point]) -> f64 {
    points
        .iter()
        .map(|point| (model.time(point.threads) / point.time - 1.0).abs())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(model: &Model, threads: &[u32]) -> Vec<Point> {
        let point = |threads: f64| Point {
            threads,
            time: model.time(threads),
        };
        threads
            .iter()
            .map(|threads| point(f64::from(*threads)))
            .collect()
    }

    #[test]
    fn each_model_is_found_again_in_its_own_points() {
        let models = [
            Model::Roofline {
                core: 1000.0,
                node: 90.0,
                knee: 2.0,
            },
            Model::Usl {
                one: 800.0,
                contention: 0.03,
                coherence: 0.0005,
            },
            Model::Amdahl {
                one: 500.0,
                serial: 0.08,
            },
        ];
        for model in models {
            let found = fit(model.kind(), &points(&model, &[1, 8, 32])).unwrap();
            for threads in [2.0, 4.0, 12.0, 24.0, 32.0] {
                let error = found.time(threads) / model.time(threads) - 1.0;
                assert!(
                    error.abs() < 0.01,
                    "{model} as {found} at {threads}: {error}"
                );
            }
        }
    }

    #[test]
    fn two_points_leave_amdahl_alone_and_one_leaves_nothing() {
        let model = Model::Amdahl {
            one: 100.0,
            serial: 0.1,
        };
        let chosen = choose(&points(&model, &[1, 4])).unwrap();
        assert_eq!(chosen.model.kind(), Kind::Amdahl);
        let error = choose(&points(&model, &[4, 4])).unwrap_err();
        assert!(error.to_string().contains("2 different numbers"), "{error}");
        let bad = choose(&[Point {
            threads: 1.0,
            time: 0.0,
        }])
        .unwrap_err();
        assert!(bad.to_string().contains("must be positive"), "{bad}");
    }

    #[test]
    fn what_gets_slower_with_threads_is_the_scalability_laws() {
        let slower = [(1.0, 100.0), (4.0, 40.0), (16.0, 90.0)];
        let points = slower.map(|(threads, time)| Point { threads, time });
        assert_eq!(choose(&points).unwrap().model.kind(), Kind::Usl);
    }
}
