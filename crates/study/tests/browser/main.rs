//! A report as a browser has it: no error in the console, nothing asked of a network, and in the
//! document the figures of the records. Skipped, with a line, where there is no browser.

mod chromium;
mod made_up;

use std::collections::BTreeMap;
use std::path::PathBuf;

use chromium::{Chromium, Opened};
use scraper::{ElementRef, Html, Selector};
use study::record::{Record, Role};
use study::report::{Options, Report};
use study::synthetic;

/// Writes the report of `records`, to a place where a person can look at it, too.
fn write(name: &str, records: &[Record], options: &Options) -> PathBuf {
    let report = Report::of(records, options).unwrap();
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&path, report.html().unwrap()).unwrap();
    path
}

fn open(name: &str, records: &[Record], options: &Options) -> Option<Opened> {
    let page = write(name, records, options);
    let Some(browser) = Chromium::find() else {
        captures::skipped("no Chromium in PATH (apt-get install chromium)");
        return None;
    };
    Some(browser.open(&page))
}

fn select<'d>(dom: &'d Html, selector: &str) -> Vec<ElementRef<'d>> {
    dom.select(&Selector::parse(selector).unwrap()).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Median times in ms by writer and threads, straight from the records.
fn medians(records: &[Record]) -> BTreeMap<(String, u64), f64> {
    let mut times: BTreeMap<(String, u64), Vec<f64>> = BTreeMap::new();
    for record in records {
        if matches!(record.role, Role::Cell | Role::Limit) {
            let key = (record.settings.writer.clone(), record.settings.threads);
            times
                .entry(key)
                .or_default()
                .push(record.write_ns as f64 / 1e6);
        }
    }
    times
        .into_iter()
        .map(|(key, times)| (key, median(times)))
        .collect()
}

#[test]
fn a_browser_shows_the_figures_of_the_records_and_complains_of_nothing() {
    let records = made_up::scaling("made-up", 61);
    let Some(opened) = open("report", &records, &Options::default()) else {
        return;
    };
    assert_eq!(opened.console, [""; 0]);
    let dom = Html::parse_document(&opened.dom);
    let ready = select(&dom, "html[data-ready=yes]");
    assert_eq!(ready.len(), 1, "the script came to its end");

    let medians = medians(&records);
    let value = |element: &ElementRef<'_>, name: &str| element.attr(name).unwrap().to_owned();
    let number =
        |element: &ElementRef<'_>, name: &str| value(element, name).parse::<f64>().unwrap();
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;

    // the table: what a program reads of it and what a person reads
    let cells = select(&dom, "td[data-figure=time]");
    assert_eq!(cells.len(), medians.len());
    for cell in &cells {
        let key = (
            value(cell, "data-series"),
            number(cell, "data-threads") as u64,
        );
        let expected = medians[&key];
        assert!(near(number(cell, "data-value"), expected), "{key:?}");
        let shown: String = cell.text().collect();
        assert_eq!(shown, format!("{expected:.2}"), "{key:?}");
    }
    // rates are bytes over times
    let bytes = records[0].bytes() as f64;
    for cell in select(&dom, "td[data-figure=rate]") {
        let key = (
            value(&cell, "data-series"),
            number(&cell, "data-threads") as u64,
        );
        assert!(
            near(number(&cell, "data-value"), bytes / (medians[&key] * 1e6)),
            "{key:?}"
        );
    }
    // the points of the first plot, time by threads
    let plot = select(&dom, "#figures-0 svg.plot")[0];
    let points: Vec<_> = plot
        .select(&Selector::parse("circle.hit").unwrap())
        .collect();
    let writers = medians
        .keys()
        .filter(|(writer, _)| writer != "limit")
        .count();
    assert_eq!(points.len(), writers);
    for point in points {
        let key = (
            value(&point, "data-series"),
            number(&point, "data-x") as u64,
        );
        assert!(near(number(&point, "data-y"), medians[&key]), "{key:?}");
    }

    // what is embedded, as the browser holds it
    let text = |id: &str| select(&dom, id)[0].text().collect::<String>();
    let json: serde_json::Value = serde_json::from_str(&text("#records")).unwrap();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), records.len());
    for (run, record) in runs.iter().zip(&records) {
        assert_eq!(run["write_ns"], record.write_ns);
        assert_eq!(run["round"], record.round);
        assert_eq!(run["writer"], record.settings.writer.as_str());
        assert_eq!(run["threads"], record.settings.threads);
    }
    // both downloads lead to what the script made of it
    for link in select(&dom, "a[data-from]") {
        assert!(
            value(&link, "href").starts_with("blob:"),
            "{}",
            value(&link, "href")
        );
    }
}

