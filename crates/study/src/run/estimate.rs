//! How long a study will take, before it starts.
//!
//! A small map is touched and written on this host by one thread; everything else is arithmetic: bytes
//! over the rate of as many threads as there are CPUs for, and the first touch of each stretch.
//! Memory that stops scaling makes it longer, a fast writer makes it shorter.

use std::time::{Duration, Instant};

use super::Machine;
use crate::design::{CellsError, Design, Rounds};
use deferred_init::Topology;
use memmap_core::limit::fills;

/// Bytes that are written to learn the host's rate.
const PROBE: usize = 32 << 20;

/// How long a study will take, about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Runs in all.
    pub runs: usize,
    /// Runs of a round.
    pub a_round: usize,
    /// Rounds.
    pub rounds: usize,
    /// Stretches of a round: how often memory is placed and touched anew, or kinds of it are booted on.
    pub stretches: usize,
    /// Time for all of it.
    pub time: Duration,
    /// The most memory that is taken at once, bytes.
    pub memory: u64,
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(
            f,
            "{} runs in {} rounds, on {} stretches of memory a round (up to {:.1} MiB at once): about ",
            self.runs,
            self.rounds,
            self.stretches,
            self.memory as f64 / f64::from(1 << 20),
        )?;
        match seconds {
            0.0..120.0 => write!(f, "{seconds:.0} s"),
            120.0..7200.0 => write!(f, "{:.0} min", seconds / 60.0),
            _ => write!(f, "{:.1} h", seconds / 3600.0),
        }
    }
}

/// What one thread of this host does in a second, bytes.
#[derive(Clone, Copy, Debug)]
struct Rates {
    fault: f64,
    write: f64,
}

/// Estimates how long a design takes on a host.
///
/// # Errors
/// [`CellsError`] where it cannot be laid out.
pub fn estimate(
    design: &Design,
    topology: &Topology,
    machines: &[Machine],
    conditions: super::Conditions,
) -> Result<Estimate, CellsError> {
    with(design, topology, machines, conditions, probe())
}

fn with(
    design: &Design,
    topology: &Topology,
    machines: &[Machine],
    conditions: super::Conditions,
    rates: Rates,
) -> Result<Estimate, CellsError> {
    let memory: Vec<u64> = machines.iter().map(|machine| machine.memory).collect();
    let runs = design.runs(topology, &memory, |wishes| conditions.allow(wishes))?;
    let cpus = topology.allowed_cpus.len().max(1) as f64;
    let bytes = |machine: usize| {
        let geometry = &machines[machine].geometry;
        let sections = geometry.sections();
        let page = u64::from(geometry.profile().struct_page_bytes);
        (sections.count() * sections.pages_per_section() * page) as f64
    };
    let write = |bytes: f64, threads: f64| bytes / (rates.write * threads.min(cpus));
    let mut round = 0.0;
    let mut first = 0.0;
    for stretch in &runs.stretches {
        let bytes = bytes(stretch.machine);
        if stretch.boots {
            // each touches memory of its own as it writes it
            for run in &stretch.contestants {
                let threads = run.settings.threads as f64;
                round += bytes / (rates.fault * threads.min(cpus)) + write(bytes, threads);
            }
            continue;
        }
        let most = stretch
            .contestants
            .iter()
            .map(|run| run.settings.threads)
            .max();
        let touch = bytes / (rates.fault * (most.unwrap_or(1) as f64).min(cpus));
        // one stretch alone keeps its memory from round to round
        match runs.stretches.len() {
            1 => first += touch,
            _ => round += touch,
        }
        for run in &stretch.contestants {
            round += write(bytes, run.settings.threads as f64);
        }
    }
    let fills = fills().iter().filter(|fill| fill.is_available()).count();
    let largest = (0..machines.len()).map(bytes).fold(0.0, f64::max);
    // fills are tried where there is a limit to choose
    if runs.contestants().any(|run| run.writer.is_none()) {
        first += (fills * design.warm_up) as f64 * write(bytes(0), 1.0);
    }
    let rounds = match design.rounds {
        Rounds::Exactly(rounds) => rounds,
        within @ Rounds::Within(_) => within.resolve(Duration::from_secs_f64(round.min(1e9))),
    };
    Ok(Estimate {
        runs: runs.a_round() * rounds,
        a_round: runs.a_round(),
        rounds,
        stretches: runs.stretches.len(),
        time: Duration::from_secs_f64((first + round * rounds as f64).min(1e9)),
        memory: largest as u64,
    })
}

/// Touches and writes a little memory.
fn probe() -> Rates {
    let fill = fills().iter().find(|fill| fill.name() == "words");
    let began = Instant::now();
    let mut memory = vec![0_u64; PROBE / 8];
    // not zero: the allocator's zeroed pages are not there yet
    memory.fill(1);
    let fault = began.elapsed().as_secs_f64();
    let began = Instant::now();
    if let Some(fill) = fill {
        fill.run(&mut memory);
    }
    std::hint::black_box(&memory);
    let write = began.elapsed().as_secs_f64();
    let rate = |seconds: f64| PROBE as f64 / seconds.max(1e-6);
    Rates {
        fault: rate(fault),
        write: rate(write),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Pages, Policy, Threads};
    use crate::run::Conditions;
    use deferred_init::topology::synthetic;
    use deferred_init::workers::Pinning;
    use memmap_core::Geometry;

    fn estimated(design: &Design) -> Estimate {
        let topology = synthetic::parse("core:4").unwrap();
        let layout = machine::synthetic::even(machine::size::ByteSize(1 << 30), 1).unwrap();
        let (memblock, options) = (layout.memblock().unwrap(), layout.boot_options());
        let geometry = Geometry::new(&layout.profile(), &memblock, &options).unwrap();
        let machines = [Machine::new("x".into(), 1 << 30, geometry, memblock, options).unwrap()];
        let conditions = Conditions {
            pinning: Pinning::Off,
            ..Conditions::default()
        };
        let rates = Rates {
            fault: 1e9,
            write: 1e10,
        };
        with(design, &topology, &machines, conditions, rates).unwrap()
    }

    #[test]
    fn twice_the_rounds_take_twice_as_long_and_other_memory_is_touched_each_round() {
        let design = |rounds| Design {
            rounds: Rounds::Exactly(rounds),
            threads: vec![Threads::Count(1)],
            warm_up: 0,
            ..Design::default()
        };
        let (ten, twenty) = (estimated(&design(10)), estimated(&design(20)));
        assert_eq!(
            (ten.runs, twenty.runs),
            (40, 80),
            "reference, limit, two writers"
        );
        // 16 MiB of struct pages: 16.8 ms to touch, 1.68 ms a run
        let touch = 16.8;
        let ms = |estimate: &Estimate| estimate.time.as_secs_f64() * 1e3 - touch;
        assert!(
            (ms(&twenty) / ms(&ten) - 2.0).abs() < 0.01,
            "{ten} {twenty}"
        );
        let lazy = Design {
            policies: vec![Policy::Lazy],
            ..design(10)
        };
        let boots = estimated(&lazy);
        assert_eq!(boots.runs, 40, "two writers, each beside an eager boot");
        let all = boots.time.as_secs_f64() * 1e3;
        assert!((all - 40.0 * (touch + 1.68)).abs() < 2.0, "{all} ms");
        let two = Design {
            pages: vec![Pages::System, Pages::Small],
            ..design(10)
        };
        let all = estimated(&two).time.as_secs_f64() * 1e3;
        assert!((all - (20.0 * touch + 80.0 * 1.68)).abs() < 2.0, "{all} ms");
    }
}
