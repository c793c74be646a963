//! The page.
//!
//! Everything that comes from records passes through the template, which escapes it; only our own
//! style sheet, script and plots go in as they are. The page forbids itself every request
//! (`Content-Security-Policy`), so whatever would need a network shows as an error in the console.

mod beside;
mod boots;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::data::Embedded;
use super::plot::PlotError;
use super::plot::heat::Heat;
use super::plot::ink;
use super::plot::lines::{Curve, Lines, Scale, Series};
use super::plot::runs::Runs;
use super::plot::timeline::Timeline;
use super::view::{Figure, Group, HostView, Matrix, Row, View, Work};

const STYLE: &str = include_str!("../style.css");
const SCRIPT: &str = include_str!("../script.js");

/// Nothing is loaded; what is inline is ours.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'";

/// The whole document.
pub(super) fn page(view: &View, data: &Embedded) -> Result<String, PlotError> {
    let body = html! {
        header {
            h1 { (view.title) }
            p.meta { (view.subtitle) }
            nav.screen aria-label="Sections" {
                @for (id, name) in sections(view) { a href={ "#" (id) } { (name) } }
            }
        }
        main {
            (summary(view))
            (beside::hosts(view)?)
            (beside::pairs(view))
            @for (at, group) in view.groups.iter().enumerate() {
                (figures(group, at)?)
            }
            @for (at, group) in view.boots.iter().enumerate() {
                (boots::group(group, at)?)
            }
            (models(view)?)
            (matrices(view)?)
            (timelines(view)?)
            (runs(view)?)
            (hosts(view))
            section #method { h2 { "Method" }
                ul.plain { @for line in &view.method { li { (line) } } }
            }
            (downloads(view, data))
        }
    };
    let dark = format!(
        "@media screen and (prefers-color-scheme: dark) {{\n{}}}",
        ink::dark_rules()
    );
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "deferred-init study " (env!("CARGO_PKG_VERSION")) };
                title { (view.title) }
                // an empty icon, since browsers ask for one otherwise
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(ink::rules())) (PreEscaped(dark)) }
            }
            body {
                (body)
                script type="application/json" id="records" { (PreEscaped(&data.json)) }
                script type="application/json" id="csv" { (PreEscaped(&data.csv)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(document.into_string())
}

fn sections(view: &View) -> Vec<(String, &'static str)> {
    let mut sections = vec![("summary".to_owned(), "Summary")];
    if view.comparison.is_some() {
        sections.push(("hosts-compared".into(), "Hosts compared"));
    }
    if !view.pairs.is_empty() {
        sections.push(("against".into(), "A against B"));
    }
    if !view.groups.is_empty() {
        sections.push(("figures-0".into(), "Figures"));
    }
    if !view.boots.is_empty() {
        sections.push(("boots-0".into(), "Boots"));
    }
    let others = [
        (!view.models.is_empty(), "models", "Models"),
        (!view.matrices.is_empty(), "matrices", "Matrices"),
        (true, "timeline", "Timeline"),
        (!view.runs.is_empty(), "runs", "Runs"),
        (true, "host", "Host"),
        (true, "method", "Method"),
        (true, "data", "Data"),
    ];
    let shown = others.into_iter().filter(|(shown, ..)| *shown);
    sections.extend(shown.map(|(_, id, name)| (id.to_owned(), name)));
    sections
}

fn summary(view: &View) -> Markup {
    html! {
        section #summary .summary aria-label="Summary" {
            @for line in &view.summary { p { (line) } }
        }
        @if !view.warnings.is_empty() {
            section.warnings aria-label="Warnings" {
                h2 { "Read with care" }
                ul { @for line in &view.warnings { li { (line) } } }
            }
        }
    }
}

/// Plots and table of one host and one way of running.
fn figures(group: &Group, at: usize) -> Result<Markup, PlotError> {
    let threads = |series: &[Series]| {
        let counts = series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.x);
        counts.fold((u64::MAX, 0), |(least, most), x| {
            (least.min(x), most.max(x))
        })
    };
    let (least, most) = threads(&group.time);
    let line = |y: &dyn Fn(f64) -> f64| Curve {
        ink: ink::Ink::Ideal,
        // a straight line stays one on both kinds of axes only if it has points between
        points: (0..=64)
            .map(|i| least as f64 * (most as f64 / least as f64).powf(f64::from(i) / 64.0))
            .map(|x| (x, y(x)))
            .collect(),
    };
    let ideal = match least < most {
        true => vec![line(&|x| x / least as f64)],
        false => Vec::new(),
    };
    let full = match least < most {
        true => vec![line(&|_| 1.0)],
        false => Vec::new(),
    };
    // by factors an ideal is a straight line, and what many threads gain is not squeezed
    let scale = match most >= least.saturating_mul(8) {
        true => Scale::Log,
        false => Scale::Linear,
    };
    let plot = |about: &str, y, unit, scale, series: &[Series], curves: &[Curve]| {
        Lines {
            about,
            y,
            unit,
            scale,
            series,
            curves,
        }
        .draw()
    };
    Ok(html! {
        section #{ "figures-" (at) } {
            h2 { (group.title) }
            @if !group.note.is_empty() { p.meta { (group.note) } }
            (legend(group))
            div.plots {
                figure {
                    figcaption { "Time" span { "lower is better; both axes by factors where they span many" } }
                    (plot("Time to initialise the whole memory map against the number of threads", "ms", " ms", Scale::Log, &group.time, &[])?)
                }
                figure {
                    figcaption { "Speed-up" span { "over the fewest threads, same writer; dotted: ideal" } }
                    (plot("Speed-up over the fewest threads against the number of threads", "times as fast", "", scale, &group.speed_up, &ideal)?)
                }
                figure {
                    figcaption { "Efficiency" span { "speed-up over what as many threads would ideally give" } }
                    (plot("Efficiency against the number of threads", "of ideal", "", Scale::Linear, &group.efficiency, &full)?)
                }
                figure {
                    figcaption { "Rate against limit" span { "bytes of struct pages; dashed: the fastest streaming fill" } }
                    (plot("Bytes of struct pages written per second against the number of threads, and the streaming limit", "GB/s", " GB/s", Scale::Linear, &group.rate, &[])?)
                }
            }
            (table(group))
        }
    })
}

