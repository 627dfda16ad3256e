//! The scenarios that come with the program: the files of `scenarios/`, to be named without a path.

/// A scenario that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file's text.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All of them, by name. A test holds the list against the folder.
pub static ALL: &[BuiltIn] = built_in![
    "calm",
    "cancel",
    "check-then-delete",
    "client-clock",
    "clock-jump",
    "coarse-lock",
    "counter",
    "crash-between",
    "crash-inside",
    "cron-missed",
    "cron",
    "cut-off",
    "gc-pause-conditional",
    "gc-pause-fence",
    "gc-pause-unique",
    "gc-pause",
    "graceful",
    "incident-137-quiet",
    "incident-137",
    "leader",
    "majority-down",
    "minority-down",
    "mistake-check-once",
    "mistake-effect-after-release",
    "mistake-fail-open",
    "mistake-ignore-denied",
    "mistake-nested",
    "mistake-release-unacquired",
    "mistake-renew-blindly",
    "mistake-spin",
    "mistake-ttl-cut-to-zero",
    "mistake-ttl-too-long",
    "mistake-ttl-too-short",
    "mistake-watchdog-dies",
    "mistake-watchdog-not-cancelled",
    "promotion-lost-grant",
    "quorum-clock",
    "quorum-restart",
    "rate-sweep",
    "reconcile-twice",
    "release-by-other",
    "reply-lost",
    "restart-empty",
    "slow-node",
    "soak",
    "split-brain-min-replicas",
    "split-brain",
    "stall-watchdog",
    "ttl-sweep",
    "wait-replicas",
    "wake-up",
];

/// The one of that name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    ALL.iter().find(|scenario| scenario.name == name)
}