#[test]
fn hosts_stand_beside_each_other_and_matrices_show_every_pair() {
    let mut records = made_up::scaling("first", 61);
    records.extend(made_up::matrix("first", 4));
    let slower = made_up::scaling("second", 61)
        .into_iter()
        .map(|mut record| {
            record.host.cpu = "Another CPU".into();
            record.write_ns = record.write_ns * 5 / 4;
            record
        });
    records.extend(slower);
    let Some(opened) = open("hosts", &records, &Options::default()) else {
        return;
    };
    assert_eq!(opened.console, [""; 0]);
    let dom = Html::parse_document(&opened.dom);
    let rows: Vec<String> = select(&dom, "#hosts-compared tbody tr td:first-child")
        .iter()
        .map(|cell| cell.text().collect())
        .collect();
    assert_eq!(rows, ["first", "second"]);
    assert_eq!(select(&dom, "#matrices svg.plot").len(), 2);
    for (svg, role) in select(&dom, "#matrices svg.plot")
        .iter()
        .zip([Role::MatrixLimit, Role::Matrix])
    {
        let shown: Vec<_> = svg
            .select(&Selector::parse("circle.hit").unwrap())
            .collect();
        assert_eq!(shown.len(), 15, "one of 16 was refused");
        for cell in shown {
            let record = records.iter().find(|record| {
                record.role == role
                    && record.settings.nodes
                        == [cell.attr("data-series").unwrap().parse::<u64>().unwrap()]
                    && record.settings.placement == format!("node:{}", cell.attr("data-x").unwrap())
            });
            let rate: f64 = cell.attr("data-y").unwrap().parse().unwrap();
            assert!((rate / record.unwrap().gb_a_second() - 1.0).abs() < 1e-9);
        }
    }
    assert_eq!(select(&dom, "#host h3").len(), 2);
}

