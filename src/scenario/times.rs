//! Reads durations, and the distributions that are made of them.

use std::time::Duration;

use super::dist::{Dist, Part};
use super::read::{Field, Table};
use crate::clock::nanos;

/// A duration that may run back (`"-40s"`), and is not zero.
pub(super) fn signed(field: &Field<'_>) -> Option<i64> {
    let by = field.signed_duration()?;
    if by == 0 {
        field.problem(format!("`{}` must not be 0", field.path));
    }
    (by != 0).then_some(by)
}

/// A duration that is not zero.
pub(super) fn positive(field: &Field<'_>) -> Option<Duration> {
    let duration = field.duration()?;
    if duration.is_zero() {
        field.problem(format!("`{}` must be longer than 0", field.path));
    }
    (!duration.is_zero()).then_some(duration)
}

pub(super) fn section_of(table: Table<'_>) -> Option<(Dist, bool)> {
    let heeds = table.get("heeds_lost_lease").map(|field| field.boolean());
    let dist = dist_of(table);
    Some((dist?, heeds.unwrap_or(Some(false))?))
}

/// A duration (`"5ms"`) or a table that names a distribution.
pub(super) fn dist(field: &Field<'_>) -> Option<Dist> {
    match field.is_table() {
        true => dist_of(field.table()?),
        false => field.duration().map(Dist::constant),
    }
}

const DISTRIBUTIONS: [&str; 5] = ["constant", "uniform", "lognormal", "mix", "cache"];

fn dist_of(table: Table<'_>) -> Option<Dist> {
    let readers = [constant, uniform, lognormal, mix, cache];
    let named = DISTRIBUTIONS.into_iter().zip(readers);
    let read: Vec<Option<Dist>> = named
        .filter_map(|(key, read)| Some(read(&table.get(key)?)))
        .collect();
    if read.len() > 1 || (read.is_empty() && !table.means_one_of(&DISTRIBUTIONS)) {
        table.problem(
            "one distribution is needed: `constant = \"50ms\"`, `uniform = [\"6s\", \"8s\"]`, \
             `lognormal = { p50 = \"40ms\", p99 = \"200ms\" }`, `mix = [...]` or `cache = {...}`",
        );
    }
    table.finish();
    let [dist] = read.try_into().ok()?;
    dist
}

/// A distribution inside another. A cache counts its own rounds and can only be the whole.
fn inner(field: &Field<'_>, dist: Dist) -> Option<Dist> {
    if matches!(dist, Dist::Cache { .. }) {
        field.problem(format!(
            "`{}`: a cache cannot be part of another distribution",
            field.path
        ));
        return None;
    }
    Some(dist)
}

fn constant(field: &Field<'_>) -> Option<Dist> {
    field.duration().map(Dist::constant)
}

fn uniform(field: &Field<'_>) -> Option<Dist> {
    let list = field.list()?;
    let [low, high] = list.as_slice() else {
        field.problem(format!("`{}` has two ends: [\"6s\", \"8s\"]", field.path));
        return None;
    };
    let (low, high) = (low.duration(), high.duration());
    let (low, high) = (low?, high?);
    if low > high {
        field.problem(format!(
            "`{}` runs from the shorter end to the longer one",
            field.path
        ));
    }
    Some(Dist::Uniform {
        low_ns: nanos(low),
        high_ns: nanos(high),
    })
}

fn lognormal(field: &Field<'_>) -> Option<Dist> {
    let table = field.table()?;
    let p50 = table.need("p50", "\"40ms\"").and_then(|f| positive(&f));
    let p99 = table.need("p99", "\"200ms\"").and_then(|f| positive(&f));
    table.finish();
    let (p50, p99) = (p50?, p99?);
    if p50 > p99 {
        field.problem(format!("`{}`: p50 must not be longer than p99", field.path));
    }
    Some(Dist::Lognormal {
        p50_ns: nanos(p50),
        p99_ns: nanos(p99),
    })
}

fn mix(field: &Field<'_>) -> Option<Dist> {
    let parts: Vec<Option<Part>> = field.list()?.iter().map(part).collect();
    let parts = parts.into_iter().collect::<Option<Vec<Part>>>()?;
    let sum: f64 = parts.iter().map(|part| part.share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        // The sum of nothing is -0.
        let sum = (sum * 1e6).round() / 1e6 + 0.0;
        field.problem(format!(
            "the shares of `{}` add up to {sum}, not to 1",
            field.path
        ));
    }
    Some(Dist::Mix(parts))
}

fn cache(field: &Field<'_>) -> Option<Dist> {
    let table = field.table()?;
    let one_in = table.need("miss_one_in", "20");
    let one_in = one_in.and_then(|field| field.integer(1..=1_000_000));
    let miss = table.need("miss", "{ uniform = [\"6s\", \"8s\"] }");
    let miss = miss.and_then(|field| inner(&field, dist(&field)?));
    let hit = table.need("hit", "\"50ms\"");
    let hit = hit.and_then(|field| inner(&field, dist(&field)?));
    table.finish();
    Some(Dist::Cache {
        miss_one_in: one_in? as u32,
        miss: Box::new(miss?),
        hit: Box::new(hit?),
    })
}

fn part(field: &Field<'_>) -> Option<Part> {
    let table = field.table()?;
    let share = table
        .need("share", "0.02")
        .and_then(|f| f.number(0.0..=1.0));
    let of = dist_of(table);
    Some(Part {
        share: share?,
        of: inner(field, of?)?,
    })
}
