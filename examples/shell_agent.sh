#!/usr/bin/env bash
# An agent in bash: JSON lines over stet's socket, and nothing of stet's own.
#
#   stet init DIR && examples/shell_agent.sh DIR
#
# It makes a file, sends an edit that does not fit, reads the error and the file, sends the edit
# that fits, looks at the history, and takes everything back. Needs bash, and socat or Python
# (STET_EXAMPLE_BRIDGE=socat or =python says which).
set -euo pipefail

directory=$(cd -- "${1:?usage: shell_agent.sh DIR}" && pwd -P)
runtime=${STET_RUNTIME_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/stet}}
socket=${runtime:-/tmp/stet-$UID}/agent.sock
file=stet_example.sh

# -- JSON: writing a string, and finding a member in what stet sends (which has no white space
#    between its parts)

quoted() { # TEXT: as a JSON string
    local text=$1
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/\\t}
    printf '"%s"' "$text"
}

member() { # NAME JSON: the first string of that name, as text; nothing if there is none
    local pattern="\"$1\":\"(([^\"\\\\]|\\\\.)*)\""
    [[ $2 =~ $pattern ]] || return 0
    # printf reads \n, \t, \uXXXX and \\ as JSON means them, but not \".
    printf '%b' "${BASH_REMATCH[1]//\\\"/\"}"
}

# -- the wire: one line out, one line in

[ -S "$socket" ] || {
    echo "no daemon listens at $socket; any stet command starts one: stet status" >&2
    exit 3
}
bridge=${STET_EXAMPLE_BRIDGE:-$(command -v socat >/dev/null && echo socat || echo python)}
if [ "$bridge" = socat ]; then
    coproc STET { exec socat - "UNIX-CONNECT:$socket"; }
else
    coproc STET { exec python3 -c '
import socket, sys, threading
wire = socket.socket(socket.AF_UNIX)
wire.connect(sys.argv[1])
def answers():
    while data := wire.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
threading.Thread(target=answers, daemon=True).start()
for line in sys.stdin.buffer:
    wire.sendall(line)
' "$socket"; }
fi
trap '' PIPE # a daemon that ends in between is noticed when its answer is read
exec {to_stet}>&"${STET[1]}" {from_stet}<&"${STET[0]}"
number=0

call() { # METHOD PARAMS: the reply is in $reply; the status says whether it is a result
    number=$((number + 1))
    printf '{"id":%d,"method":"%s","params":%s}\n' "$number" "$1" "$2" >&"$to_stet" || true
    IFS= read -r -t 60 -u "$from_stet" reply || {
        echo "the daemon at $socket does not answer; stet status says more" >&2
        exit 3
    }
    [[ $reply == "{\"id\":$number,\"result\":"* ]]
}

edit() { # OPERATION OLD NEW WHY: one patch of the file
    local patch="{\"operation\":\"$1\",\"newText\":$(quoted "$3")"
    [ -z "$2" ] || patch+=",\"oldText\":$(quoted "$2")"
    # The request id makes it safe to send the call again if no answer comes.
    call patch "{\"path\":\"$file\",\"patches\":[$patch}],\"message\":$(quoted "$4"),\"request_id\":\"$session-$number\"}"
}

# -- the agent

session=example-$$-$RANDOM
hello="{\"protocol\":1,\"workspace\":$(quoted "$directory"),\"session\":\"$session\",\"agent\":\"shell-agent\"}"
call hello "$hello" || {
    member message "$reply" >&2
    echo >&2
    exit 1
}

edit overwrite '' $'#!/bin/sh\necho "hello $1"\n' 'a script that greets' || {
    member message "$reply" >&2 # Restricted mode, say: then only a person can help
    echo >&2
    exit 1
}
member message "$reply" && echo

new='echo "Good morning, $1."'
if ! edit replace 'echo "hello, $1"' "$new" politer; then
    echo "refused: $(member kind "$reply")"
    member message "$reply" && echo
    call read "{\"path\":\"$file\",\"start\":2,\"end\":2}"
    line=$(member text "$reply") # without its newline, which the shell drops
    edit replace "$line" "$new" politer
    member diff "$reply"
fi

call log "{\"session\":\"$session\"}"
newest=$(member message "$reply")
echo "the newest commit: ${newest%%$'\n'*}"
for _ in politer greets; do
    call undo "{\"message\":\"the example is over\",\"request_id\":\"$session-undo-$number\"}"
    echo "taken back: $(member commit "$reply")"
done
[ ! -e "$directory/$file" ] || echo "$file is what it was"
echo "A person sees this with: stet log --session $session"
