//! Reads when a fault strikes, and how often.

use std::time::Duration;

use super::read::{Field, Table};
use super::schedule::{At, Point, Repeat, Seen};
use super::times::positive;
use crate::clock::nanos;

/// Whether it is a time of the run, or several.
pub(super) fn is_time(at: Option<&At>) -> bool {
    matches!(at, Some(At::Time { .. } | At::Random { .. }))
}

/// Whether it is known one passing before that the fault strikes at the next one.
pub(super) fn is_foreseen(at: Option<&At>, repeat: Option<Repeat>) -> bool {
    !is_time(at) && repeat.is_none_or(|repeat| repeat.chance.is_none())
}

/// Keys of which only one may stand there, each with those that go with it.
const KINDS: [(&str, &[&str]); 4] = [
    ("point", &["nth", "every", "times", "chance"]),
    ("when", &["nth", "key", "every", "times", "chance"]),
    ("time", &["instance", "every", "times"]),
    ("random", &["instance", "times"]),
];

/// What goes with some of them.
const WITH: [&str; 6] = ["nth", "key", "instance", "every", "times", "chance"];

/// Reads one.
pub(super) fn at_of(table: Table<'_>, instances: Option<u64>) -> Option<(At, Repeat)> {
    // All of them are known, wherever they belong.
    let _ = WITH.map(|key| table.get(key));
    let kinds = KINDS.map(|(kind, with)| (table.get(kind), with));
    let mut there = kinds
        .iter()
        .filter_map(|(field, with)| Some((field.as_ref()?, *with)));
    let (first, second) = (there.next(), there.next());
    let read = match (first, second) {
        (Some((field, with)), None) => {
            tell_strangers(&table, field.key(), with);
            one_kind(&table, field, instances)
        }
        (Some((first, _)), Some((second, _))) => {
            second.key_problem(format!(
                "a fault strikes either at a `{}` or at a `{}`, not at both",
                first.key(),
                second.key()
            ));
            None
        }
        (None, _) => {
            if !table.means_one_of(&KINDS.map(|(kind, _)| kind)) {
                table.problem(
                    "a fault strikes at a point of an operation, `at = { point = \"in-section\", \
                     nth = 20 }`, or at a time, `at = { time = \"3s\", instance = 0 }`",
                );
            }
            None
        }
    };
    table.finish();
    read
}

/// Tells the keys that go with another kind.
fn tell_strangers(table: &Table<'_>, kind: &str, with: &[&str]) {
    let why = |key: &str| match (key, kind) {
        ("instance", "point") => "`instance` goes with `time`: a point strikes who reaches it",
        ("nth", "time") => "`nth` goes with `point`: a time comes once",
        _ => "",
    };
    for key in WITH {
        let Some(field) = table.get(key).filter(|_| !with.contains(&key)) else {
            continue;
        };
        match why(key) {
            "" => field.key_problem(format!("`{key}` does not go with `{kind}`")),
            why => field.key_problem(why),
        }
    }
}

fn one_kind(table: &Table<'_>, field: &Field<'_>, instances: Option<u64>) -> Option<(At, Repeat)> {
    let nth = || number(table, "nth").unwrap_or(Some(1));
    match field.key() {
        "point" => {
            let (word, nth) = (field.word(&Point::ALL.map(Point::word)), nth());
            let repeat = passings(table);
            let point = Point::ALL.into_iter().find(|p| Some(p.word()) == word)?;
            Some((At::Point { point, nth: nth? }, repeat?))
        }
        "when" => {
            let (word, nth) = (field.word(&Seen::ALL.map(Seen::word)), nth());
            let key = table.get("key").map(|key| key.integer(0..=999_999));
            let repeat = passings(table);
            let what = Seen::ALL.into_iter().find(|s| Some(s.word()) == word)?;
            let key = key.map_or(Some(None), |key| key.map(|key| Some(key as u32)))?;
            Some((
                At::Seen {
                    what,
                    key,
                    nth: nth?,
                },
                repeat?,
            ))
        }
        "time" => {
            let (time, instance) = (field.duration(), instance_of(table, instances));
            let repeat = times_of_the_clock(table);
            let (at_ns, instance) = (nanos(time?), instance?);
            Some((At::Time { at_ns, instance }, repeat?))
        }
        _ => random(table, field, instances),
    }
}

fn number(table: &Table<'_>, key: &'static str) -> Option<Option<u64>> {
    table.get(key).map(|field| field.integer(1..=1_000_000_000))
}

/// How often, after a point or what is seen.
fn passings(table: &Table<'_>) -> Option<Repeat> {
    let (every, times) = (number(table, "every"), number(table, "times"));
    let chance_field = table.get("chance");
    let chance = chance_field.as_ref().map(|field| field.number(0.0..=1.0));
    if let (Some(field), true) = (&chance_field, every.is_some()) {
        field.key_problem("`chance` decides by itself how often: without `every`");
    }
    let goes_on = every.is_some() || chance.is_some();
    Some(Repeat {
        times: how_often(times, goes_on)?,
        every: every.unwrap_or(Some(1))?,
        chance: chance.map_or(Some(None), |chance| chance.map(Some))?,
    })
}

/// How often, after a time.
fn times_of_the_clock(table: &Table<'_>) -> Option<Repeat> {
    let (every_field, times) = (table.get("every"), number(table, "times"));
    let every = every_field.as_ref().map(|field| positive(field));
    if let (None, Some(field)) = (&every_field, table.get("times")) {
        field.key_problem("`times` goes with `every`: how far apart they are");
    }
    Some(Repeat {
        times: how_often(times, every.is_some())?,
        every: nanos(every.unwrap_or(Some(Duration::from_nanos(1)))?),
        chance: None,
    })
}

/// Once, or to the end of the run where it goes on by itself, unless it is said.
fn how_often(times: Option<Option<u64>>, goes_on: bool) -> Option<Option<u64>> {
    match times {
        Some(times) => times.map(Some),
        None => Some((!goes_on).then_some(1)),
    }
}

fn random(table: &Table<'_>, field: &Field<'_>, instances: Option<u64>) -> Option<(At, Repeat)> {
    let (instance, times) = (instance_of(table, instances), number(table, "times"));
    let window = field.list()?;
    let [from, to] = window.as_slice() else {
        field.problem("`random` is a window: `random = [\"2s\", \"8s\"]`");
        return None;
    };
    let (from, to_ns) = (from.duration(), to.duration());
    let (from_ns, to_ns) = (nanos(from?), nanos(to_ns?));
    if to_ns < from_ns {
        field.problem("a window ends after it has begun");
        return None;
    }
    let at = At::Random {
        from_ns,
        to_ns,
        instance: instance?,
        drawn: Vec::new(),
    };
    let times = how_often(times, false)?;
    Some((
        at,
        Repeat {
            times,
            ..Repeat::default()
        },
    ))
}

/// A fault can only strike an instance that there is.
fn instance_of(table: &Table<'_>, instances: Option<u64>) -> Option<Option<u32>> {
    let Some(field) = table.get("instance") else {
        return Some(None);
    };
    let number = field.integer(0..=9_999)?;
    if let Some(instances) = instances.filter(|instances| number >= *instances) {
        field.misfit(format!(
            "instance {number} does not exist: there are {instances}, numbered from 0"
        ));
    }
    Some(Some(number as u32))
}
