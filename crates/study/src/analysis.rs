//! What the records of a study on one host amount to.
//!
//! Records are gathered to cells, times are put side by side round by round, and ratios are taken
//! within a round by the judging rule. What is missing is known as missing: a ratio rests on the rounds
//! in which both sides ran, and there is none where too few did.

use std::collections::BTreeMap;

use crate::design::LIMIT;
use crate::judge::{MIN_ROUNDS, Ratio, Rule, Samples, unpaired};
use crate::record::{Booted, Record, Role, Settings};
use crate::stats::{self, Described};

/// A drift below this is none that anybody would care for.
const DRIFT: f64 = 0.02;
/// Half of the runs differing by more than this among themselves is noise.
const NOISE: f64 = 0.10;

/// A ratio to another cell of the same rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Against {
    /// By the judging rule, with its interval.
    Judged(Ratio),
    /// The median of too few rounds for an interval.
    Indicated(f64),
}

impl Against {
    /// The median of the paired ratios.
    pub const fn median(&self) -> f64 {
        match self {
            Self::Judged(ratio) => ratio.median,
            Self::Indicated(median) => *median,
        }
    }

    /// Whether it is above 1 for sure.
    pub fn is_above(&self) -> bool {
        matches!(self, Self::Judged(ratio) if ratio.low > 1.0)
    }

    /// Whether it is below 1 for sure.
    pub fn is_below(&self) -> bool {
        matches!(self, Self::Judged(ratio) if ratio.high < 1.0)
    }
}

/// `0.93 [0.92, 0.94]`, or `~0.93` without an interval; two more digits below a tenth.
impl std::fmt::Display for Against {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = match self.median() {
            small if small < 0.1 => 4,
            _ => 2,
        };
        match self {
            Self::Judged(ratio) => {
                let Ratio {
                    median, low, high, ..
                } = ratio;
                write!(f, "{median:.digits$} [{low:.digits$}, {high:.digits$}]")
            }
            Self::Indicated(median) => write!(f, "~{median:.digits$}"),
        }
    }
}

/// All runs with the same settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What they are there for.
    pub role: Role,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// How they went.
    pub settings: Settings,
    /// Nanoseconds by round; for boots until every struct page was written.
    pub times: BTreeMap<u64, f64>,
    /// What boots took, by round.
    pub boots: BTreeMap<u64, Booted>,
    /// Struct pages of a run.
    pub pages: u64,
    /// Bytes of struct pages of a run.
    pub bytes: u64,
    /// Why there are none, where the system refused.
    pub refused: Option<String>,
}

impl Cell {
    /// The median time, ns.
    pub fn time(&self) -> Option<f64> {
        let times: Vec<f64> = self.times.values().copied().collect();
        stats::median(&times)
    }

    /// Bytes of struct pages a nanosecond (GB/s), by the median time.
    pub fn gb_a_second(&self) -> Option<f64> {
        Some(self.bytes as f64 / self.time()?)
    }

    /// Median, quartiles, interval and outliers of its times, in the order of rounds.
    pub fn described(&self, rule: &Rule) -> Option<Described> {
        let times: Vec<f64> = self.times.values().copied().collect();
        Described::of(&times, rule)
    }
}

/// How a reference changed from the first third of a study to the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Time of the last third over that of the first.
    pub ratio: Ratio,
}

impl Drift {
    /// Whether the machine was another one in the end, and sure to be.
    pub fn is_flagged(&self) -> bool {
        self.ratio.low > 1.0 + DRIFT || self.ratio.high < 1.0 - DRIFT
    }
}

/// A cell of which runs are missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// Its settings.
    pub settings: Settings,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// How many rounds lack it.
    pub rounds: u64,
    /// Why, where the system refused.
    pub refused: Option<String>,
}

/// The records of a study on one host, gathered.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// In the order in which they first stand in the records.
    pub cells: Vec<Cell>,
    /// Rounds that have begun.
    pub rounds: u64,
    /// The fill that was the limit.
    pub fill: Option<String>,
    /// Runs whose spans were kept meanwhile, and all runs.
    pub traced: (usize, usize),
    rule: Rule,
}