fn legend(group: &Group) -> Markup {
    html! {
        ul.legend aria-label="Legend" {
            @for series in &group.rate {
                li { b class=(class(series.ink)) aria-hidden="true" { (series.marker.sign()) }
                    (series.name) @if series.ink == ink::Ink::Limit { span.soft { " (dashed)" } } }
            }
            li.soft { "whiskers: 95 % intervals, where there are enough rounds" }
        }
    }
}

fn class(ink: ink::Ink) -> String {
    match ink {
        ink::Ink::Series(index) => format!("ink{}", index % ink::SERIES_INKS),
        _ => "inkl".into(),
    }
}

fn table(group: &Group) -> Markup {
    let interval = group.rows.iter().any(|row| row.time.interval.is_some());
    let cell = |figure: Option<Figure>, name: &str, row: &Row, digits: usize| {
        html! {
            td data-figure=(name) data-series=(row.series) data-threads=(row.threads)
                data-value=[figure.map(|figure| figure.value)] {
                @match figure { Some(figure) => (format!("{:.digits$}", figure.value)), None => "–" }
            }
            @if interval {
                td.i { @if let Some((low, high)) = figure.and_then(|figure| figure.interval) {
                    (format!("[{low:.digits$}, {high:.digits$}]"))
                } }
            }
        }
    };
    let span = if interval { 2 } else { 1 };
    html! {
        div.scroll { table {
            caption { (group.basis) }
            thead { tr {
                th { "threads" } th.l { "writer" }
                th colspan=(span) { "time, ms" } th { "ns/page" } th { "GB/s" }
                th colspan=(span) { "speed-up" } th { "efficiency" } th colspan=(span) { "of limit" }
                th { "spread" } th { "runs" } th { "outliers" }
            } }
            tbody { @for (at, row) in group.rows.iter().enumerate() {
                @let first = at > 0 && group.rows[at - 1].threads != row.threads;
                tr.group[first].limit[row.limit] {
                    td { (row.threads) } td.l { (row.series) }
                    (cell(Some(row.time), "time", row, 2))
                    td data-figure="ns-page" { (format!("{:.2}", row.ns_a_page)) }
                    td data-figure="rate" data-series=(row.series) data-threads=(row.threads) data-value=(row.rate) { (format!("{:.2}", row.rate)) }
                    (cell(row.speed_up, "speed-up", row, 2))
                    td data-figure="efficiency" { @match row.efficiency { Some(value) => (format!("{:.0} %", value * 100.0)), None => "–" } }
                    (cell(row.of_limit, "of-limit", row, 2))
                    td { @match row.spread { Some(spread) => (format!("{:.1} %", spread * 100.0)), None => "–" } }
                    td data-figure="runs" data-series=(row.series) data-threads=(row.threads) data-value=(row.runs) { (row.runs) }
                    td { (row.outliers) }
                }
            } }
        } }
    }
}

