//! The traps and rules that the incidents name. A scenario says which of them it shows; which lock
//! falls for it is what the scenario expects.

/// A trap or a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// Trap 1.
    LeaseShorterThanWork,
    /// Trap 2.
    ReleaseWithoutOwner,
    /// Trap 3.
    CheckThenDelete,
    /// Trap 4.
    SetnxThenExpire,
    /// Trap 5.
    PromotionLostGrant,
    /// Trap 6.
    DeniedTakenForGranted,
    /// Trap 7.
    OneCoarseLock,
    /// Trap 8.
    NotReentrant,
    /// A trap of the flash sale.
    FixedToken,
    /// Rule 1.
    RenewTheLease,
    /// Rule 2.
    OwnToken,
    /// Rule 3.
    AtomicRelease,
    /// Rule 4.
    AtomicAcquire,
    /// Rule 5.
    MatureLibrary,
    /// Rule 6.
    ShortSection,
    /// Rule 7.
    Idempotency,
}

impl Trap {
    /// All of them: eight traps of one incident, one of another, seven rules.
    pub const ALL: [Trap; 16] = [
        Trap::LeaseShorterThanWork,
        Trap::ReleaseWithoutOwner,
        Trap::CheckThenDelete,
        Trap::SetnxThenExpire,
        Trap::PromotionLostGrant,
        Trap::DeniedTakenForGranted,
        Trap::OneCoarseLock,
        Trap::NotReentrant,
        Trap::FixedToken,
        Trap::RenewTheLease,
        Trap::OwnToken,
        Trap::AtomicRelease,
        Trap::AtomicAcquire,
        Trap::MatureLibrary,
        Trap::ShortSection,
        Trap::Idempotency,
    ];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        self.told().0
    }

    /// One line for a list.
    pub fn about(self) -> &'static str {
        self.told().1
    }

    fn told(self) -> (&'static str, &'static str) {
        match self {
            Trap::LeaseShorterThanWork => (
                "lease-shorter-than-work",
                "trap 1: the work outlives the TTL, and the next one gets in",
            ),
            Trap::ReleaseWithoutOwner => (
                "release-without-owner",
                "trap 2: a release that does not ask whose lock it is removes another's",
            ),
            Trap::CheckThenDelete => (
                "check-then-delete",
                "trap 3: the lease runs out between the comparison and the deletion",
            ),
            Trap::SetnxThenExpire => (
                "setnx-then-expire",
                "trap 4: a process that dies between the two leaves a lock for ever",
            ),
            Trap::PromotionLostGrant => (
                "promotion-lost-grant",
                "trap 5: the primary dies before the grant is replicated",
            ),
            Trap::DeniedTakenForGranted => (
                "denied-taken-for-granted",
                "trap 6: a failed acquire is treated as success",
            ),
            Trap::OneCoarseLock => (
                "one-coarse-lock",
                "trap 7: one lock for everything leaves no concurrency, under each lock: \
                 `oversold granularity`",
            ),
            Trap::NotReentrant => (
                "not-reentrant",
                "trap 8: the holder asks again, and waits for itself",
            ),
            Trap::FixedToken => (
                "fixed-token",
                "trap of the flash sale: a value that is always 1 makes the comparison worthless",
            ),
            Trap::RenewTheLease => (
                "renew-the-lease",
                "rule 1: a lease must outlive the work: a watchdog, not a fixed short TTL",
            ),
            Trap::OwnToken => (
                "own-token",
                "rule 2: a value of one's own, compared before the release",
            ),
            Trap::AtomicRelease => ("atomic-release", "rule 3: compare and delete in one script"),
            Trap::AtomicAcquire => (
                "atomic-acquire",
                "rule 4: key and lease in one command, never SETNX and EXPIRE",
            ),
            Trap::MatureLibrary => (
                "mature-library",
                "rule 5: use a proven library (`reentrant-watchdog` speaks Redisson's protocol)",
            ),
            Trap::ShortSection => (
                "short-section",
                "rule 6: keep slow calls out of the section",
            ),
            Trap::Idempotency => (
                "idempotency",
                "rule 7: back the lock with idempotency in the store",
            ),
        }
    }
}
