//! A user's own Redis: named by URLs, looked at, and given to one trial at a time. Nothing is started
//! and nothing ended there; a trial has links in front of it where its faults need them, keys under a
//! prefix of its own, and leaves no trace.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::Semaphore;

use super::journal::{self, Entry, Journal, JournalError, Was, Whose};
use super::limits::raise_open_file_limit;
use super::look::{ExternalError, Need, Seen, heal, look, tells, tells_of_evictions};
use super::machine::Machine;
use super::process::StartError;
use super::rights::{refusal, refused};
use super::servers::{Reach, Servers};
use super::settings::Settings;
use super::stay::{Stay, Visit, own_name};
use crate::client::{Place, RedisUrl, Server};
use crate::link::Link;
use crate::plan::{ExternalShape, Plan};
use crate::scenario::{How, Means};

/// The setting by which a server tells of its keys, and what it has to tell: deleted, expired,
/// evicted (<https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>).
const EVENTS: &str = "notify-keyspace-events";
const TOLD: &str = "Exe";

/// A user's own Redis, as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Where it is: several are independent nodes.
    pub urls: Vec<RedisUrl>,
    /// What all keys there begin with.
    pub prefix: String,
    /// Whether faults may change it for everybody.
    pub allows_server_faults: bool,
}

/// A user's own Redis that was looked at.
#[derive(Debug, Clone)]
pub struct Outside {
    hosts: Vec<Host>,
    prefix: String,
    allows_server_faults: bool,
    version: String,
    /// One trial at a time: they would disturb each other, and the Redis more than each was asked
    /// to.
    turn: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Host {
    seen: Seen,
    url: RedisUrl,
    /// Why it tells nothing of its keys, if it does not.
    untold: Option<String>,
    settings: Arc<Settings>,
}

impl External {
    /// What is known of it without a look.
    pub fn shape(&self) -> ExternalShape {
        ExternalShape {
            nodes: self.urls.len() as u32,
            sentinels: self.urls.iter().any(RedisUrl::has_sentinels),
            tls: self.urls.iter().any(RedisUrl::has_tls),
            socket: self.urls.iter().any(RedisUrl::is_socket),
            allows_server_faults: self.allows_server_faults,
        }
    }

    /// Looks at it, for some plans; at all of it without any.
    pub async fn look(&self, plans: &[&Plan]) -> Result<Outside, ExternalError> {
        let nodes = plans.iter().map(|plan| plan.topology.nodes() as usize);
        let urls = &self.urls[..nodes.max().unwrap_or(usize::MAX).min(self.urls.len())];
        let connections = plans.iter().map(|plan| plan.connections()).max();
        let need = Need {
            prefix: &self.prefix,
            connections: connections.unwrap_or(0),
        };
        let changes = plans.iter().any(|plan| plan.has_faults_by(Means::Command));
        let looks = urls.iter().map(|url| self.host(url, need, changes));
        let hosts = try_join_all(looks).await?;
        for (number, host) in hosts.iter().enumerate() {
            let same = |other: &&Host| other.seen.run_id == host.seen.run_id;
            if let Some(other) = hosts[..number].iter().find(same) {
                return Err(ExternalError {
                    place: host.seen.place.to_string(),
                    what: format!("this is the same server as {}", other.seen.place),
                    next: "a lock on a majority needs servers that are independent".to_owned(),
                });
            }
        }
        let places: Vec<String> = hosts
            .iter()
            .map(|host| host.seen.place.to_string())
            .collect();
        let mut versions: Vec<&str> = hosts
            .iter()
            .map(|host| host.seen.version.as_str())
            .collect();
        versions.dedup();
        Ok(Outside {
            version: format!("{} at {}", versions.join(", "), places.join(", ")),
            hosts,
            prefix: self.prefix.clone(),
            allows_server_faults: self.allows_server_faults,
            turn: Arc::new(Semaphore::new(1)),
        })
    }

    async fn host(
        &self,
        url: &RedisUrl,
        need: Need<'_>,
        changes: bool,
    ) -> Result<Host, ExternalError> {
        let seen = look(url, need).await?;
        let place = seen.place.to_string();
        let at_journal = |why: JournalError| ExternalError {
            place: place.clone(),
            next: match why {
                JournalError::Left => heal(url),
                _ => {
                    "what a fault changes there is written down before, on this machine".to_owned()
                }
            },
            what: why.to_string(),
        };
        let mut untold = tells(&seen.itself, need.prefix).await.err();
        // Where it may be changed it is to tell of evictions, too: a fault may bring some about.
        if untold.is_none() && self.allows_server_faults {
            untold = tells_of_evictions(&seen.itself).await.err();
        }
        let journal = match self.allows_server_faults && (changes || untold.is_some()) {
            true => Some(Journal::begin(whose(&place, url)).map_err(at_journal)?),
            false => None,
        };
        let settings = Settings::of(seen.itself.clone(), journal);
        Ok(Host {
            settings: Arc::new(settings),
            url: url.clone(),
            seen,
            untold,
        })
    }
}

/// Has a server tell of its keys, beside what it tells to others.
async fn tell_more(settings: &Settings) -> Result<(), String> {
    let told = settings.value(EVENTS).await?;
    settings.change(EVENTS, &format!("{told}{TOLD}")).await
}

fn whose(place: &str, url: &RedisUrl) -> Whose {
    Whose {
        server: place.to_owned(),
        url: url.to_string(),
    }
}

impl Outside {
    /// Its kind and version, and where it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What the names of all keys of a trial begin with; no other one has it.
    pub(super) fn prefix(&self, seed: u64) -> String {
        format!("{}{}:", self.prefix, own_name(seed))
    }

