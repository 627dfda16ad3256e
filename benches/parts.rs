//! The parts whose speed matters, one by one: recording an event, checking one, reading one from a
//! file, and cutting the protocol into messages.

mod common;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use oversold::check::Judge;
use oversold::clock::Clock;
use oversold::history::event::Kind;
use oversold::history::{Event, file, recorder};
use oversold::link::{Ways, cut};
use oversold::plan::Plan;
use oversold::summary::Summary;

const EVENTS: usize = 100_000;

fn recording(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("recorder");
    group.throughput(Throughput::Elements(1));
    let (recorder, drain) = recorder::start(Clock::start(), 0, |n: &mut usize, events, _| {
        *n += events.len();
    });
    group.bench_function("record", |bench| {
        bench.iter(|| recorder.record(black_box(Kind::Asked { op: 1 })));
    });
    black_box(drain.close());
    group.finish();
}

fn checking(bench: &mut Criterion) {
    let Ok(plan) = common::plan() else { return };
    let events: Vec<Event> = common::history(EVENTS).collect();
    let mut group = bench.benchmark_group("checker");
    group.throughput(Throughput::Elements(events.len() as u64));
    group.bench_function("judge", |bench| {
        bench.iter_batched(
            || Judge::new(&plan, common::WORKERS as usize),
            |mut judge| {
                events.iter().for_each(|event| judge.event(event));
                judge
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("summary", |bench| {
        bench.iter(|| {
            let mut summary = Summary::default();
            events.iter().for_each(|event| summary.event(event));
            summary
        });
    });
    group.finish();
}

fn reading(bench: &mut Criterion) {
    let Ok(stored) = common::Stored::new(EVENTS) else {
        return;
    };
    let mut group = bench.benchmark_group("history");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.sample_size(20);
    group.bench_function("read", |bench| {
        bench.iter(|| {
            let events = file::read::<Plan>(&stored.path).map(|(_, events)| events);
            events.map_or(0, |events| events.filter(Result::is_ok).count())
        });
    });
    group.finish();
}

fn framing(bench: &mut Criterion) {
    let one = b"*6\r\n$3\r\nSET\r\n$9\r\nstock:{1}\r\n$12\r\n17-3-1000000\r\n$2\r\nNX\r\n$2\r\nPX\r\n$4\r\n5000\r\n";
    let requests = one.repeat(1000);
    let mut group = bench.benchmark_group("framing");
    group.throughput(Throughput::Bytes(requests.len() as u64));
    group.bench_function("requests", |bench| {
        bench.iter(|| cut(Ways::ToServer, black_box(&requests).chunks(16 * 1024)));
    });
    group.finish();
}

criterion_group!(parts, recording, checking, reading, framing);
criterion_main!(parts);
