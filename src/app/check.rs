//! `oversold check`: the verdict again, from stored histories and ledgers, without Redis.

use std::path::Path;

use super::run::conclude;
use super::session::{Failure, Session, stored_files};
use super::trial::{judge, merge};
use crate::check::{Judge, Judgement};
use crate::history::file::{self, Header};
use crate::history::keep::{COMPRESSED, HISTORY};
use crate::plan::Plan;
use crate::report::{Report, Trial, soak};
use crate::store::stored_ledger;
use crate::summary::Summary;
use crate::verdict::Exit;

/// Checks what is stored in a run's folder, or one history.
pub fn check(stored: &Path, session: &Session) -> Result<Exit, Failure> {
    let histories = stored_files(stored, &[HISTORY, COMPRESSED])?;
    let mut groups: Vec<Group> = Vec::new();
    for history in &histories {
        let (header, trial, judgement) = again(history)?;
        let plan = header.plan;
        let same = |group: &&mut Group| {
            (&group.plan.scenario, &group.plan.lock.kind) == (&plan.scenario, &plan.lock.kind)
        };
        let seed = plan.seed;
        match groups.iter_mut().find(same) {
            Some(group) => group.add(seed, trial, judgement),
            None => {
                let mut group = Group::new(plan, header.server);
                group.add(seed, trial, judgement);
                groups.push(group);
            }
        }
    }
    let reports: Vec<Report> = groups.into_iter().map(Group::merge).collect();
    for report in &reports {
        session.say(&soak::summary(report));
    }
    conclude(&reports, session)
}

/// The trials of one lock in one scenario.
struct Group {
    plan: Plan,
    server: String,
    trials: Vec<Trial>,
    judged: Vec<(u64, Judgement)>,
}

impl Group {
    fn new(plan: Plan, server: String) -> Group {
        Group {
            plan,
            server,
            trials: vec![],
            judged: vec![],
        }
    }

    fn add(&mut self, seed: u64, trial: Trial, judgement: Judgement) {
        self.trials.push(trial);
        self.judged.push((seed, judgement));
    }

    fn merge(mut self) -> Report {
        // Folders are sorted as words; trials by their seeds.
        self.trials.sort_by_key(|trial| trial.seed);
        self.judged.sort_by_key(|(seed, _)| *seed);
        self.plan.seed = self
            .trials
            .first()
            .map_or(self.plan.seed, |trial| trial.seed);
        merge(&self.plan, &self.server, &self.judged, self.trials)
    }
}

fn again(history: &Path) -> Result<(Header<Plan>, Trial, Judgement), Failure> {
    let folder = history.parent().unwrap_or(Path::new("."));
    let (header, events) = file::read::<Plan>(history).map_err(Failure::usage)?;
    if !header.kept.is_whole() {
        return Err(Failure::usage(format!(
            "{}: only what lay around its findings was kept of this history, which is not enough to \
             judge it again; its verdict stands in report.json (next time: `--history full`)",
            history.display()
        )));
    }
    let mut judged = Judge::new(&header.plan, header.keys.len());
    let mut summary = Summary::new(&header.plan);
    for event in events {
        let event = event.map_err(Failure::usage)?;
        judged.event(&event);
        summary.event(&event);
    }
    let ledger = stored_ledger(folder, header.plan.store).map_err(Failure::usage)?;
    let (trial, judgement) = judge(&header.plan, folder, judged, Ok(ledger), &summary);
    Ok((header, trial, judgement))
}