    /// Has one trial in, when the one before has left.
    pub(super) async fn raise(&self, plan: &Plan, prefix: &str) -> Result<Servers, StartError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok();
        // Each worker's socket, and the two of a link.
        let each = if plan.needs_link() { 3 } else { 1 };
        raise_open_file_limit(plan.connections() * plan.topology.nodes() * each)
            .map_err(StartError::OpenFiles)?;
        let hosts = &self.hosts[..self.hosts.len().min(plan.topology.nodes() as usize)];
        let reached = self.reach(plan, prefix, hosts).await;
        if reached.is_err() {
            for host in hosts {
                // What cannot be restored now stays written down.
                let _ = host.settings.restore_all().await;
            }
        }
        let (reach, stay) = reached?;
        let silence = plan.faults.iter().map(|fault| match fault.how {
            How::Server { fault, .. } => fault.silence(),
            _ => Duration::ZERO,
        });
        let visit = Visit {
            stay,
            // A soak says itself how long nobody may be answered.
            silence: silence.sum::<Duration>() + plan.longest_outage().unwrap_or_default(),
            turn,
        };
        Ok(Servers::visiting(reach, visit))
    }

    /// How the servers are reached, which tell of their keys from now on, where they may be told to.
    async fn reach(
        &self,
        plan: &Plan,
        prefix: &str,
        hosts: &[Host],
    ) -> Result<(Reach, Arc<Stay>), StartError> {
        let (mut nodes, mut servers, mut untold) = (Vec::new(), Vec::new(), None);
        for host in hosts {
            let why = self.untold(host, prefix).await;
            untold = untold.or(why.map(|why| format!("{}: {why}", host.seen.place)));
            let link = match plan.needs_link() {
                true => Some(Link::start(host.seen.own).await.map_err(StartError::Link)?),
                false => None,
            };
            let Seen { own, itself, .. } = &host.seen;
            let settings = Arc::clone(&host.settings);
            nodes.push(Arc::new(Machine::of_a_user(
                *own,
                itself.clone(),
                link,
                settings,
            )));
            servers.push(host.seen.server.clone());
        }
        let stay = Arc::new(Stay {
            prefix: prefix.to_owned(),
            untold,
            servers,
        });
        let reach = Reach {
            nodes,
            group: None,
            stay: Some(Arc::clone(&stay)),
        };
        Ok((reach, stay))
    }

    /// Why a server tells nothing of its keys. Where that may be changed it is.
    async fn untold(&self, host: &Host, prefix: &str) -> Option<String> {
        let why = host.untold.clone()?;
        if !self.allows_server_faults {
            return Some(format!(
                "{why} (with `--allow-server-faults` it is set for the time of a run)"
            ));
        }
        match tell_more(&host.settings).await {
            Ok(()) => tells(&host.seen.itself, prefix).await.err(),
            Err(why) => Some(why),
        }
    }

    /// Whether a command that faults use is allowed, without doing anything by it.
    pub async fn may(&self, commands: &[&[&str]]) -> Result<(), ExternalError> {
        for host in &self.hosts {
            for command in commands {
                host.may(command, &self.prefix).await?;
            }
        }
        Ok(())
    }
}

impl Host {
    async fn may(&self, command: &[&str], prefix: &str) -> Result<(), ExternalError> {
        let Some(why) = refusal(&self.seen.itself, command).await else {
            return Ok(());
        };
        Err(refused(
            &self.seen.place.to_string(),
            &self.url,
            prefix,
            &why,
        ))
    }
}

/// What is written down of changed settings, and not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unhealed {
    /// The server.
    pub server: String,
    /// The URL by which it was named, without user and password.
    pub url: String,
    /// The settings, with what they were.
    pub settings: Vec<Was>,
    /// What somebody else has changed since, and was left so.
    pub theirs: Vec<String>,
}

/// All that is to be healed, as far as this user knows.
pub fn unhealed() -> Vec<Unhealed> {
    let left = journal::left().into_iter().map(|entry| Unhealed {
        server: entry.journal.whose().server.clone(),
        url: entry.journal.whose().url.clone(),
        settings: entry.settings,
        theirs: Vec::new(),
    });
    left.collect()
}

/// Restores what runs that were killed have left changed on the servers of a URL. Tells what was
/// restored where.
pub async fn heal_at(url: &RedisUrl, prefix: &str) -> Result<Vec<Unhealed>, ExternalError> {
    let shown = url.to_string();
    let mut healed = Vec::new();
    for entry in journal::left() {
        if entry.journal.whose().url != shown {
            continue;
        }
        healed.push(heal_one(entry, url, prefix).await?);
    }
    Ok(healed)
}

async fn heal_one(entry: Entry, url: &RedisUrl, prefix: &str) -> Result<Unhealed, ExternalError> {
    let Whose { server, url: named } = entry.journal.whose().clone();
    let at = match (server.rsplit_once(':'), url.server()) {
        // Of a primary with Sentinels that one which was changed, whatever it is by now.
        (Some((host, port)), Server::Primary(_)) => Server::At(
            Place {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.parse().unwrap_or_default(),
            },
            Arc::new(url.access().clone()),
        ),
        (_, at) => at,
    };
    let settings = Settings::left(at, entry.settings, Some(entry.journal));
    let restored = settings.restore_all().await;
    let restored = restored.map_err(|why| refused(&server, url, prefix, &why))?;
    Ok(Unhealed {
        server,
        url: named,
        settings: restored,
        theirs: settings.theirs(),
    })
}
