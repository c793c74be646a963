//! Models of a study, and what they say of other hosts.

use std::collections::BTreeSet;
use std::io::Write;

use deferred_init::topology::presets::{self, Preset};
use examples::front::{Failure, unsaid, unusable};
use study::analysis::{Analysis, Cell};
use study::model::{Basis, Errors, Kind, Model, Point, choose, predict};

use crate::args;
use crate::show::load;

/// Bytes that a model by hand is of.
const BY_HAND: f64 = 1e9;

pub(crate) fn run(args: &args::Model) -> Result<(), Failure> {
    let hosts = hosts(&args.predict)?;
    let mut text = String::new();
    let (model, basis) = match (&args.file, args.core_rate, args.node_rate) {
        (None, Some(core), Some(node)) => {
            if !(core > 0.0 && node > 0.0 && core.is_finite() && node.is_finite()) {
                return Err(unusable(
                    "--core-rate and --node-rate: positive numbers, GB/s",
                ));
            }
            // GB/s are bytes a nanosecond
            let model = Model::roofline(BY_HAND, core, node, args.knee);
            let basis = Basis {
                host: format!("a core of {core} GB/s and a node of {node} GB/s, by hand"),
                threads: (node / core).ceil(),
                bytes: BY_HAND,
            };
            (model, basis)
        }
        (Some(file), ..) => fitted(file, args.writer.as_deref(), &mut text)?,
        _ => {
            return Err(unusable(
                "records to calibrate on, or --core-rate and --node-rate",
            ));
        }
    };
    text.push_str(&format!("model: {model} (ns)\n"));
    for preset in hosts {
        let host = preset.topology().map_err(unusable)?;
        let predicted = predict(&model, &basis, &host, 64);
        text.push_str(&format!(
            "\n{}: {}\n  about {:.1} ms for {:.1} GiB of struct pages on {} nodes, {} threads on the largest\n",
            preset.name,
            preset.about,
            predicted.time / 1e6,
            predicted.bytes as f64 / f64::from(1 << 30),
            predicted.nodes,
            predicted.threads
        ));
        for beyond in predicted.extrapolates {
            text.push_str(&format!("  extrapolates: {beyond}\n"));
        }
    }
    write!(std::io::stdout().lock(), "{text}").map_err(unsaid)
}

/// The model of a study's fastest writer, or of the one that is named.
fn fitted(
    file: &std::path::Path,
    writer: Option<&str>,
    text: &mut String,
) -> Result<(Model, Basis), Failure> {
    let records = load(file)?;
    let analysis = Analysis::of(&records);
    let cell = analysis
        .asked()
        .filter(|cell| writer.is_none_or(|writer| cell.settings.writer == writer))
        .min_by(|a, b| {
            a.time()
                .unwrap_or(f64::MAX)
                .total_cmp(&b.time().unwrap_or(f64::MAX))
        })
        .ok_or_else(|| unusable(format!("{}: no runs of that writer", file.display())))?;
    let family: Vec<&Cell> = analysis
        .asked()
        .filter(|other| {
            let mut settings = other.settings.clone();
            settings.threads = cell.settings.threads;
            other.memory == cell.memory && settings == cell.settings
        })
        .collect();
    let points: Vec<Point> = family
        .iter()
        .filter_map(|cell| {
            Some(Point {
                threads: cell.settings.threads as f64,
                time: cell.time()?,
            })
        })
        .collect();
    let chosen =
        choose(&points).map_err(|error| unusable(format!("{}: {error}", file.display())))?;
    text.push_str(&format!(
        "fitted to {} on {} numbers of threads\n",
        cell.settings.writer,
        points.len()
    ));
    for kind in Kind::ALL {
        match chosen.candidates.iter().find(|(fitted, _)| *fitted == kind) {
            Some((_, residual)) => text.push_str(&format!(
                "  {:<9} misses its own points by {:.1} % at most\n",
                kind.name(),
                residual * 100.0
            )),
            None => text.push_str(&format!(
                "  {:<9} needs 3 different numbers of threads\n",
                kind.name()
            )),
        }
    }
    if let Some(errors) = Errors::of(&points, |threads| chosen.model.time(threads)) {
        text.push_str(&format!(
            "  taken: {}, {errors}\n",
            chosen.model.kind().name()
        ));
    }
    let nodes: BTreeSet<u64> = records[0].nodes.iter().map(|node| node.node).collect();
    let host = &records[0].host;
    // times are of a whole host: its nodes share threads and bytes
    let share = nodes.len().max(1) as f64;
    if share > 1.0 {
        text.push_str(&format!(
            "  {share} nodes worked at once; each is taken to have its share of threads and bytes\n"
        ));
    }
    let model = match share > 1.0 {
        false => chosen.model,
        true => {
            let a_node: Vec<Point> = points
                .iter()
                .map(|point| Point {
                    threads: (point.threads / share).max(1.0),
                    time: point.time,
                })
                .collect();
            choose(&a_node).map_err(unusable)?.model
        }
    };
    let basis = Basis {
        host: format!("{} ({})", host.name, host.cpu),
        threads: points.iter().map(|point| point.threads).fold(0.0, f64::max) / share,
        bytes: cell.bytes as f64 / share,
    };
    Ok((model, basis))
}

fn hosts(names: &[String]) -> Result<Vec<&'static Preset>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(presets::ALL.iter().collect());
    }
    let by_name = |name: &String| {
        presets::ALL
            .iter()
            .find(|preset| preset.name == name)
            .ok_or_else(|| {
                let all: Vec<&str> = presets::ALL.iter().map(|preset| preset.name).collect();
                unusable(format!(
                    "--predict {name}: there are {}, all",
                    all.join(", ")
                ))
            })
    };
    names.iter().map(by_name).collect()
}
