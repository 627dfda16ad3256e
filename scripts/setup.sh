#!/bin/sh
# Installs what oversold needs besides Rust: a real redis-server and a C compiler. Safe to run twice.
#
#   sh scripts/setup.sh                      check, and install what is missing
#   sh scripts/setup.sh --install redis cc   the part that needs root: install these two (or one of them)
#
# OVERSOLD_REDIS_SERVER=/path/to/redis-server   use this server; Redis is then never installed
#
# Exit codes: 0 everything is there, 1 an installation failed, 2 wrong use,
#             3 you must run the printed line first, 4 Rust is missing.
# All output goes to stderr; when nothing is missing there is none.
set -eu
exec 1>&2

say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
self=$here/$(basename -- "$0")

# ---- what is missing ---------------------------------------------------------------------------

check_cargo() {
    have cargo && return 0
    if [ -x "${CARGO_HOME:-${HOME:-}/.cargo}/bin/cargo" ]; then
        say "error: cargo is installed but not on PATH. Next step:"
        say "    . \"${CARGO_HOME:-${HOME:-}/.cargo}/env\""
    else
        say "error: cargo was not found, and this script does not install Rust. Next step:"
        say "    install Rust from https://rustup.rs, open a new shell, run the same command again"
    fi
    exit 4
}

redis_missing() {
    if [ -n "${OVERSOLD_REDIS_SERVER:-}" ]; then
        if [ -f "$OVERSOLD_REDIS_SERVER" ] && [ -x "$OVERSOLD_REDIS_SERVER" ]; then
            return 1
        fi
        say "error: OVERSOLD_REDIS_SERVER=$OVERSOLD_REDIS_SERVER is not an executable file."
        say "    set it to the path of a redis-server binary, or unset it"
        exit 2
    fi
    if have redis-server; then return 1; fi
}

# The SQLite crate compiles its own copy of SQLite, and rustc links with cc.
cc_missing() {
    if [ "$(uname -s)" = Darwin ]; then
        # Without the command line tools /usr/bin/cc exists, but only opens a dialogue.
        if xcode-select -p >/dev/null 2>&1; then return 1; fi
    elif have cc && printf '#include <stdlib.h>\n' | cc -E -x c - >/dev/null 2>&1; then
        return 1
    fi
}

# ---- Debian starts a daemon when it installs redis-server; this prevents it ----------------------

policy=/usr/sbin/policy-rc.d
saved=$policy.before-oversold
marker='oversold: redis-server must not be started'

hold_redis_daemon() {
    trap release_redis_daemon EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # A policy of ours is there only if an earlier run was killed; the saved one is then the real one.
    if { [ -e "$policy" ] || [ -L "$policy" ]; } && ! grep -q "$marker" "$policy" 2>/dev/null; then
        mv -f "$policy" "$saved"
    fi
    cat >"$policy" <<POLICY
#!/bin/sh
# $marker (temporary, removed when the installation ends)
case " \$* " in *" redis"*) exit 101 ;; esac
[ -x "$saved" ] || exit 0
exec "$saved" "\$@"
POLICY
    chmod 755 "$policy"
}

# Runs when the installation ends, also when it failed or was interrupted.
release_redis_daemon() {
    # Nor must the daemon start with the machine. Only done here, where we installed it.
    if have redis-server; then
        update-rc.d redis-server disable ||
            say "warning: could not switch off the redis-server service for the next boot"
    fi
    if grep -q "$marker" "$policy" 2>/dev/null; then
        rm -f "$policy"
    fi
    if [ -e "$saved" ] || [ -L "$saved" ]; then
        mv -f "$saved" "$policy"
    fi
}

# ---- installing --------------------------------------------------------------------------------

package_manager() {
    if [ "$(uname -s)" = Darwin ]; then
        echo brew
        return
    fi
    for manager in apt-get dnf apk; do
        if have "$manager"; then
            echo "$manager"
            return
        fi
    done
    echo none
}

# Package names for redis and cc with this package manager.
packages_for() {
    for want in $2; do
        case $1:$want in
            apt-get:redis) printf ' redis-server' ;;
            apt-get:cc) printf ' gcc libc6-dev' ;;
            dnf:redis) printf ' redis' ;;
            dnf:cc) printf ' gcc glibc-devel' ;;
            apk:redis) printf ' redis' ;;
            apk:cc) printf ' gcc musl-dev' ;;
        esac
    done
}

