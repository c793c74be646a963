//! What a C program pays for asking the library: the functions of the header and calls beside the
//! same arithmetic written inline in C.

use std::process::ExitCode;
use std::time::Instant;

use benches::capi::{Subject, WAYS};
use clap::Parser;
use study::judge::{Rule, Samples};
use study::table::{Align, Table};

/// The C interface beside inline C.
#[derive(Debug, Parser)]
#[command(name = "capi_perf")]
struct Options {
    /// Rounds.
    #[arg(long, default_value_t = study::judge::MIN_ROUNDS)]
    rounds: usize,
    /// Fail where a function of the header takes more than twice the inline arithmetic's time.
    #[arg(long)]
    check: bool,
}

/// Values of one measurement; they fit a first-level cache.
const VALUES: usize = 2048;
/// How often all of them are gone through.
const TIMES: usize = 50;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(met) => ExitCode::from(u8::from(!met)),
        Err(error) => {
            eprintln!("capi_perf: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let subject = Subject::new(VALUES).map_err(|status| format!("{status:?}"))?;
    let rule = Rule {
        rounds: options.rounds,
        ..Rule::default()
    };
    let samples = Samples::collect(&rule, WAYS.len(), |index, _| {
        let start = Instant::now();
        let mut sum = 0_u64;
        for _ in 0..TIMES {
            sum ^= std::hint::black_box(subject.run(&WAYS[index]));
        }
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as f64 / (VALUES * TIMES) as f64
    })?;
    let mut table = Table::new([
        ("what", Align::Left),
        ("how", Align::Left),
        ("ns", Align::Right),
        ("times inline C [95 %]", Align::Right),
        ("at most 2", Align::Left),
    ]);
    let mut all = true;
    for (index, way) in WAYS.iter().enumerate() {
        let first = WAYS.iter().position(|first| first.what == way.what);
        let time = format!("{:.2}", samples.time(index)?);
        let mut row = [
            way.what.into(),
            way.how.into(),
            time,
            String::new(),
            String::new(),
        ];
        if let Some(first) = first.filter(|first| *first != index) {
            let cost = samples.cost(index, first)?;
            row[3] = format!("{:.2} [{:.2}, {:.2}]", cost.median, cost.low, cost.high);
            // what the header has becomes a part of its caller; a call is shown beside it
            let judged = way.how == "header";
            let met = cost.at_most(2.0);
            all &= met || !judged;
            row[4] = match (judged, met) {
                (true, true) => "met",
                (true, false) => "missed",
                (false, _) => "",
            }
            .into();
        }
        table.row(row);
    }
    print!("{table}");
    Ok(all || !options.check)
}
