//! Studies how initialising a memory map scales over threads, nodes, placement and strategy.

mod args;
mod model;
mod show;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use deferred_init::workers::Pinning;
use examples::front::{self, FAILED, Failure, complain, unsaid, unusable};
use examples::keep::Keep;
use examples::machines::{self, Input};
use study::design::{Design, Machine, Rounds};
use study::record::Host;
use study::run::{self, Conditions, Estimate, Study, fill_by_name};

use args::{Asked, Cli, Command, Run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Run(args) => run(args),
        Command::Plan(asked) => plan(asked),
        Command::Show { file } => show::study(file),
        Command::Compare { a, b } => show::compare(a, b),
        Command::Model(args) => model::run(args),
    };
    front::end("numa_study", done)
}

/// A study that could begin.
struct Ready {
    topology: deferred_init::Topology,
    design: Design,
    machines: Vec<run::Machine>,
    conditions: Conditions,
    estimate: Estimate,
}

fn ready(asked: &Asked) -> Result<Ready, Failure> {
    // before any thread is pinned: the topology asks for the mask that we were given
    let topology = front::topology().map_err(unusable)?;
    let design = design(asked)?;
    let conditions = Conditions {
        pinning: match asked.unpinned {
            true => Pinning::BestEffort,
            false => Pinning::Required,
        },
        oversubscribe: asked.oversubscribe,
        counters: !asked.no_counters,
        ..Conditions::default()
    };
    let mut made = Vec::new();
    let layouts = match &design.machine {
        Machine::Host => vec![machines::this_host()],
        Machine::Log(file) => vec![machines::of_log(file)],
        Machine::MadeUp { nodes } => design
            .memory
            .iter()
            .map(|memory| machines::made_up(*memory, *nodes))
            .collect(),
    };
    for layout in layouts {
        let input = layout
            .and_then(|layout| Input::of(layout, None))
            .map_err(unusable)?;
        made.push(input.machine().map_err(unusable)?);
    }
    let estimate = run::estimate(&design, &topology, &made, conditions).map_err(unusable)?;
    Ok(Ready {
        topology,
        design,
        machines: made,
        conditions,
        estimate,
    })
}

/// The study file, with what flags change of it.
fn design(asked: &Asked) -> Result<Design, Failure> {
    // what a file refuses is refused here too: one value twice, however it is written
    fn take<T: Clone + std::fmt::Debug>(
        flag: &str,
        into: &mut Vec<T>,
        values: &[T],
    ) -> Result<(), Failure> {
        let texts: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        for (at, text) in texts.iter().enumerate() {
            if texts[..at].contains(text) {
                return Err(unusable(format!(
                    "{flag}: its value number {} stands there twice; once is enough",
                    at + 1
                )));
            }
        }
        if !values.is_empty() {
            into.clear();
            into.extend_from_slice(values);
        }
        Ok(())
    }
    let mut design = match &asked.study {
        Some(file) => Design::read(file).map_err(unusable)?,
        None => Design::default(),
    };
    if let Some(name) = &asked.name {
        // the same rule as in a file
        let text = format!("name = {name:?}\n");
        design.name = Design::parse("--name", &text).map_err(unusable)?.name;
    }
    if let Some(repeats) = asked.repeats {
        design.rounds = Rounds::Exactly(repeats as usize);
    }
    design.seed = asked.seed.unwrap_or(design.seed);
    design.combine = asked.factors.unwrap_or(design.combine);
    design.matrix |= asked.matrix;
    take("--threads", &mut design.threads, &asked.threads)?;
    take("--nodes", &mut design.nodes, &asked.nodes)?;
    take("--placement", &mut design.placements, &asked.placement)?;
    take("--scheduler", &mut design.schedulers, &asked.scheduler)?;
    take("--policy", &mut design.policies, &asked.policy)?;
    take("--writer", &mut design.writers, &asked.writer)?;
    take("--pages", &mut design.pages, &asked.pages)?;
    take("--memory", &mut design.memory, &asked.memory)?;
    let nodes = asked.machine_nodes;
    if let Some(file) = &asked.layout {
        design.machine = Machine::Log(file.clone());
        design.memory.clear();
    } else if !asked.memory.is_empty() || nodes.is_some() {
        if design.memory.is_empty() {
            return Err(unusable(
                "--machine-nodes: a made-up machine needs --memory, such as 64G",
            ));
        }
        let before = match design.machine {
            Machine::MadeUp { nodes } => nodes,
            _ => 1,
        };
        design.machine = Machine::MadeUp {
            nodes: nodes.unwrap_or(before),
        };
    }
    Ok(design)
}

