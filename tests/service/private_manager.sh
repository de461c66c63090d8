#!/bin/bash
# Run a command as an ordinary user under a `systemd --user` manager of its own.
#
#   private_manager.sh READABLE.. -- COMMAND ..
#
# READABLE are directories that the user (uid 1500) must be able to read: an interpreter, a
# checkout. If one lies below a directory that is closed to others, such as /root, then inside the
# namespaces an empty one is mounted over that, and the readable one put back in its place; nothing
# outside changes. The user's home is in memory, and the user may use sudo. The exit status is the
# command's.
#
# Everything is in namespaces of its own - mounts, processes, control groups - and ends with them.
# Never start a manager outside of them: as root it would take over every process of the machine.
# Needs root, unshare, setpriv, systemd, and a writable cgroup v2 hierarchy (STET_CGROUP2).
set -euo pipefail
user=stet-tester uid=1500 home=/run/home/stet-tester runtime=/run/user/1500

outside() {
    group=$STET_CGROUP2/stet-tests.$$
    mkdir "$group"
    trap 'find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true' EXIT
    # Leave the root control group before the namespace is made, so that its root is this one.
    unshare --mount --pid --fork --kill-child --mount-proc bash -c '
        echo 0 >"$1/cgroup.procs"
        shift
        exec unshare --cgroup bash "$@"' - "$group" "$0" --inside "$@"
}

inside() {
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/systemd/system /run/systemd/unit-root /run/systemd/propagate "$runtime" /run/kept
    show_readable "$@"
    while [ "$1" != -- ]; do shift; done
    shift
    mkdir -p /run/home
    install -d -o $uid -g $uid -m 755 "$home"
    chown $uid:$uid "$runtime"
    chmod 700 "$runtime"
    mount -t cgroup2 none /sys/fs/cgroup
    install -d -o $uid -g $uid /sys/fs/cgroup/user
    chown $uid:$uid /sys/fs/cgroup/user/*
    echo 0 >/sys/fs/cgroup/user/cgroup.procs
    { cat /etc/passwd && echo "$user:x:$uid:$uid::$home:/bin/bash"; } >/run/passwd
    mount --bind /run/passwd /etc/passwd
    sudo_for_the_user
    cd /
    exec setpriv --reuid=$uid --regid=$uid --clear-groups env -i HOME="$home" \
        PATH=/run/bin:/usr/bin:/bin XDG_RUNTIME_DIR="$runtime" bash "$script" --user "$@"
}

sudo_for_the_user() {
    # The machine's person may use sudo: one command at a time, carried out by this shell's child.
    mkdir /run/bin
    mkfifo -m 666 /run/sudo.asked /run/sudo.answered
    cat >/run/bin/sudo <<'SUDO'
#!/bin/bash
printf '%q ' "$@" >/run/sudo.asked
exit "$(cat /run/sudo.answered)"
SUDO
    chmod 755 /run/bin/sudo
    while true; do
        local command=
        IFS= read -r -d '' command </run/sudo.asked || true
        local status=0
        bash -c "$command" >/dev/null || status=$?
        echo $status >/run/sudo.answered
    done &
}

show_readable() {
    # All are held under other names first: covering one's parent would hide the next.
    local number=0 path
    for path in "$@"; do
        [ "$path" != -- ] || break
        mkdir /run/kept/$number
        mount --bind "$path" /run/kept/$number
        number=$((number + 1))
    done
    number=0
    for path in "$@"; do
        [ "$path" != -- ] || break
        open_parents "$path"
        mkdir -p "$path"
        mount --bind /run/kept/$number "$path"
        number=$((number + 1))
    done
}

open_parents() {
    local parent=
    local -a names
    IFS=/ read -r -a names <<<"${1#/}"
    for name in "${names[@]}"; do
        parent=$parent/$name
        [ "$parent" != "$1" ] && [ -d "$parent" ] || return 0
        # The last digit of the mode; odd means that others may pass through.
        if [ $(($(stat -c %a "$parent") % 2)) = 0 ]; then
            mount -t tmpfs -o mode=755 tmpfs "$parent"
            return 0
        fi
    done
}

as_user() {
    # There is no journal in here: what services say goes into a file.
    mkdir -p "$XDG_RUNTIME_DIR/systemd/user/service.d"
    printf '[Service]\nStandardError=append:%s/services.err\n' "$HOME" \
        >"$XDG_RUNTIME_DIR/systemd/user/service.d/log.conf"
    /lib/systemd/systemd --user >"$HOME/manager.log" 2>&1 &
    local manager=$! status=0
    for _ in $(seq 200); do
        if systemctl --user is-system-running >/dev/null 2>&1; then break; fi
        sleep 0.05
    done
    "$@" || status=$?
    [ $status = 0 ] || [ $status = 77 ] || tail -n 40 "$HOME/manager.log" "$HOME/services.err" >&2 || true
    systemctl --user exit >/dev/null 2>&1 || true
    wait $manager 2>/dev/null || true
    exit $status
}

script=$(realpath "$0")
case ${1:-} in
--inside)
    shift
    inside "$@"
    ;;
--user)
    shift
    as_user "$@"
    ;;
*) outside "$@" ;;
esac