#[test]
fn boots_by_policy_and_effects_between_studies_are_those_of_the_records() {
    type Of = fn(study::record::Booted) -> u64;
    let waits = |settings: &study::record::Settings, round: u64| {
        let noise = 1.0 + (round * 37 % 11) as f64 / 200.0;
        match settings.policy.as_str() {
            "eager" => [20e6, 20e6, 20e6],
            "deferred" => [5e6, 12e6, 5e6],
            _ => [0.25e6, 30e6, 1e6],
        }
        .map(|ns| ns * noise)
    };
    let a = synthetic::boots(61, waits);
    let mut b = synthetic::boots(61, |settings, round| {
        waits(settings, round).map(|ns| ns * 1.5)
    });
    for record in &mut b {
        record.host.name = "other".into();
    }
    let Some(opened) = open(
        "boots",
        &[a.clone(), b.clone()].concat(),
        &Options::default(),
    ) else {
        return;
    };
    assert_eq!(opened.console, [""; 0]);
    let dom = Html::parse_document(&opened.dom);
    let ms = |records: &[Record], policy: &str, of: Of| {
        let own = records
            .iter()
            .filter(|record| record.settings.policy == policy);
        median(
            own.map(|record| of(record.boot.unwrap()) as f64 / 1e6)
                .collect(),
        )
    };
    let figures: [(&str, Of); 3] = [
        ("first usable", |boot| boot.first_usable_ns),
        ("total", |boot| boot.total_ns),
        ("worst stretch", |boot| boot.worst_stretch_ns),
    ];
    for (section, records) in [("#boots-0", &a), ("#boots-1", &b)] {
        for (plot, (name, of)) in figures.iter().enumerate() {
            let shown = select(&dom, &format!("{section} td[data-figure='{name}']"));
            assert_eq!(shown.len(), 3, "{section} {name}");
            let drawn = select(&dom, &format!("{section} svg.plot"))[plot];
            for cell in shown {
                let policy = cell.attr("data-series").unwrap();
                let expected = ms(records, policy, *of);
                let value: f64 = cell.attr("data-value").unwrap().parse().unwrap();
                assert!((value / expected - 1.0).abs() < 1e-9, "{name} {policy}");
                let text: String = cell.text().collect();
                assert_eq!(text, format!("{expected:.2}"));
                let hits = format!("circle.hit[data-series='{policy}']");
                let hit = drawn
                    .select(&Selector::parse(&hits).unwrap())
                    .next()
                    .unwrap();
                let value: f64 = hit.attr("data-y").unwrap().parse().unwrap();
                assert!((value / expected - 1.0).abs() < 1e-9, "{name} {policy}");
            }
        }
        let of_eager: Vec<f64> = select(&dom, &format!("{section} td[data-figure=of-eager]"))
            .iter()
            .filter_map(|cell| cell.attr("data-value")?.parse().ok())
            .collect();
        let expected = [0.25, 0.6, 0.25, 0.0125, 1.5, 0.05];
        assert_eq!(of_eager.len(), expected.len());
        for (value, expected) in of_eager.iter().zip(expected) {
            assert!((value / expected - 1.0).abs() < 1e-6, "{value} {expected}");
        }
    }
    let effects = select(&dom, "#against td[data-figure=effect]");
    assert_eq!(effects.len(), 2 * 3, "two policies, three waits");
    for effect in effects {
        let value: f64 = effect.attr("data-value").unwrap().parse().unwrap();
        assert!((value - 1.5).abs() < 1e-3, "{value}");
    }
    let said: String = select(&dom, "#summary")[0].text().collect();
    assert!(
        said.contains("other (B) against made-up (A): Of 6 figures"),
        "{said}"
    );
}

#[test]
fn names_of_hosts_and_files_are_words_and_never_markup() {
    let hostile = "</script></style><img src=x onerror=alert(1)><script>alert(2)</script>\"'&";
    let mut records = made_up::scaling(hostile, 8);
    for record in &mut records {
        record.study = hostile.into();
        record.layout.source = hostile.into();
        record.host.cpu = hostile.into();
        record.host.governor = hostile.into();
        record.workers[0].name = hostile.into();
        if record.settings.writer == "zero" {
            record.settings.writer = hostile.into();
        }
    }
    let options = Options {
        files: vec![hostile.into()],
        warnings: vec![hostile.into()],
        ..Options::default()
    };
    let html = Report::of(&records, &options).unwrap().html().unwrap();
    assert!(!html.contains("<img"), "an element came in by a name");
    let Some(opened) = open("hostile", &records, &options) else {
        return;
    };
    assert_eq!(opened.console, [""; 0]);
    let dom = Html::parse_document(&opened.dom);
    assert_eq!(select(&dom, "html[data-ready=yes]").len(), 1);
    assert_eq!(select(&dom, "script").len(), 3, "ours and no other");
    assert_eq!(select(&dom, "img").len(), 0);
    assert_eq!(select(&dom, "h1")[0].text().collect::<String>(), hostile);
    let facts: Vec<String> = select(&dom, "dd")
        .iter()
        .map(|dd| dd.text().collect())
        .collect();
    assert!(facts.iter().any(|fact| fact == hostile), "{facts:?}");
}