impl Analysis {
    /// Gathers records; those of another host or design than the first one's are left out.
    pub fn of(records: &[Record]) -> Self {
        Self::with(records, Rule::default())
    }

    /// As [`of`](Self::of), with resamples and seed of a rule of one's own.
    pub fn with(records: &[Record], rule: Rule) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        let mut rounds = 0;
        let same = |record: &&Record| {
            let first = &records[0];
            record.design == first.design && record.host.name == first.host.name
        };
        for record in records.iter().filter(same) {
            rounds = rounds.max(record.round + 1);
            let at = cells.iter().position(|cell| {
                cell.role == record.role
                    && cell.memory == record.layout.memory
                    && cell.settings == record.settings
            });
            let at = at.unwrap_or_else(|| {
                cells.push(Cell {
                    role: record.role,
                    memory: record.layout.memory,
                    settings: record.settings.clone(),
                    times: BTreeMap::new(),
                    boots: BTreeMap::new(),
                    pages: record.layout.pages,
                    bytes: record.bytes(),
                    refused: None,
                });
                cells.len() - 1
            });
            if let Some(boot) = record.boot {
                cells[at].boots.insert(record.round, boot);
            }
            match (&record.refused, record.time_ns()) {
                (Some(why), _) => cells[at].refused = Some(why.clone()),
                (None, 0) => {}
                (None, ns) => {
                    cells[at].times.insert(record.round, ns as f64);
                }
            }
        }
        Self {
            cells,
            rounds,
            traced: (
                records
                    .iter()
                    .filter(same)
                    .filter(|record| record.traced)
                    .count(),
                records.iter().filter(same).count(),
            ),
            fill: records.iter().find_map(|record| record.fill.clone()),
            rule,
        }
    }

    /// The rule that intervals are made by.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Cells that the study asks about and that have times.
    pub fn asked(&self) -> impl Iterator<Item = &Cell> {
        let of = |cell: &&Cell| cell.role == Role::Cell && !cell.times.is_empty();
        self.cells.iter().filter(of)
    }

    /// Boots by a policy that the study asks about and that have times.
    pub fn boots(&self) -> impl Iterator<Item = &Cell> {
        let of = |cell: &&Cell| cell.role == Role::Boot && !cell.times.is_empty();
        self.cells.iter().filter(of)
    }

    /// The eager boot that a boot is held against.
    pub fn eager_boot(&self, boot: &Cell) -> Option<&Cell> {
        let own = &boot.settings;
        self.cells.iter().find(|other| {
            let its = &other.settings;
            other.role == Role::BootReference
                && other.memory == boot.memory
                && its.nodes == own.nodes
                && its.placement == own.placement
                && its.writer == own.writer
                && its.pages == own.pages
        })
    }

    /// How many times faster a cell is than another, by the rounds in which both ran; `None` where none
    /// did.
    pub fn speed(&self, cell: &Cell, reference: &Cell) -> Option<Against> {
        self.over(&reference.times, &cell.times)
    }

    /// One series of times over another, by the rounds that both have; `None` where there is none.
    pub(crate) fn over(
        &self,
        above: &BTreeMap<u64, f64>,
        below: &BTreeMap<u64, f64>,
    ) -> Option<Against> {
        let (own, other): (Vec<f64>, Vec<f64>) = below
            .iter()
            .filter_map(|(round, own)| Some((*own, *above.get(round)?)))
            .unzip();
        let ratios: Vec<f64> = own
            .iter()
            .zip(&other)
            .map(|(own, other)| other / own)
            .collect();
        if own.len() >= MIN_ROUNDS
            && let Ok(samples) = Samples::from_times(&self.rule, vec![own, other])
        {
            return Some(Against::Judged(samples.speed(0, 1).ok()?));
        }
        Some(Against::Indicated(stats::median(&ratios)?))
    }

    /// Against the same settings with the fewest threads.
    pub fn speed_up(&self, cell: &Cell) -> Option<Against> {
        let fewest = self
            .cells
            .iter()
            .filter(|other| {
                let threads = other.settings.threads;
                let settings = Settings {
                    threads,
                    ..cell.settings.clone()
                };
                other.role == cell.role
                    && other.memory == cell.memory
                    && other.settings == settings
                    && !other.times.is_empty()
            })
            .min_by_key(|other| other.settings.threads)?;
        self.speed(cell, fewest)
    }

    /// Against the streaming fill with as many threads on the same memory: 1 is as fast.
    pub fn of_limit(&self, cell: &Cell) -> Option<Against> {
        self.speed(cell, self.limit(cell)?)
    }

    /// The limit that a cell is held against.
    pub fn limit(&self, cell: &Cell) -> Option<&Cell> {
        let (own, of) = (&cell.settings, cell.role);
        let role = match of {
            Role::Matrix | Role::MatrixLimit => Role::MatrixLimit,
            Role::Cell | Role::Limit | Role::Reference => Role::Limit,
            Role::Boot | Role::BootReference => return None,
        };
        self.cells.iter().find(|other| {
            let its = &other.settings;
            other.role == role
                && other.memory == cell.memory
                && its.writer == LIMIT
                && its.threads == own.threads
                && its.nodes == own.nodes
                && its.placement == own.placement
                && its.pages == own.pages
        })
    }

    /// Drift of the reference, or of the limit with the most threads where there is none, and of eager
    /// boots where others are held against them: the largest over all memory; `None` below six rounds.
    pub fn drift(&self) -> Option<Drift> {
        let of = |role: Role| self.cells.iter().filter(move |cell| cell.role == role);
        let mut references: Vec<&Cell> = of(Role::Reference).collect();
        if references.is_empty() {
            let most = of(Role::Limit).map(|cell| cell.settings.threads).max();
            references = of(Role::Limit)
                .filter(|cell| Some(cell.settings.threads) == most)
                .collect();
        }
        references.extend(of(Role::BootReference));
        references
            .into_iter()
            .filter_map(|cell| {
                let times: Vec<f64> = cell.times.values().copied().collect();
                let third = times.len() / 3;
                if third < 2 {
                    return None;
                }
                let (first, last) = (&times[..third], &times[times.len() - third..]);
                Some(Drift {
                    ratio: unpaired(last, first, &self.rule)?,
                })
            })
            .max_by(|a, b| {
                let far = |drift: &Drift| drift.ratio.median.ln().abs();
                far(a).total_cmp(&far(b))
            })
    }

    /// A cell's times with the drift of its memory's reference divided out, by round; as they are where
    /// there is no reference.
    pub fn steady(&self, cell: &Cell) -> BTreeMap<u64, f64> {
        let reference = match cell.role.is_boot() {
            true => self.eager_boot(cell),
            false => self.cells.iter().find(|other| {
                other.role == Role::Reference
                    && other.memory == cell.memory
                    && other.settings.placement == cell.settings.placement
                    && other.settings.pages == cell.settings.pages
            }),
        };
        let Some((reference, middle)) = reference.and_then(|cell| Some((cell, cell.time()?)))
        else {
            return cell.times.clone();
        };
        cell.times
            .iter()
            .filter_map(|(round, time)| Some((*round, time / reference.times.get(round)? * middle)))
            .collect()
    }

    /// Cells half of whose runs differ by more than a tenth, with that spread, the noisiest first.
    pub fn noisy(&self) -> Vec<(&Cell, f64)> {
        let spread = |cell: &Cell| {
            let times: Vec<f64> = self.steady(cell).into_values().collect();
            (times.len() >= 4).then(|| stats::spread(&times))?
        };
        let mut noisy: Vec<(&Cell, f64)> = self
            .asked()
            .chain(self.boots())
            .filter_map(|cell| Some((cell, spread(cell)?)))
            .filter(|(_, spread)| *spread > NOISE)
            .collect();
        noisy.sort_by(|a, b| b.1.total_cmp(&a.1));
        noisy
    }

    /// Cells of which runs are missing.
    pub fn missing(&self) -> Vec<Missing> {
        self.cells
            .iter()
            .filter(|cell| (cell.times.len() as u64) < self.rounds)
            .map(|cell| Missing {
                settings: cell.settings.clone(),
                memory: cell.memory,
                rounds: self.rounds - cell.times.len() as u64,
                refused: cell.refused.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{settings, study};

    fn find<'a>(analysis: &'a Analysis, threads: u64, writer: &str) -> &'a Cell {
        analysis
            .cells
            .iter()
            .find(|cell| cell.settings == settings(threads, writer) && cell.role != Role::Reference)
            .unwrap()
    }

    /// ± 2 %, different for every cell and round, the same each time.
    fn wobble(settings: &Settings, round: u64) -> f64 {
        let seed = settings.writer.len() as u64 * 7 + settings.threads * 13 + round * 31;
        1.0 + ((seed * 2_654_435_761) % 1000) as f64 / 25_000.0
    }

    #[test]
    fn ratios_rest_on_the_rounds_in_which_both_ran() {
        let records = study(70, |settings, round| {
            // `stream` on 2 threads is missing in every tenth round
            let gone = settings.writer == "stream" && settings.threads == 2 && round % 10 == 0;
            let time = if settings.writer == "stream" {
                1e6
            } else {
                2e6
            };
            (!gone).then_some(time * wobble(settings, round))
        });
        let analysis = Analysis::of(&records);
        let (stream, zero) = (find(&analysis, 2, "stream"), find(&analysis, 2, "zero"));
        let Some(Against::Judged(ratio)) = analysis.speed(stream, zero) else {
            panic!("63 rounds are enough");
        };
        assert_eq!(ratio.rounds, 63);
        assert!(ratio.low > 1.9 && ratio.high < 2.1, "{ratio:?}");
        let missing = analysis.missing();
        assert_eq!(missing.len(), 1);
        assert_eq!(
            (missing[0].rounds, &missing[0].settings),
            (7, &settings(2, "stream"))
        );
    }

    #[test]
    fn too_few_rounds_are_an_indication_and_no_verdict() {
        let analysis = Analysis::of(&study(60, |settings, round| {
            Some(1e6 * wobble(settings, round))
        }));
        let speed = analysis.speed_up(find(&analysis, 2, "zero")).unwrap();
        assert!(matches!(speed, Against::Indicated(_)), "{speed:?}");
        assert!(!speed.is_above() && !speed.is_below());
    }

    #[test]
    fn drift_is_flagged_and_divided_out() {
        let slower = |round: u64| 1.0 + round as f64 / 61.0;
        let analysis = Analysis::of(&study(61, |settings, round| {
            Some(1e6 * wobble(settings, round) * slower(round))
        }));
        let drift = analysis.drift().unwrap();
        assert!(drift.is_flagged() && drift.ratio.median > 1.4, "{drift:?}");
        let steady = analysis.steady(find(&analysis, 1, "stream"));
        let times: Vec<f64> = steady.into_values().collect();
        assert!(stats::spread(&times).unwrap() < 0.05);
        let calm = Analysis::of(&study(61, |settings, round| {
            Some(1e6 * wobble(settings, round))
        }));
        assert!(!calm.drift().unwrap().is_flagged());
    }

    #[test]
    fn noise_is_told_with_its_size() {
        let analysis = Analysis::of(&study(61, |settings, round| {
            let wild = settings.writer == "stream" && round % 2 == 0;
            Some(if wild { 1.5e6 } else { 1e6 })
        }));
        let noisy = analysis.noisy();
        assert_eq!(noisy.len(), 2, "stream on 1 and 2 threads");
        assert!(noisy[0].1 > 0.3);
    }
}
