//! Hosts and studies beside each other.

use maud::{Markup, html};

use super::super::plot::PlotError;
use super::super::plot::lines::{Lines, Scale};
use super::super::view::{EffectRow, Pair, View};
use super::class;
use crate::judge::Ratio;

/// All hosts, for one writer that all of them ran.
pub(super) fn hosts(view: &View) -> Result<Markup, PlotError> {
    let Some(comparison) = &view.comparison else {
        return Ok(html! {});
    };
    Ok(html! {
        section #hosts-compared {
            h2 { "Hosts compared" }
            @for line in &comparison.words { p { (line) } }
            ul.legend { @for series in &comparison.rate {
                li { b class=(class(series.ink)) aria-hidden="true" { (series.marker.sign()) } (series.name) }
            } }
            div.plots {
                figure {
                    figcaption { "Rate" span { (comparison.about) } }
                    (Lines { about: "Rate of each host against the number of threads", y: "GB/s", unit: " GB/s", scale: Scale::Linear, series: &comparison.rate, curves: &[] }.draw()?)
                }
                figure {
                    figcaption { "Of limit" span { "the rate over each host's own streaming limit" } }
                    (Lines { about: "Rate over the streaming limit of each host against the number of threads", y: "of limit", unit: "", scale: Scale::Linear, series: &comparison.of_limit, curves: &[] }.draw()?)
                }
            }
            div.scroll { table {
                caption { "with the most threads of each host; 95 % intervals in brackets where there are enough rounds" }
                thead { tr { @for (at, name) in comparison.columns.iter().enumerate() {
                    th.l[at < comparison.left] { (name) }
                } } }
                tbody { @for row in &comparison.rows { tr { @for (at, cell) in row.iter().enumerate() {
                    td.l[at < comparison.left] { (cell) }
                } } } }
            } }
        }
    })
}

/// The first study against each other one.
pub(super) fn pairs(view: &View) -> Markup {
    html! {
        @if !view.pairs.is_empty() { section #against {
            h2 { "A against B" }
            p.soft { "Time of B over that of A: below 1 B takes less. Runs of two studies are no pairs, so both sides are resampled. Over reference: the same of times over each side's own limit or eager boot, in which what differs between the machines cancels in part." }
            @for (at, pair) in view.pairs.iter().enumerate() { (one(pair, at)) }
        } }
    }
}

fn one(pair: &Pair, at: usize) -> Markup {
    html! {
        h3 { (pair.b) " against " (pair.a) }
        p { (pair.words) }
        @if !pair.warnings.is_empty() || !pair.alone.is_empty() {
            ul.plain {
                @for line in &pair.warnings { li { (line) } }
                @for line in &pair.alone { li { (line) } }
            }
        }
        @if !pair.effects.is_empty() { div.scroll { table data-table="effects" data-pair=(at) {
            caption { "A: " (pair.a) "; B: " (pair.b) "; 95 % intervals in brackets where there are enough rounds" }
            thead { tr {
                th.l { "figure" } th.l { "settings" } th colspan="2" { "B over A" }
                th colspan="2" { "over reference" } th.l { "verdict" }
            } }
            tbody { @for row in &pair.effects { tr {
                td.l { (row.what) } td.l { (row.settings) }
                (ratio(Some(row.ratio), row, "effect"))
                (ratio(row.of_reference, row, "effect-of-reference"))
                td.l { (row.verdict) }
            } } }
        } } }
    }
}

fn ratio(ratio: Option<Ratio>, row: &EffectRow, name: &str) -> Markup {
    html! {
        td data-figure=(name) data-series=(row.what) data-value=[ratio.map(|ratio| ratio.median)] {
            @match ratio { Some(ratio) => (format!("{:.3}", ratio.median)), None => "–" }
        }
        td.i { @if let Some(ratio) = ratio.filter(|_| row.judged) {
            (format!("[{:.3}, {:.3}]", ratio.low, ratio.high))
        } }
    }
}
