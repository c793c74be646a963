//! The model of a host's fastest writer: how it fits, where it misses, what it says of other hosts.

use deferred_init::topology::presets;

use super::super::plot::canvas::Marker;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Curve, Point, Series};
use super::figures::settings_words;
use super::host::count;
use crate::model::{CalibrateError, Calibration, Kind, Measured, Model, Prediction, predict};
use crate::record::Record;

/// A row is missed where the model is further off than this, and than half of the row's runs differ
/// among themselves.
const MISS: f64 = 0.05;
/// Parameters of a model: with no more numbers of threads it meets them whatever they are.
const PARAMETERS: [(Kind, usize); 3] = [(Kind::Roofline, 3), (Kind::Usl, 3), (Kind::Amdahl, 2)];

/// A model of a host, or why there is none.
#[derive(Clone, Debug)]
pub(in crate::report) struct ModelView {
    pub(in crate::report) title: String,
    pub(in crate::report) words: Vec<String>,
    pub(in crate::report) measured: Series,
    pub(in crate::report) curves: Vec<Curve>,
    pub(in crate::report) tables: Vec<Table>,
}

/// A table; its first column and its last are words.
#[derive(Clone, Debug)]
pub(in crate::report) struct Table {
    /// What the table's rows are, for programs.
    pub(in crate::report) name: &'static str,
    pub(in crate::report) caption: String,
    pub(in crate::report) columns: Vec<&'static str>,
    pub(in crate::report) rows: Vec<Vec<String>>,
}

impl ModelView {
    /// Of the records of one host; `None` where nothing was run that a model could be of.
    pub(super) fn of(records: &[Record], host: &str) -> Option<Self> {
        match Calibration::of(records, None) {
            Ok(made) => Some(Self::fitted(&made, host)),
            Err(CalibrateError::NoRuns { .. }) => None,
            Err(error) => Some(Self {
                title: format!("{host}: no model"),
                words: vec![format!("Nothing is modelled: {error}.")],
                measured: series(Vec::new()),
                curves: Vec::new(),
                tables: Vec::new(),
            }),
        }
    }

    fn fitted(made: &Calibration, host: &str) -> Self {
        let model = made.chosen.model;
        let speed_up = |row: &Measured| made.measured[0].point.time / row.point.time;
        let points = made.measured.iter().map(|row| Point {
            x: row.point.threads as u64,
            y: speed_up(row),
            interval: None,
        });
        let (least, most) = ends(made);
        let curve = (0..=64)
            .map(|step| least * (most / least).powf(f64::from(step) / 64.0))
            .map(|threads| (threads, made.measured[0].point.time / model.time(threads)));
        let (beyond, predictions) = predictions(made);
        let mut words = vec![chosen(made), parameters(made)];
        words.extend(proof(made));
        words.push(misses(made));
        words.extend(node(made));
        words.push(beyond);
        Self {
            title: format!(
                "{host}: {}, {}",
                made.settings.writer,
                settings_words(&made.settings)
            ),
            words,
            measured: series(points.collect()),
            curves: vec![Curve {
                ink: Ink::Model,
                points: curve.collect(),
            }],
            tables: vec![fit(made), predictions],
        }
    }
}

fn series(points: Vec<Point>) -> Series {
    Series {
        name: "measured".into(),
        ink: Ink::Series(0),
        marker: Marker::of(0),
        points,
    }
}

/// The fewest threads, and the most.
fn ends(made: &Calibration) -> (f64, f64) {
    let threads = || made.measured.iter().map(|row| row.point.threads);
    (
        threads().fold(f64::MAX, f64::min),
        threads().fold(1.0, f64::max),
    )
}

/// Which model, and how well the others do.
fn chosen(made: &Calibration) -> String {
    let kind = made.chosen.model.kind();
    let others: Vec<String> = Kind::ALL
        .into_iter()
        .filter(|other| *other != kind)
        .map(|other| {
            let mut candidates = made.chosen.candidates.iter();
            match candidates.find(|(fitted, _)| *fitted == other) {
                Some((_, residual)) => format!("{} {:.1} %", other.name(), residual * 100.0),
                None => format!("{} could not be fitted", other.name()),
            }
        })
        .collect();
    format!(
        "The {} model was chosen: fitted to {} numbers of threads it misses them by {:.1} % at most and by {:.1} % \
         by the median; the others at most by: {}. Within 1 % the model that explains most is taken.",
        kind.name(),
        made.measured.len(),
        made.chosen.residual * 100.0,
        made.errors.median * 100.0,
        others.join(", "),
    )
}

/// What its parameters are, in units.
fn parameters(made: &Calibration) -> String {
    let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
    match made.chosen.model {
        Model::Roofline { core, node, knee } => format!(
            "Its parameters: one core alone would take {}, the bandwidth of the memory allows no less than {}, knee {knee:.1}.",
            ms(core),
            ms(node)
        ),
        Model::Usl {
            one,
            contention,
            coherence,
        } => format!(
            "Its parameters: one thread takes {}, contention {:.2} %, coherence {:.4} % a pair of threads.",
            ms(one),
            contention * 100.0,
            coherence * 100.0
        ),
        Model::Amdahl { one, serial } => format!(
            "Its parameters: one thread takes {}, of which {:.2} % cannot be shared.",
            ms(one),
            serial * 100.0
        ),
    }
}

