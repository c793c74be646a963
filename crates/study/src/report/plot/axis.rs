//! The axes of plots.
//!
//! An axis maps values to a place between 0 and 1 and says where its ticks are.

/// A tick: its place between 0 and 1, and its words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) place: f64,
    pub(crate) label: String,
}

/// How values are laid along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Axis {
    /// From 0 to so much.
    Linear { to: f64 },
    /// Between two values above 0.
    Log { from: f64, to: f64 },
}

impl Axis {
    /// From 0 to a round value at or above all of `values`.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most, 5.0);
        Self::Linear {
            to: (most / step - 1e-9).ceil() * step,
        }
    }

    /// Around all of `values` that are above 0, with some room.
    pub(crate) fn log(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), v| {
                (least.min(v), most.max(v))
            });
        if least > most {
            return Self::Log {
                from: 1.0,
                to: 10.0,
            };
        }
        // at least a factor of two, so that noise does not fill the plot
        let middle = (least * most).sqrt();
        let reach = (most / least).sqrt().max(2.0_f64.sqrt());
        // room in parts of the axis, or what lies at its end is drawn on its edge
        let reach = (reach * 1.08).max(reach.powf(1.12));
        Self::Log {
            from: middle / reach,
            to: middle * reach,
        }
    }

    /// Numbers of threads: by doublings where they span many, else evenly from 0.
    pub(crate) fn threads(threads: &[u64]) -> Self {
        let (least, most) = (
            threads.iter().copied().min().unwrap_or(1).max(1) as f64,
            threads.iter().copied().max().unwrap_or(1).max(1) as f64,
        );
        if most / least >= 8.0 {
            let room = 1.12;
            Self::Log {
                from: least / room,
                to: most * room,
            }
        } else {
            Self::Linear { to: most * 1.08 }
        }
    }

    /// The place of a value between 0 and 1, or outside of that.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { to } => value / to,
            Self::Log { from, to } => (value / from).ln() / (to / from).ln(),
        }
    }

    /// Ticks at round values.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match *self {
            Self::Linear { to } => {
                let step = step(to, 5.0);
                (0..=10)
                    .map(|i| f64::from(i) * step)
                    .take_while(|v| *v <= to * (1.0 + 1e-9))
                    .collect()
            }
            Self::Log { from, to } => log_ticks(from, to),
        };
        values
            .into_iter()
            .map(|value| Tick {
                place: self.place(value),
                label: number(value),
            })
            .collect()
    }

    /// Ticks at `values`, as many as have room where each takes `room` of the axis.
    pub(crate) fn ticks_at(&self, values: &[u64], room: f64) -> Vec<Tick> {
        let mut ticks: Vec<Tick> = Vec::new();
        // from the largest down: the end of the axis is what is looked for
        for &value in values.iter().rev() {
            let place = self.place(value as f64);
            if ticks.last().is_none_or(|last| last.place - place >= room) {
                ticks.push(Tick {
                    place,
                    label: value.to_string(),
                });
            }
        }
        ticks.reverse();
        ticks
    }
}

/// A round step of which about `parts` make up `whole`.
fn step(whole: f64, parts: f64) -> f64 {
    let raw = whole / parts;
    let power = 10.0_f64.powf(raw.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0];
    let times = round.into_iter().find(|t| t * power >= raw * 0.999);
    times.unwrap_or(10.0) * power
}

/// 1, 2 and 5 of every power of ten, or fewer where those are many.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let decades = (to / from).log10();
    let times: &[f64] = match decades {
        d if d > 4.0 => &[1.0],
        d if d > 1.0 => &[1.0, 2.0, 5.0],
        d if d > 0.5 => &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0],
        _ => &[
            1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
        ],
    };
    powers
        .flat_map(|power| times.iter().map(move |t| t * 10.0_f64.powi(power)))
        .filter(|value| (from..=to).contains(value))
        .collect()
}

/// A value of a tick in as few digits as it takes.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v == 0.0 || v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis) -> String {
        let ticks = axis.ticks();
        let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
        labels.join(" ")
    }

    #[test]
    fn a_linear_axis_ends_at_a_round_value() {
        let axis = Axis::from_zero([3.0, 28.4].into_iter());
        assert_eq!(axis, Axis::Linear { to: 30.0 });
        assert_eq!(labels(axis), "0 10 20 30");
        assert_eq!(
            labels(Axis::from_zero([0.97].into_iter())),
            "0 0.2 0.4 0.6 0.8 1"
        );
    }

    #[test]
    fn nothing_to_show_still_gives_axes() {
        assert_eq!(
            Axis::from_zero(std::iter::empty()),
            Axis::Linear { to: 1.0 }
        );
        assert!(!Axis::log(std::iter::empty()).ticks().is_empty());
    }

    #[test]
    fn a_log_axis_has_round_ticks_within() {
        assert_eq!(
            labels(Axis::Log {
                from: 12.0,
                to: 90.0
            }),
            "20 30 40 60 80"
        );
        assert_eq!(
            labels(Axis::Log {
                from: 1.0,
                to: 900.0
            }),
            "1 2 5 10 20 50 100 200 500"
        );
        let axis = Axis::log([14.0, 80.0].into_iter());
        assert!(axis.place(14.0) > 0.0 && axis.place(80.0) < 1.0);
    }

    #[test]
    fn threads_are_labelled_from_the_largest_down_as_they_fit() {
        let threads: Vec<u64> = (1..=16).collect();
        let ticks = Axis::threads(&threads).ticks_at(&threads, 0.1);
        assert_eq!(ticks.last().unwrap().label, "16");
        assert!(
            ticks
                .windows(2)
                .all(|two| two[1].place - two[0].place >= 0.1)
        );
    }
}