/// Without a browser: what the document says of models is there before any script runs.
#[test]
fn the_document_shows_the_fit_of_every_row_where_it_misses_and_what_predictions_extrapolate() {
    // 4 nodes whose cores add up until the memory is the limit, and 8 threads that were disturbed
    let mut records = made_up::scaling("made-up", 61);
    for record in &mut records {
        record.host.nodes = (0..4)
            .map(|node| study::record::HostNode {
                node,
                ..record.host.nodes[0].clone()
            })
            .collect();
        if record.settings.threads == 8 {
            record.write_ns = record.write_ns * 3 / 2;
        }
    }
    let html = Report::of(&records, &Options::default())
        .unwrap()
        .html()
        .unwrap();
    let dom = Html::parse_document(&html);
    let words: Vec<String> = select(&dom, "#models p")
        .iter()
        .map(|p| p.text().collect())
        .collect();
    let said = words.join("\n");
    let has = |text: &str| assert!(said.contains(text), "{text}: {said}");
    has("model was chosen: fitted to 7 numbers of threads");
    has("Chosen and fitted anew by 1, 16 and 48 threads alone");
    has("Where it misses: ");
    has("with 8 threads it says");
    has("too short");
    has("4 nodes worked at once");
    has(
        "extrapolate, every one: cores and memory are taken to be as fast as those of made-up (Made-up CPU)",
    );

    let medians = medians(&records);
    let rows = |table: &str| -> Vec<Vec<String>> {
        let rows = select(&dom, &format!("#models table[data-table={table}] tbody tr"));
        let cells = Selector::parse("td").unwrap();
        let text = |cell: ElementRef<'_>| cell.text().collect::<String>();
        rows.iter()
            .map(|row| row.select(&cells).map(text).collect())
            .collect()
    };
    let fit = rows("fit");
    let threads: Vec<&str> = fit.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(threads, ["1", "2", "4", "8", "16", "32", "48"]);
    for row in &fit {
        // the fastest writer's medians, and the error that follows from the two columns
        let measured = medians[&("stream".to_owned(), row[0].parse().unwrap())];
        assert_eq!(row[1], format!("{measured:.2}"));
        let model: f64 = row[2].parse().unwrap();
        let error: f64 = row[3].trim_end_matches(" %").parse().unwrap();
        assert!(
            ((model / measured - 1.0) * 100.0 - error).abs() < 0.15,
            "{row:?}"
        );
    }
    let missed = fit.iter().find(|row| row[0] == "8").unwrap();
    assert_eq!(missed[5], "missed", "{missed:?}");

    let predictions = rows("predictions");
    let presets = deferred_init::topology::presets::ALL;
    assert_eq!(predictions.len(), presets.len());
    for (row, preset) in predictions.iter().zip(presets) {
        assert_eq!(row[0], preset.name);
        assert!(row[4].parse::<f64>().unwrap() > 0.0, "{row:?}");
        // 12 threads a node were measured
        let more = row[2].parse::<u64>().unwrap() > 12;
        assert_eq!(
            row[5].contains("threads a node, of which at most 12"),
            more,
            "{row:?}"
        );
    }
}

#[test]
fn a_study_of_one_number_of_threads_says_that_it_makes_no_model() {
    let mut records = synthetic::study(61, |_, _| Some(1e6));
    records.retain(|record| record.settings.threads == 2);
    let html = Report::of(&records, &Options::default())
        .unwrap()
        .html()
        .unwrap();
    let dom = Html::parse_document(&html);
    let said: String = select(&dom, "#models p")
        .iter()
        .flat_map(|p| p.text())
        .collect();
    assert!(
        said.contains("Nothing is modelled: ")
            && said.contains("needs 2 different numbers of threads, not 1"),
        "{said}"
    );
    assert_eq!(select(&dom, "#models table").len(), 0);

    // three numbers would be met by anything: two here, so two parameters are too many
    let html = Report::of(&synthetic::study(61, |_, _| Some(1e6)), &Options::default())
        .unwrap()
        .html()
        .unwrap();
    let dom = Html::parse_document(&html);
    let said: String = select(&dom, "#models p")
        .iter()
        .flat_map(|p| p.text())
        .collect();
    assert!(said.contains("that it fits proves nothing"), "{said}");
    assert!(said.contains("Whether it predicts is not known"), "{said}");
}