# Runs as root on Linux. $1: the package manager, $2: "redis", "cc" or "redis cc".
install_as_root() {
    manager=$1
    wanted=$2
    packages=$(packages_for "$manager" "$wanted")
    say "installing with $manager:$packages"
    # The unquoted $packages below is a list of words on purpose.
    case $manager in
        apt-get)
            export DEBIAN_FRONTEND=noninteractive
            apt-get update -q ||
                say "warning: apt-get update failed; trying with the package lists that are here"
            case $wanted in *redis*) hold_redis_daemon ;; esac
            # shellcheck disable=SC2086
            apt-get install -q -y --no-install-recommends $packages || failed "$manager" "$packages"
            ;;
        dnf)
            # shellcheck disable=SC2086
            dnf install -y --setopt=install_weak_deps=False $packages || failed "$manager" "$packages"
            ;;
        apk)
            # shellcheck disable=SC2086
            apk add --no-cache $packages || failed "$manager" "$packages"
            ;;
    esac
}

failed() {
    say "error: $1 could not install:$2 (its own message is above)"
    exit 1
}

# Linux, not root: hand the root part to sudo, or say what to run.
install_with_sudo() {
    wanted=$1
    line="su -c \"sh '$self' --install $wanted\""
    if ! have sudo; then
        say "error: this needs root, and there is no sudo. Run this line, then the same command again:"
        say "    $line"
        exit 3
    fi
    # Without a terminal nobody can type a password: ask sudo to fail instead of waiting.
    ask=
    [ -t 0 ] || ask=-n
    if ! sudo $ask true; then
        say "error: sudo does not let this user become root. Run this line, then the same command again:"
        say "    $line"
        exit 3
    fi
    say "running with sudo: sh $self --install $wanted"
    # shellcheck disable=SC2086
    sudo $ask sh "$self" --install $wanted || exit $?
}

install_on_macos() {
    case $1 in
        *cc*)
            say "error: there is no C compiler. Run this line, then the same command again:"
            say "    xcode-select --install"
            exit 3
            ;;
    esac
    if ! have brew; then
        say "error: redis-server is missing and there is no Homebrew. Install it from https://brew.sh and run:"
        say "    brew install redis"
        exit 3
    fi
    say "installing with brew: redis"
    brew install redis || failed brew ' redis' # brew starts no service on install
}

no_package_manager() {
    say "error: missing: $1. None of apt-get, dnf, apk was found. Next step:"
    say "    install them by hand (redis: or set OVERSOLD_REDIS_SERVER to a redis-server binary)"
    exit 3
}

# ---- main --------------------------------------------------------------------------------------

if [ "${1:-}" = --install ]; then
    shift
    wanted=
    for want in "$@"; do
        case $want in
            redis | cc) wanted="$wanted${wanted:+ }$want" ;;
            *) say "error: --install takes 'redis' and 'cc', not '$want'"; exit 2 ;;
        esac
    done
    manager=$(package_manager)
    if [ -z "$wanted" ] || [ "$manager" = brew ]; then
        say "error: --install needs something to install, and is for Linux"
        exit 2
    fi
    if [ "$(id -u)" -ne 0 ]; then
        say "error: --install must run as root"
        exit 2
    fi
    [ "$manager" != none ] || no_package_manager "$wanted"
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # a plain `su` may leave these out; dpkg needs them
    export PATH
    install_as_root "$manager" "$wanted"
    exit 0
fi
if [ $# -ne 0 ]; then
    say "error: unknown argument '$1' (known: --install redis cc)"
    exit 2
fi

check_cargo
missing=
if redis_missing; then missing=redis; fi
if cc_missing; then missing="$missing${missing:+ }cc"; fi
[ -n "$missing" ] || exit 0

say "missing: $missing"
manager=$(package_manager)
case $manager in
    brew) install_on_macos "$missing" ;;
    none) no_package_manager "$missing" ;;
    *)
        if [ "$(id -u)" -eq 0 ]; then
            # A child process, so that the traps above belong to the installation alone.
            # shellcheck disable=SC2086
            sh "$self" --install $missing || exit $?
        else
            install_with_sudo "$missing"
        fi
        ;;
esac

hash -r
case $missing in
    *redis*)
        if redis_missing; then
            say "error: $manager reported success, but redis-server is not on PATH."
            say "    set OVERSOLD_REDIS_SERVER to the path of a redis-server binary"
            exit 1
        fi
        say "installed $(redis-server --version)"
        ;;
esac
if cc_missing; then
    say "error: $manager reported success, but cc cannot compile"
    exit 1
fi
