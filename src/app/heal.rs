//! `oversold doctor --heal URL`: what runs that were killed have left changed on a user's own Redis is
//! restored.

use super::session::{Failure, Session};
use crate::client::RedisUrl;
use crate::topology::{self, Unhealed};
use crate::verdict::Exit;

/// Restores what was changed at a URL, or at those that the session names.
pub async fn heal(named: Option<RedisUrl>, session: &Session) -> Result<Exit, Failure> {
    let external = session.external.as_ref();
    let urls = match (named, external) {
        (Some(url), _) => vec![url],
        (None, Some(external)) => external.urls.clone(),
        (None, None) => {
            return Err(Failure::usage(
                "which Redis? `oversold doctor --heal redis://HOST:PORT`, or OVERSOLD_URL",
            ));
        }
    };
    let prefix = external.map_or("oversold:", |external| &external.prefix);
    for url in &urls {
        let healed = topology::heal_at(url, prefix).await;
        let healed = healed.map_err(Failure::environment)?;
        if healed.is_empty() {
            session.say(&format!("heal        {url}: nothing is to be restored"));
        }
        for one in healed {
            for was in &one.settings {
                let (server, setting, was) = (&one.server, &was.setting, &was.was);
                session.say(&format!(
                    "heal        {server}: `{setting}` is \"{was}\" again"
                ));
            }
            for what in &one.theirs {
                session.say(&format!("heal        {}: {what}", one.server));
            }
        }
    }
    tell_unhealed(session);
    Ok(Exit::Pass)
}

/// Tells what is still to be restored, anywhere.
pub(super) fn tell_unhealed(session: &Session) {
    for Unhealed {
        server,
        url,
        settings,
        ..
    } in topology::unhealed()
    {
        let settings = settings.iter();
        let settings: Vec<String> = settings
            .map(|was| format!("`{}` was \"{}\"", was.setting, was.was))
            .collect();
        session.say(&format!(
            "heal        {server}: a run that was killed has left settings changed: {}\n  restore \
             them: `oversold doctor --heal {url}` (with user and password, if it needs some)",
            settings.join(", ")
        ));
    }
}
