//! What we may do at a user's own Redis: what a refusal says, and what to grant
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>).

use super::look::{ExternalError, PATIENCE};
use crate::client::{Conn, Outcome, RedisUrl, Server};

/// Why a question was refused, and what to do.
pub(super) fn refused(place: &str, url: &RedisUrl, prefix: &str, why: &str) -> ExternalError {
    ExternalError {
        place: place.to_owned(),
        what: why.to_owned(),
        next: let_in(url, prefix, why).unwrap_or_else(|| {
            "the server is there and answers this: see to that first".to_owned()
        }),
    }
}

/// What to do where it is a password or a permission that is missing.
pub(super) fn let_in(url: &RedisUrl, prefix: &str, why: &str) -> Option<String> {
    if let Some(missing) = missing(why, prefix) {
        let user = url.access().user.as_deref().unwrap_or("default");
        return Some(format!(
            "grant it there: `ACL SETUSER {user} {missing}`; the README has the whole rule"
        ));
    }
    let password = ["NOAUTH", "WRONGPASS", "authentication", "Authentication"];
    password.iter().any(|word| why.contains(word)).then(|| {
        "write user and password into the URL, `redis://USER:PASSWORD@HOST:PORT`, best in the \
         variable OVERSOLD_URL, which no process list shows"
            .to_owned()
    })
}

/// What to grant, where an error says that a permission is missing
/// (<https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>).
pub fn missing(why: &str, prefix: &str) -> Option<String> {
    let told = [
        "NOPERM",
        "NoPerm",
        "has no permissions",
        "executing the script can't",
    ];
    if !told.iter().any(|word| why.contains(word)) {
        return None;
    }
    // Redis 7.0 does not name the command of a script.
    if why.contains("run this command or subcommand") {
        return Some("+@read +@write +@pubsub +time".to_owned());
    }
    if why.contains("keys") {
        return Some(format!("~{prefix}*"));
    }
    if why.contains("channels") {
        return Some("&__keyevent@*__:* &redisson_lock__channel:*".to_owned());
    }
    let quoted = why.split('\'').nth(1)?;
    Some(format!("+{quoted}"))
}

/// The server's refusal of a command for want of permission, or because it does not know it. Any
/// other error is as good as a yes: the command is one that can do nothing.
pub(super) async fn refusal(server: &Server, command: &[&str]) -> Option<String> {
    let conn = Conn::open(server.clone(), PATIENCE).await;
    let conn = match conn {
        Ok(conn) => conn,
        Err(why) => return Some(why.to_string()),
    };
    let (name, rest) = command.split_first()?;
    match conn.call::<redis::Value>(redis::cmd(name).arg(rest)).await {
        Outcome::Done(_) => None,
        Outcome::Unknown(why) => Some(why),
        Outcome::Refused(why) => {
            let never = is_never_done(&why);
            (never || missing(&why, "").is_some()).then_some(why)
        }
    }
}

/// Whether a server does not know a command, or lets nobody use it (`enable-debug-command`).
fn is_never_done(why: &str) -> bool {
    let why = why.to_lowercase();
    why.contains("unknown command") || why.contains("command not allowed")
}

#[cfg(test)]
mod tests {
    use super::{is_never_done, missing};

    #[test]
    fn a_command_that_nobody_may_use_is_refused() {
        let debug = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                     \"local\", you can run it from a local connection";
        assert!(is_never_done(debug));
        assert!(is_never_done("ERR unknown command 'DEBUG'"));
        assert!(!is_never_done(
            "ERR value is not an integer or out of range"
        ));
    }

    #[test]
    fn a_missing_permission_is_named_as_it_is_granted() {
        let told = |why: &str| missing(why, "oversold:");
        let command = "An error was signalled by the server - NoPerm: User me has no permissions \
                       to run the 'config|set' command";
        assert_eq!(told(command).as_deref(), Some("+config|set"));
        let old = "NOPERM this user has no permissions to run the 'eval' command";
        assert_eq!(told(old).as_deref(), Some("+eval"));
        let keys =
            "NOPERM this user has no permissions to access one of the keys used as arguments";
        assert_eq!(told(keys).as_deref(), Some("~oversold:*"));
        let script =
            "ERR The user executing the script can't run this command or subcommand script";
        assert_eq!(
            told(script).as_deref(),
            Some("+@read +@write +@pubsub +time")
        );
        assert_eq!(
            told("READONLY You can't write against a read only replica."),
            None
        );
    }
}
