//! Medians, quartiles, outliers.

use crate::judge::{Ratio, Rule, interval};

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Distance of the quartiles over the median: how much half of the values differ among themselves.
pub fn spread(values: &[f64]) -> Option<f64> {
    Some((quantile(values, 0.75)? - quantile(values, 0.25)?) / median(values)?)
}

/// The value below which `part` of the values lie, interpolated; `None` of nothing.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = part.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

/// What is to be said of the runs of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Runs.
    pub runs: usize,
    /// The median with its 95 % bootstrap interval.
    pub median: Ratio,
    /// The quartiles.
    pub quartiles: (f64, f64),
    /// Which runs, by place, lie more than one and a half times the distance of the quartiles outside
    /// of them. They stay in every figure; medians hardly see them.
    pub outliers: Vec<usize>,
}

impl Described {
    /// Describes values; `None` of nothing.
    pub fn of(values: &[f64], rule: &Rule) -> Option<Self> {
        let (low, high) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
        let fence = 1.5 * (high - low);
        let outside = |value: f64| value < low - fence || value > high + fence;
        Some(Self {
            runs: values.len(),
            median: interval(values, rule)?,
            quartiles: (low, high),
            outliers: (0..values.len())
                .filter(|at| outside(values[*at]))
                .collect(),
        })
    }

    /// Distance of the quartiles over the median.
    pub fn spread(&self) -> f64 {
        (self.quartiles.1 - self.quartiles.0) / self.median.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_number_the_median_lies_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn outliers_are_named_and_move_nothing() {
        let mut values: Vec<f64> = (0..61).map(|at| 100.0 + f64::from(at % 5)).collect();
        let calm = Described::of(&values, &Rule::default()).unwrap();
        assert!(calm.outliers.is_empty());
        values[7] = 5000.0;
        let wild = Described::of(&values, &Rule::default()).unwrap();
        assert_eq!(wild.outliers, [7]);
        assert_eq!(wild.median.median, calm.median.median);
        assert!(wild.spread() < 0.03, "{wild:?}");
        assert_eq!(Described::of(&[], &Rule::default()), None);
    }

    #[test]
    fn the_spread_is_relative_and_blind_to_outliers() {
        let values = [100.0, 98.0, 102.0, 99.0, 1e9];
        assert_eq!(quantile(&values, 0.25), Some(99.0));
        assert!((spread(&values).unwrap() - 0.03).abs() < 1e-9);
    }
}
