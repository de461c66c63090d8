# Sourced by scripts/run, scripts/test and scripts/bench: the checkout's own Python environment.
#
#   find_checkout           sets and exports `checkout`, and goes there
#   need_environment GROUP  makes .venv there and installs this package into it; with the group
#                           "dev" also what the tests and checks need, with "none" nothing more
#
# An installation is repeated only when pyproject.toml, the group or the place of the checkout
# changed: .venv/installed-GROUP holds what the last one was made from. Nothing is fetched from
# anywhere but the package index that pip is configured for.

# Containers like to set it. Then every process compiles all that it imports anew: a command takes
# three times as long to start, a daemon twice, and the tests start thousands of them.
unset PYTHONDONTWRITEBYTECODE

find_checkout() {
    checkout=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
    export checkout
    cd -- "$checkout"
}

fail() {
    printf '%s: %s\n' "scripts/${0##*/}" "$*" >&2
    exit 1
}

is_new_enough() {
    # Run, not only looked up: a version manager's stand-in may exist for what it lacks.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        if [ -n "$name" ] && is_new_enough "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "no Python 3.11 or newer was found. Install one, or name it: PYTHON=/path/to/python3 $0"
}

quietly() {
    # Run a command; its output is shown only if it fails.
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f -- "$log"
        return
    fi
    cat -- "$log" >&2
    rm -f -- "$log"
    fail "this failed: $*"
}

made_from() {
    printf 'group %s\nin %s\n' "$1" "$checkout"
    cat pyproject.toml
}

is_installed() {
    [ -f ".venv/installed-$1" ] && made_from "$1" | cmp -s - ".venv/installed-$1"
}

need_environment() {
    if ! is_new_enough .venv/bin/python; then
        local python
        python=$(find_python)
        echo "Making .venv with $("$python" --version)"
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            fail "$python lacks venv or ensurepip. On Debian and Ubuntu: apt-get install python3-venv"
        quietly "$python" -m venv --clear .venv
    fi
    if is_installed "$1" || { [ "$1" = none ] && is_installed dev; }; then
        return
    fi
    local pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input)
    local what=(-e '.[ui]')
    if [ "$1" != none ]; then
        what+=(--group "$1")
        # Older ones do not know --group.
        .venv/bin/python -c 'import sys, pip
sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))' ||
            quietly "${pip[@]}" install --upgrade 'pip>=25.1'
    fi
    echo "Installing into .venv: ${what[*]}"
    quietly "${pip[@]}" install "${what[@]}"
    made_from "$1" >".venv/installed-$1"
}
