//! Models of a study, and what they say of other hosts.

use std::io::Write;

use deferred_init::topology::presets::{self, Preset};
use examples::front::{Failure, unsaid, unusable};
use study::model::{Basis, Calibration, Kind, Model, predict};

use crate::args;
use crate::show::load;

/// Bytes that a model by hand is of.
const BY_HAND: f64 = 1e9;

pub(crate) fn run(args: &args::Model) -> Result<(), Failure> {
    let hosts = hosts(&args.predict)?;
    let mut text = String::new();
    // a kernel's usual struct page
    let mut page = 64;
    let (model, basis) = match (&args.file, args.core_rate, args.node_rate) {
        (None, Some(core), Some(node)) => {
            // GB/s are bytes a nanosecond
            let model = Model::roofline(BY_HAND, core, node, args.knee);
            let basis = Basis {
                host: format!("a core of {core} GB/s and a node of {node} GB/s, by hand"),
                threads: (node / core).ceil(),
                bytes: BY_HAND,
            };
            (model, basis)
        }
        (Some(file), ..) => {
            let made = fitted(file, args.writer.as_deref(), &mut text)?;
            page = made.page;
            (made.node, made.basis)
        }
        _ => {
            return Err(unusable(
                "records to calibrate on, or --core-rate and --node-rate",
            ));
        }
    };
    text.push_str(&format!("model: {model} (ns)\n"));
    for preset in hosts {
        let host = preset.topology().map_err(unusable)?;
        let predicted = predict(&model, &basis, &host, page);
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
) -> Result<Calibration, Failure> {
    let made = Calibration::of(&load(file)?, writer)
        .map_err(|error| unusable(format!("{}: {error}", file.display())))?;
    text.push_str(&format!(
        "fitted to {} on {} numbers of threads\n",
        made.settings.writer,
        made.measured.len()
    ));
    for kind in Kind::ALL {
        let mut candidates = made.chosen.candidates.iter();
        match candidates.find(|(fitted, _)| *fitted == kind) {
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
    let taken = made.chosen.model.kind().name();
    text.push_str(&format!("  taken: {taken}, {}\n", made.errors));
    if let Some(held) = &made.held {
        text.push_str(&format!("  predicting the others {held}\n"));
    }
    if made.nodes > 1 {
        text.push_str(&format!(
            "  {} nodes worked at once; each is taken to have its share of threads and bytes\n",
            made.nodes
        ));
    }
    Ok(made)
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
