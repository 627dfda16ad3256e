//! The checks against histories whose verdict is known: for each property and each cause a history
//! that shows it, and a twin that differs in one fact and must not be found.
#![allow(clippy::unwrap_used)]

mod correct_locks;
mod history;
mod stored;

// One sentence a line: what happens at one moment stays together.
#[rustfmt::skip]
mod again;
#[rustfmt::skip]
mod answers;
#[rustfmt::skip]
mod business;
#[rustfmt::skip]
mod causes;
#[rustfmt::skip]
mod coverage;
#[rustfmt::skip]
mod failover;
#[rustfmt::skip]
mod lock;
#[rustfmt::skip]
mod misuse;
#[rustfmt::skip]
mod spinning;
#[rustfmt::skip]
mod unheard;
#[rustfmt::skip]
mod watchdog;