fn models(view: &View) -> Result<Markup, PlotError> {
    if view.models.is_empty() {
        return Ok(html! {});
    }
    Ok(html! {
        section #models {
            h2 { "Models" }
            p.soft { "Fitted to the medians of each host's fastest writer. Curves end where measuring ended; whatever lies beyond is a prediction and says what it extrapolates." }
            @for model in &view.models {
                h3 { (model.title) }
                @for line in &model.words { p { (line) } }
                @if !model.measured.points.is_empty() {
                    div.plots { figure {
                        figcaption { "Speed-up, measured and fitted" span { "points: medians over the fewest threads; dashed: the model" } }
                        (Lines { about: "Speed-up as measured and as the model has it", y: "times as fast", unit: "", scale: Scale::Linear, series: std::slice::from_ref(&model.measured), curves: &model.curves }.draw()?)
                    } }
                }
                @for table in &model.tables { div.scroll { table data-table=(table.name) {
                    @let words = |at: usize| (at == 0, at + 1 == table.columns.len());
                    caption { (table.caption) }
                    thead { tr { @for (at, name) in table.columns.iter().enumerate() { th.l[words(at).0] .w[words(at).1] { (name) } } } }
                    tbody { @for row in &table.rows { tr { @for (at, cell) in row.iter().enumerate() { td.l[words(at).0] .w[words(at).1] { (cell) } } } } }
                } } }
            }
        }
    })
}

fn matrices(view: &View) -> Result<Markup, PlotError> {
    if view.matrices.is_empty() {
        return Ok(html! {});
    }
    let heat = |matrix: &Matrix| {
        Heat {
            about: &matrix.title,
            unit: " GB/s",
            rows: &matrix.rows,
            columns: &matrix.columns,
            cells: &matrix.cells,
        }
        .draw()
    };
    Ok(html! {
        section #matrices {
            h2 { "Node × node" }
            p.soft { "Threads on the node of the row write memory on the node of the column; GB/s, medians. Crossed out: not measured." }
            div.heat { @for matrix in &view.matrices {
                figure { figcaption { (matrix.title) span { (matrix.note) } } (heat(matrix)?) }
            } }
        }
    })
}

fn timelines(view: &View) -> Result<Markup, PlotError> {
    let draw = |work: &Work| {
        Timeline {
            about: &work.title,
            rows: &work.rows,
            bars: &work.bars,
        }
        .draw()
    };
    Ok(html! {
        section #timeline {
            h2 { "Section by section" }
            @if view.timelines.is_empty() {
                p { "Not recorded: none of the records says when each section was written." }
            }
            @for work in &view.timelines {
                figure.wide {
                    figcaption { (work.title) span { (work.note) } }
                    (draw(work)?)
                }
                @if work.shades.len() > 1 {
                    ul.legend { @for (shade, name) in work.shades.iter().enumerate() {
                        li { b class={ "ink" (shade % ink::SERIES_INKS) } aria-hidden="true" { "■" } (name) }
                    } }
                }
            }
        }
    })
}

fn runs(view: &View) -> Result<Markup, PlotError> {
    Ok(html! {
        @if !view.runs.is_empty() { section #runs {
            h2 { "Every run" }
            @for (host, dots) in &view.runs {
                figure.wide {
                    figcaption { (host) span { "a band that wanders is drift, a red cross an outlier; ratios within rounds cancel the one and medians pass over the other" } }
                    (Runs { about: "Time of each run over the median of its contestant, in the order of runs", dots }.draw()?)
                }
            }
        } }
    })
}

fn hosts(view: &View) -> Markup {
    html! {
        section #host {
            h2 { @if view.hosts.len() == 1 { "Host" } @else { "Hosts" } }
            @for host in &view.hosts { (one_host(host)) }
        }
    }
}

fn one_host(host: &HostView) -> Markup {
    html! {
        h3 { (host.name) }
        dl { @for (what, value) in &host.facts { dt { (what) } dd { (value) } } }
        @if !host.mitigations.is_empty() {
            details { summary { "Mitigations (" (host.mitigations.len()) ")" }
                dl { @for (what, value) in &host.mitigations { dt { (what) } dd { (value) } } }
            }
        }
    }
}

fn downloads(view: &View, data: &Embedded) -> Markup {
    html! {
        section #data {
            h2 { "Data" }
            p { (data.runs) " runs are embedded in this file; their records have the time of every worker, too"
                @for (at, file) in view.files.iter().enumerate() {
                    (if at == 0 { ": " } else { ", " }) code { (file) }
                } "." }
            p.screen {
                a data-from="csv" data-type="text/csv" download={ (view.stem) ".csv" } { "Runs as CSV" } " · "
                a data-from="records" data-type="application/json" download={ (view.stem) ".json" } { "Runs, hosts and layouts as JSON" }
            }
        }
    }
}
