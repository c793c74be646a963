//! What a second worker brings, where the map is in the cache and where it is not.

use std::fmt;

use deferred_init::engine::{Engine, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::workers::{Crew, Pinning, WorkerChoice, choose};
use memmap_core::limit::{self, Fill};
use memmap_core::writers::PageWriter;
use memmap_core::{MemoryMap, PageImage};
use study::judge::{Ratio, Rule, Samples};

use super::Error;
use super::plain::plain;

/// Two workers beside one, for a writer and for the streaming limit in the same rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    fill: &'static str,
    writer: Ratio,
    limit: Ratio,
    /// The writer's over the limit's, within each round.
    ratio: Ratio,
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio {
            median,
            low,
            high,
            rounds,
        } = self.ratio;
        write!(
            f,
            "beyond the cache:       two workers bring {:.3}, the limit ({}) {:.3}; of the limit's \
             scaling {median:.3} [{low:.3}, {high:.3}] of {rounds} rounds",
            self.writer.median, self.fill, self.limit.median,
        )
    }
}

/// A streaming fill that stands in for a page writer.
#[derive(Debug)]
struct LimitWriter(&'static Fill);

impl PageWriter for LimitWriter {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn write(&self, _: &PageImage, pages: &mut [u64]) {
        self.0.run(pages);
    }
}

/// Two workers beside one, and two plain loops beside one in the same rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    engine: Ratio,
    plain: Ratio,
    /// The engine's over the plain loops', within each round.
    ratio: Ratio,
}

impl Speed {
    /// Whether two workers are at least `bound` times as fast as one; `None` where not even two plain
    /// loops are.
    pub(super) fn holds(&self, bound: f64) -> Option<bool> {
        match self.engine.at_least(bound) {
            true => Some(true),
            false => (self.plain.high >= bound).then_some(false),
        }
    }

    /// What there is to say of it.
    pub(super) fn against(&self, bound: f64) -> String {
        let Self {
            engine,
            plain,
            ratio,
        } = self;
        let verdict = match self.holds(bound) {
            Some(true) => "holds".to_owned(),
            Some(false) => "DOES NOT HOLD".to_owned(),
            None => format!(
                "cannot be judged on this host: two plain loops reach only {:.3}",
                plain.median
            ),
        };
        format!(
            "two workers over one:   {:.3} [{:.3}, {:.3}] of {} rounds, at least {bound}: {verdict}; \
             two plain loops over one: {:.3} [{:.3}, {:.3}]; of their scaling {:.3} [{:.3}, {:.3}]",
            engine.median,
            engine.low,
            engine.high,
            engine.rounds,
            plain.median,
            plain.low,
            plain.high,
            ratio.median,
            ratio.low,
            ratio.high,
        )
    }
}

/// How much faster two workers write than one, from their start to the last one's end, and two plain
/// loops on the same CPUs.
pub(super) fn speed(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<Speed, Error> {
    let plan = Plan::new(map.geometry())?;
    let mut crews = Vec::new();
    for threads in [1, 2] {
        let seats = choose(engine.topology(), &WorkerChoice::threads(threads))?;
        crews.push(Crew::new(&seats, Pinning::Required)?);
    }
    let mut failed = None;
    let mut times = vec![Vec::new(); 4];
    let samples = Samples::collect(rule, 4, |contestant, _| {
        let time = match contestant {
            0 | 1 => {
                let options = options.clone().threads(contestant + 1);
                write(engine, map, &plan, &options, &mut failed)
            }
            _ => {
                map.reset();
                plain(map, &crews[contestant - 2], options.writer)
                    .wall
                    .as_nanos() as f64
            }
        };
        times[contestant].push(time);
        time
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let samples = samples?;
    Ok(Speed {
        engine: samples.speed(1, 0)?,
        plain: samples.speed(3, 2)?,
        ratio: ratio_of_ratios(rule, &times)?,
    })
}

/// Of contestants a1, a2, b1 and b2: (a1 / a2) / (b1 / b2), within each round.
fn ratio_of_ratios(rule: &Rule, times: &[Vec<f64>]) -> Result<Ratio, Error> {
    // that is (a1 * b2) / (a2 * b1)
    let crossed = |a: usize, b: usize| -> Vec<f64> {
        times[a].iter().zip(&times[b]).map(|(a, b)| a * b).collect()
    };
    let crossed = Samples::from_times(rule, vec![crossed(0, 3), crossed(1, 2)])?;
    Ok(crossed.speed(1, 0)?)
}

/// The same beside the scaling of the fill that is fastest with one worker.
pub(super) fn beside_limit(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<Scaling, Error> {
    const WARM_UP: usize = 3;
    let plan = Plan::new(map.geometry())?;
    let mut failed = None;
    let fill = limit::fastest(WARM_UP, &mut |fill| {
        let Some(fill) = limit::fills().iter().find(|own| own.name() == fill.name()) else {
            return u64::MAX;
        };
        let writer = LimitWriter(fill);
        let mut options = options.clone().threads(1);
        options.writer = &writer;
        write(engine, map, &plan, &options, &mut failed) as u64
    });
    let limit = LimitWriter(fill);
    let mut times = vec![Vec::new(); 4];
    let samples = Samples::collect(rule, 4, |contestant, _| {
        let mut options = options.clone().threads(1 + contestant % 2);
        if contestant >= 2 {
            options.writer = &limit;
        }
        let time = write(engine, map, &plan, &options, &mut failed);
        times[contestant].push(time);
        time
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let samples = samples?;
    Ok(Scaling {
        fill: fill.name(),
        writer: samples.speed(1, 0)?,
        limit: samples.speed(3, 2)?,
        ratio: ratio_of_ratios(rule, &times)?,
    })
}

/// Nanoseconds of writing everything once.
fn write(
    engine: &Engine,
    map: &mut MemoryMap,
    plan: &Plan,
    options: &RunOptions<'_>,
    failed: &mut Option<Error>,
) -> f64 {
    map.reset();
    match engine.run(map, plan, options) {
        Ok(report) => report.phases.write.as_nanos() as f64,
        Err(error) => {
            failed.get_or_insert(error.into());
            f64::NAN
        }
    }
}