/// What a fit proves: what it predicts without having seen it.
fn proof(made: &Calibration) -> Vec<String> {
    let kind = made.chosen.model.kind();
    let needed = PARAMETERS.iter().find(|(of, _)| *of == kind);
    let mut words = Vec::new();
    if needed.is_some_and(|(_, parameters)| made.measured.len() <= *parameters) {
        words.push(
            "It has as many parameters as there are numbers of threads, so it would meet any times: that it fits \
             proves nothing."
                .to_owned(),
        );
    }
    words.push(match &made.held {
        None => "Whether it predicts is not known: that takes four numbers of threads, three to fit and one to be \
                 predicted."
            .to_owned(),
        Some(held) => {
            let [first, quarter, last] = held.calibrated;
            let verdict = match held.misses() {
                true => "It misses more than 15 % by the median or 25 % at most: trust no prediction of it.",
                false => "That is within 15 % by the median and 25 % at most.",
            };
            format!(
                "Chosen and fitted anew by {first}, {quarter} and {last} threads alone ({}), it predicts the others \
                 with a {}; max(t1/n, t_all) with a {}. {verdict}",
                held.model.kind().name(),
                held.errors,
                held.bound,
            )
        }
    });
    words
}

fn missed(made: &Calibration) -> impl Iterator<Item = (&Measured, f64, bool)> {
    made.measured.iter().map(|row| {
        let error = made.chosen.model.time(row.point.threads) / row.point.time - 1.0;
        (row, error, error.abs() > row.spread.max(MISS))
    })
}

fn misses(made: &Calibration) -> String {
    let told: Vec<String> = missed(made)
        .filter(|(.., missed)| *missed)
        .map(|(row, error, _)| {
            format!(
                "with {} it says {:.0} % {} (half of the runs differ by {:.0} %)",
                count(row.point.threads as u64, "thread"),
                error.abs() * 100.0,
                if error > 0.0 { "too long" } else { "too short" },
                row.spread * 100.0
            )
        })
        .collect();
    match told.is_empty() {
        true => format!(
            "It misses none of them by more than {:.0} % and more than half of the runs differ among themselves.",
            MISS * 100.0
        ),
        false => format!("Where it misses: {}.", told.join("; ")),
    }
}

/// What the model of one node is, where there are several.
fn node(made: &Calibration) -> Option<String> {
    (made.nodes > 1).then(|| {
        format!(
            "{} nodes worked at once. For other hosts one node is modelled, with its share of threads and bytes: {} (ns).",
            made.nodes, made.node
        )
    })
}

/// The fit, a row a number of threads.
fn fit(made: &Calibration) -> Table {
    let rows = missed(made).map(|(row, error, missed)| {
        vec![
            format!("{}", row.point.threads),
            format!("{:.2}", row.point.time / 1e6),
            format!("{:.2}", made.chosen.model.time(row.point.threads) / 1e6),
            format!("{:+.1} %", error * 100.0),
            format!("{:.1} %", row.spread * 100.0),
            if missed { "missed" } else { "" }.to_owned(),
        ]
    });
    Table {
        name: "fit",
        caption:
            "the fit: medians, what the model has instead, and how much half of the runs differ"
                .into(),
        columns: vec![
            "threads",
            "measured, ms",
            "model, ms",
            "error",
            "spread",
            "",
        ],
        rows: rows.collect(),
    }
}

/// What all predictions extrapolate, and the predictions, a row a host.
fn predictions(made: &Calibration) -> (String, Table) {
    let predicted: Vec<(&str, Prediction)> = presets::ALL
        .iter()
        .filter_map(|preset| {
            let host = preset.topology().ok()?;
            Some((
                preset.name,
                predict(&made.node, &made.basis, &host, made.page),
            ))
        })
        .collect();
    let all = |text: &String| {
        predicted
            .iter()
            .all(|(_, one)| one.extrapolates.contains(text))
    };
    let common: Vec<String> = predicted
        .first()
        .map_or_else(Vec::new, |(_, one)| one.extrapolates.clone())
        .into_iter()
        .filter(all)
        .collect();
    let rows = predicted.iter().map(|(name, one)| {
        let own: Vec<&str> = one
            .extrapolates
            .iter()
            .filter(|text| !common.contains(text))
            .map(String::as_str)
            .collect();
        vec![
            (*name).to_owned(),
            one.nodes.to_string(),
            one.threads.to_string(),
            format!("{:.2}", one.bytes as f64 / f64::from(1 << 30)),
            format!("{:.1}", one.time / 1e6),
            own.join("; "),
        ]
    });
    let words = format!(
        "Predictions for other hosts extrapolate, every one: {}. The table says what else each of them does.",
        common.join("; ")
    );
    let table = Table {
        name: "predictions",
        caption: "predictions: hosts that were not measured".into(),
        columns: vec![
            "host",
            "nodes",
            "threads on the largest",
            "struct pages, GiB",
            "about, ms",
            "extrapolates",
        ],
        rows: rows.collect(),
    };
    (words, table)
}
