//! What a second worker brings, where the map is in the cache and where it is not.

use std::fmt;

use deferred_init::engine::{Engine, RunOptions};
use deferred_init::plan::Plan;
use memmap_core::limit::{self, Fill};
use memmap_core::writers::PageWriter;
use memmap_core::{MemoryMap, PageImage};
use study::judge::{Ratio, Rule, Samples};

use super::Error;

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

/// How much faster two workers write than one, from the first one's start to the last one's end.
pub(super) fn speed(
    engine: &Engine,
    map: &mut MemoryMap,
    options: &RunOptions<'_>,
    rule: &Rule,
) -> Result<Ratio, Error> {
    let plan = Plan::new(map.geometry())?;
    let mut failed = None;
    let samples = Samples::collect(rule, 2, |contestant, _| {
        let options = options.clone().threads(contestant + 1);
        write(engine, map, &plan, &options, &mut failed)
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(samples?.speed(1, 0)?),
    }
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
    // (w1 / w2) / (l1 / l2) is (w1 * l2) / (w2 * l1)
    let crossed = |a: usize, b: usize| -> Vec<f64> {
        times[a].iter().zip(&times[b]).map(|(a, b)| a * b).collect()
    };
    let crossed = Samples::from_times(rule, vec![crossed(0, 3), crossed(1, 2)])?;
    Ok(Scaling {
        fill: fill.name(),
        writer: samples.speed(1, 0)?,
        limit: samples.speed(3, 2)?,
        ratio: crossed.speed(1, 0)?,
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
