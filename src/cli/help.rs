//! What each command's help says after its options: exit codes, and examples.

pub(super) const PROGRAM: &str = "\
Exit codes:
  0    as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: the run cannot answer the question
  2    wrong usage, or an invalid scenario
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the partial reports are written

First steps:
  oversold doctor                                  what this machine has
  oversold compare scenarios/incident-137.toml     all locks in one table
  oversold run scenarios                           the gate for CI";

pub(super) const RUN: &str = "\
Exit codes:
  0    every scenario as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: a run cannot answer the question
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the partial reports are written

Examples:
  oversold run scenarios --junit junit.xml               the gate for CI
  oversold run scenarios/incident-137.toml --trials 20   the incident under 20 seeds
  OVERSOLD_URL=redis://me:pw@host oversold run gc-pause  at a Redis of your own
  oversold run scenarios/incident-137.toml --lock token-lua-watchdog";

pub(super) const COMPARE: &str = "\
Exit codes:
  0    every lock as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: a run cannot answer the question
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the partial reports are written

Examples:
  oversold compare scenarios/incident-137.toml
  oversold compare scenarios/gc-pause.toml --locks token-lua,token-lua-watchdog --trials 5";

pub(super) const MATRIX: &str = "\
Exit codes:
  0    every cell as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: a cell cannot answer the question
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the cells that are done are kept

Examples:
  oversold matrix --trials 10
  oversold matrix --scenarios scenarios/calm.toml,scenarios/gc-pause.toml --locks token-lua,redlock
  oversold matrix --trials 10 --resume reports/matrix/2026-01-31T12-00-00Z-1";

pub(super) const TTL_SWEEP: &str = "\
The P99 is that of the scenario's section, from 100,000 draws under a fixed seed. Each multiple gets
the same seeds, 20 by default.

Exit codes:
  0    every trial could be judged (an experiment expects nothing)
  4    inconclusive: a trial could not be judged, so that a row has too few
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the table of what was done by then is printed

Examples:
  oversold ttl-sweep
  oversold ttl-sweep --multiples 1,3 --trials 50 --jobs 2
  oversold ttl-sweep scenarios/incident-137.toml --lock token-lua";

pub(super) const RATE_SWEEP: &str = "\
The number of workers is the scenario's; how long each pauses between two requests follows from the
rate. Each rate gets the same seeds, 10 by default. Each trial leaves some 10 MB of history.

Exit codes:
  0    every trial could be judged (an experiment expects nothing)
  4    inconclusive: a trial could not be judged, so that a row has too few
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the table of what was done by then is printed

Examples:
  oversold rate-sweep
  oversold rate-sweep --rates 300,2600 --trials 20
  oversold rate-sweep --lock token-lua-watchdog --rates 2600";

pub(super) const GRANULARITY: &str = "\
Each granularity gets 3 trials by default, one after the other. Every lock must hold, whatever the
scenario expects of it.

Exit codes:
  0    every lock held at every granularity
  10   correctness violated: the throughput of a lock that does not hold is worth nothing
  4    inconclusive: a trial could not be judged
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the table of what was done by then is printed

Examples:
  oversold granularity
  oversold granularity --locks token-lua-watchdog,redlock-watchdog --trials 1";

pub(super) const SOAK: &str = "\
Times and rates are the run's own, whatever the scenario's time scale. Without a rate each worker's
next operation waits for the one before (closed loop).

Exit codes:
  0    as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: the run cannot answer the question, or a threshold had no samples
  2    wrong usage, or an invalid scenario (nothing was run)
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the partial reports are written

Examples:
  oversold soak -c 200 -n 100k
  oversold soak -z 10m --rate 2600/s --lock token-lua --keys 50 --section 0..5ms
  oversold soak -c 200 -n 100k --threshold \"acquire p(99) < 50ms\" --threshold \"errors < 1%\"
  oversold soak -c 200 --stages \"300/s for 30s, 2600/s for 90s\"";

pub(super) const CHECK: &str = "\
Exit codes:
  0    as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: the run cannot answer the question
  2    nothing stored there, or not in a form that this version reads
  3    environment: a document could not be written

Examples:
  oversold check reports/incident-137                   every stored run of a scenario
  oversold check reports/calm/2026-01-31T12-00-00Z-1 --json -";

pub(super) const REPLAY: &str = "\
Exit codes:
  0    as expected
  10   correctness violated (or an expected violation not found)
  99   a threshold was crossed, and nothing was violated
  4    inconclusive: the run cannot answer the question
  2    no plan stored there, or not in a form that this version reads
  3    environment: no server, port, permission or disk
  130  interrupted (143 by SIGTERM); the partial reports are written

Example:
  oversold replay reports/incident-137/2026-01-31T12-00-00Z-1";

pub(super) const VALIDATE: &str = "\
Exit codes:
  0    every scenario is valid
  2    one is not, or cannot be read; each mistake is told with its line and column

Examples:
  oversold validate scenarios
  oversold validate - < draft.toml";

pub(super) const LIST: &str = "\
Exit codes:
  0    listed
  2    wrong usage, or an invalid scenario in ./scenarios

Example:
  oversold list locks";

pub(super) const DOCTOR: &str = "\
Exit codes:
  0    a run can start here; with --heal: what was to be restored is
  2    wrong usage
  3    it cannot: no server, or no free port; the output says what to do

Examples:
  oversold doctor
  oversold doctor --heal redis://127.0.0.1:6379   restores what a killed run has left changed there";

pub(super) const COMPLETIONS: &str = "\
Exit codes:
  0    printed
  2    wrong usage

Example:
  oversold completions bash > ~/.local/share/bash-completion/completions/oversold";
