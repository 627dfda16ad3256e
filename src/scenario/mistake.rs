//! The mistakes that people make around a good lock, by their words.

use serde::{Deserialize, Serialize};

use super::read::Field;

/// A mistake that people make around a good lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mistake {
    /// A refused acquire is taken for a granted one.
    IgnoreDenied,
    /// The release stands in a `finally` that also runs when nothing was acquired.
    ReleaseUnacquired,
    /// The lease is checked once, before the work, and not again before the write.
    CheckOnce,
    /// When Redis fails, everybody is let in.
    FailOpen,
    /// The holder acquires the lock again, and the lock is not reentrant.
    Nested,
    /// Milliseconds are taken for seconds: the lease lives a thousand times too long.
    TtlTooLong,
    /// Seconds are taken for milliseconds: the lease lives a thousandth.
    TtlTooShort,
    /// A lease of less than a second is cut to 0 whole seconds.
    TtlCutToZero,
    /// The renewal extends the key whoever holds it.
    RenewBlindly,
    /// The watchdog goes on after the release.
    WatchdogNotCancelled,
    /// The effect is committed after the release.
    EffectAfterRelease,
    /// The watchdog ends with the first renewal that fails, and tells nobody.
    WatchdogDies,
    /// Who is not granted the lock asks again at once.
    Spin,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Mistake; 13] = [
        Mistake::IgnoreDenied,
        Mistake::ReleaseUnacquired,
        Mistake::CheckOnce,
        Mistake::FailOpen,
        Mistake::Nested,
        Mistake::TtlTooLong,
        Mistake::TtlTooShort,
        Mistake::TtlCutToZero,
        Mistake::RenewBlindly,
        Mistake::WatchdogNotCancelled,
        Mistake::EffectAfterRelease,
        Mistake::WatchdogDies,
        Mistake::Spin,
    ];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Mistake::IgnoreDenied => "ignore-denied",
            Mistake::ReleaseUnacquired => "release-unacquired",
            Mistake::CheckOnce => "check-once",
            Mistake::FailOpen => "fail-open",
            Mistake::Nested => "nested",
            Mistake::TtlTooLong => "ttl-too-long",
            Mistake::TtlTooShort => "ttl-too-short",
            Mistake::TtlCutToZero => "ttl-cut-to-zero",
            Mistake::RenewBlindly => "renew-blindly",
            Mistake::WatchdogNotCancelled => "watchdog-not-cancelled",
            Mistake::EffectAfterRelease => "effect-after-release",
            Mistake::WatchdogDies => "watchdog-dies",
            Mistake::Spin => "spin",
        }
    }

    /// One line for a list.
    pub fn about(self) -> &'static str {
        match self {
            Mistake::IgnoreDenied => "a refused acquire is taken for a granted one",
            Mistake::ReleaseUnacquired => "a `finally` releases what was never acquired",
            Mistake::CheckOnce => "the lease is checked before the work, not before the write",
            Mistake::FailOpen => "when Redis fails, everybody is let in",
            Mistake::Nested => "the holder acquires again what is not reentrant",
            Mistake::TtlTooLong => "milliseconds taken for seconds: the TTL times 1000",
            Mistake::TtlTooShort => "seconds taken for milliseconds: the TTL through 1000",
            Mistake::TtlCutToZero => "a TTL of less than a second cut to 0 whole seconds",
            Mistake::RenewBlindly => "the renewal extends the key whoever holds it",
            Mistake::WatchdogNotCancelled => "the watchdog goes on after the release",
            Mistake::EffectAfterRelease => "the effect is committed after the release",
            Mistake::WatchdogDies => "the watchdog ends with the first renewal that fails",
            Mistake::Spin => "who is not granted the lock asks again at once",
        }
    }
}

/// A mistake by its word.
pub(super) fn mistake(field: &Field<'_>) -> Option<Mistake> {
    let word = field.word(&Mistake::ALL.map(Mistake::word))?;
    Mistake::ALL.into_iter().find(|known| known.word() == word)
}