fn plan(asked: &Asked) -> Result<(), Failure> {
    let ready = ready(asked)?;
    let mut out = std::io::stdout().lock();
    show::plan(
        &mut out,
        &ready.design,
        &ready.topology,
        &ready.machines,
        ready.conditions,
        &ready.estimate,
    )
}

fn run(args: &Run) -> Result<(), Failure> {
    let mut trace = front::subscribe(args.verbose, args.trace.as_deref());
    let mut ready = ready(&args.asked)?;
    ready.conditions.traced = front::is_traced(args.verbose, trace.as_ref());
    let design = &ready.design;
    complain(format_args!("{}: {}", design.name, ready.estimate));

    let cancel = front::cancelled_by_interrupt()?;

    let path = args.out.join(format!("{}.jsonl", design.name));
    let mut host = Host::read(&ready.topology);
    if let Some(name) = &args.host {
        host.name.clone_from(name);
    }
    let mut keep = match args.resume {
        true => {
            let machines: Vec<_> = ready.machines.iter().map(run::Machine::layout).collect();
            Keep::resume(&path, &design.name, &design.fingerprint(), &machines).map_err(unusable)?
        }
        false => Keep::begin(&path).map_err(unusable)?,
    };
    same_host(&path, &keep, &host);
    if let Some(trace) = &mut trace {
        let mut others = vec![path.as_path()];
        others.extend(args.asked.study.as_deref());
        if let Machine::Log(layout) = &design.machine {
            others.push(layout);
        }
        if let Err(failure) = trace.create(&others) {
            keep.finish();
            return Err(failure);
        }
    }
    let fill = keep
        .records
        .iter()
        .find_map(|record| fill_by_name(record.fill.as_deref()?));
    let study = Study {
        design,
        machines: &ready.machines,
        topology: ready.topology,
        host,
        conditions: ready.conditions,
        session: keep.session(),
        fill,
    };
    let result = run::run(study, &cancel, &mut keep);
    keep.finish();
    let mut out = std::io::stdout().lock();
    let ended = match result.map_err(front::ended) {
        Ok(ended) => {
            show::records(&mut out, &keep.records, &path).map_err(unsaid)?;
            match ended.cancelled {
                true => Err((
                    FAILED,
                    "interrupted; go on with the same command and --resume".into(),
                )),
                false => front::measured(&keep.records),
            }
        }
        Err(failure) => Err(failure),
    };
    let traced = trace.map_or(Ok(()), |trace| trace.finish(&mut out));
    front::all([ended, traced])
}

/// A study that goes on elsewhere is no study of one host.
fn same_host(path: &Path, keep: &Keep, host: &Host) {
    let Some(record) = keep.records.last() else {
        return;
    };
    let then = &record.host;
    for (what, then, now) in [
        ("processor", &then.cpu, &host.cpu),
        ("kernel", &then.kernel, &host.kernel),
        ("host", &then.name, &host.name),
        ("commit", &then.commit, &host.commit),
    ] {
        if then != now {
            complain(format_args!(
                "warning: {}: its last record is of {what} `{then}`, this is `{now}`: runs before and \
                 after are of two machines or programs",
                path.display()
            ));
        }
    }
}
