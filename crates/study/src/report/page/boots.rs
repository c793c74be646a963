//! Boots by policies: three plots and a table.

use maud::{Markup, html};

use super::super::plot::PlotError;
use super::super::plot::ink::Ink;
use super::super::plot::lines::{Lines, Scale};
use super::super::view::{BootGroup, BootView, Figure, about};
use super::class;
use crate::boots::Wait;

/// Plots and table of one group.
pub(super) fn group(group: &BootGroup, at: usize) -> Result<Markup, PlotError> {
    let mut plots = Vec::new();
    for ((wait, series), eager) in Wait::ALL.into_iter().zip(&group.plots).zip(&group.eager) {
        let (name, note) = about(wait);
        let drawn = Lines {
            about: &format!("{name} of boots against the number of threads, by policy"),
            y: "ms",
            unit: " ms",
            scale: Scale::Log,
            series,
            curves: eager,
        }
        .draw()?;
        plots.push((name, note, drawn));
    }
    Ok(html! {
        section #{ "boots-" (at) } {
            h2 { (group.title) }
            p.meta { (group.note) }
            ul.legend aria-label="Legend" {
                @for series in &group.plots[0] {
                    li { b class=(class(series.ink)) aria-hidden="true" { (series.marker.sign()) }
                        (series.name) @if series.ink == Ink::Limit { span.soft { " (dashed)" } } }
                }
                li.soft { "whiskers: 95 % intervals, where there are enough rounds" }
            }
            div.plots { @for (name, note, drawn) in &plots {
                figure { figcaption { (name) span { (note) } } (drawn) }
            } }
            (table(group))
        }
    })
}

fn table(group: &BootGroup) -> Markup {
    let figures = |row: &BootView| row.waits.into_iter().flat_map(|(time, of)| [time, of]);
    let mut all = group.rows.iter().flat_map(figures).flatten();
    let interval = all.any(|figure| figure.interval.is_some());
    let span = if interval { 2 } else { 1 };
    let cell = |figure: Option<Figure>, name: &str, row: &BootView, digits: usize| {
        html! {
            td data-figure=(name) data-series=(row.policy) data-threads=(row.threads)
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
    html! {
        div.scroll { table data-table="boots" {
            caption { (group.basis) }
            thead { tr {
                th.l { "policy" } th { "threads" }
                @for wait in Wait::ALL {
                    th colspan=(span) { (wait.name()) ", ms" } th colspan=(span) { "of eager" }
                }
                th { "sections first" } th { "runs" }
            } }
            tbody { @for row in &group.rows { tr.limit[row.is_reference] {
                td.l { (row.policy) } td { (row.threads) }
                @for (wait, (time, of_eager)) in Wait::ALL.into_iter().zip(row.waits) {
                    (cell(time, wait.name(), row, 2))
                    (cell(of_eager, "of-eager", row, 3))
                }
                td { (row.sections.0) }
                td { (row.runs) }
            } } }
        } }
    }
}
