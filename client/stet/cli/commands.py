"""The commands of ``stet`` and their options, as a table.

    # Title                                   a group of the help
    name (module.function): what it does      the function of this package that runs the command
    e.g. one use / another                    examples for the help
      -o, --option VALUE =default    help     an option, or a flag without VALUE; N, LINE: integers
      dest:NAME                               an argument; its dest defaults to NAME in lower case
      [NAME]  [NAME..]  =default              an optional argument; any number of them
      {a,b}                                   the allowed values
      !                                       required; CLIENT, SHELL: one of those that stet knows
      *shared                                 the lines of SHARED with this name

Settings that this language can't express are in SPECIAL of :mod:`stet.cli.arguments`, by the text
of the line before the help. Every command takes ``*common``.
"""

from __future__ import annotations

TABLE = """\
# Look
log (history.log): print what was done, newest first
e.g. log --since 2h --graph / log src/a.py --agent codex
  [PATH]
  *whose
  --method M  by this method only, such as patch
  --kind K  of this kind only, such as edit or outside
  *when
  --text TEXT  only what added or removed this, or says it in its message
  -n, --limit N  so many commits at most
  --cursor CURSOR  go on where a page ended
  -p, --patch  with the diff of each
  --stat  with each file's lines
  --oneline  id and subject
  --graph  draw which commit took back which
  --all  on a terminal: also files seen for the first time
show (history.show): print one commit with its diff
e.g. show / show 4f3c2a1b
  [COMMIT] =HEAD  default HEAD
  --stat  without the diff
  --word  the diff by words instead of lines
diff (history.diff): print what differs between commits, or a commit and the workspace
e.g. diff 4f3c2a1b --word / diff HEAD~3 HEAD -- src
usage: stet diff [options] [A [B] | A..B] [-- PATH..]
  [commits:COMMIT..]
  --word  by words instead of lines
blame (history.blame): print who wrote each line of a file
e.g. blame src/a.py / blame src/a.py --at 4f3c2a1b
  PATH
  --at COMMIT  as it was right after this commit
watch (watch.watch): follow edits as they happen, until Ctrl-C
e.g. watch / watch --agent codex --lines 0
  *whose
  --lines N =12  of each diff (default 12, 0: none)
ui (watch.ui): look at the history, search it, take edits back
e.g. ui / ui -C ~/project
report (exporting.report): write a page with the edits, to look at or hand on
e.g. report -o edits.html / report --session conv-1 --since 1d
  [paths:PATH..]  of these files only
  *whose
  *when
  -o, --output FILE =stet-report.html  default stet-report.html; -: standard output
read (editing.read): print a file
e.g. read src/a.py / read src/a.py --at 4f3c2a1b --start 10 --end 20
  PATH
  --at COMMIT  as it was right after this commit
  --start LINE  first line, counted from 1
  --end LINE  last line
  *identity
status (administration.status): print the daemon's health
e.g. status / status --json

# Take back
oops (taking_back.oops): undo the last burst of agent edits, after asking
e.g. oops / oops --session conv-1 --yes
  --session S  of this session, not of the newest edit's
  -y, --yes  do not ask
  *writing
undo (taking_back.undo): take edits back, around later edits
e.g. undo 4f3c2a1b / undo --last 3 --agent codex --preview
  [commits:COMMIT..]
  --last N  the N newest not undone (default 1)
  --request ID  the call with this request id
  -y, --yes  do not ask
  *whose
  --path P  only edits that touched this file or directory (repeatable)
  *writing
redo (taking_back.redo): take undos back: the newest, or these
e.g. redo / redo 9c2d11e0
  [commits:COMMIT..]  an undo or a rollback
  *writing
rollback (taking_back.rollback): take back all that agents did after a commit
e.g. rollback 4f3c2a1b --preview / rollback 4f3c2a1b --session conv-1
  to:COMMIT  the last one that stays
  *whose
  --path P  only edits that touched this file or directory (repeatable)
  --include-outside  edits made outside stet as well
  *writing
restore (taking_back.restore): make a file what it was right after a commit
e.g. restore src/a.py --at 4f3c2a1b / restore src/a.py --at HEAD~5 --preview
  PATH
  --at COMMIT !
  *writing

# Who may write
init (administration.init): allow agents to edit a directory
e.g. init / init ~/project
  [root:DIR] =.  default: here
workspaces (administration.workspaces): print the allowed workspaces
e.g. workspaces / workspaces --forget ~/project
  --forget DIR  allow no more calls below DIR
mode (administration.mode): print or set who may write
e.g. mode restricted / mode unrestricted --for 2h
  [mode:{restricted,unrestricted}]
  --session S  of this session, not of the workspace
  --for TIME  until it ends by itself: 90s, 30m, 2h, 1d
sessions (administration.sessions): print the sessions, or end one
e.g. sessions / sessions --end conv-1
  --all  of all workspaces
  --end SESSION  drop its clipboards, mode, grants and request; what it did stays
requests (administration.requests): print who asks for write access
e.g. requests / requests --all
  --all  also what was decided lately
approve (administration.decide): give a session write access
e.g. approve 4f3c --for 30m / approve 4f3c --note "only below tests/"
  *deciding
  --for TIME  until it ends by itself: 90s, 30m, 2h, 1d
deny (administration.decide): refuse a request for write access
e.g. deny 4f3c / deny 4f3c --note "not today"
  *deciding

# Agents' clients
connect (connecting.connect): print or write the configuration for an agent's client
e.g. connect claude-code --write --hooks / connect codex
  *client
  --write  write it, and keep what is there
  --workspace DIR  edit below DIR (default: where the client works)
  --hooks  record what the client's own tools edit, too
  --allow-edits  have the client not ask before stet edits; it never asks before stet reads
  --tools NAMES  the tools that edit: patch,apply_patch (default: all)
disconnect (connecting.disconnect): take stet out of a client's configuration
e.g. disconnect claude-code / disconnect codex --scope project
  *client
mcp (editing.mcp): serve MCP on standard input and output
e.g. mcp / mcp --workspace ~/project --tools patch
  --workspace DIR =.  edit below DIR (default: here)
  --tools NAMES  the tools that edit: patch,apply_patch (default: all)
  --session S  default $STET_SESSION, else the client's conversation
  --agent A  default $STET_AGENT, else the client's name
  --structured  results as data beside the text, for programs (no)
hook (hook): record what a client's own tools edit; the client calls it
e.g. hook claude-code / hook codex --before 1 --after 2
  client:CLIENT  claude-code, codex, gemini, cursor, ..
  --before SECONDS  at most so long before a tool (2)
  --after SECONDS  and afterwards (5)
  --no-start  start no daemon if none answers
tools (administration.tools): print the tool definitions for a model
e.g. tools --style anthropic / tools --style openai --api responses
  --style {mcp,openai,anthropic} =mcp  default mcp
  --api {chat,responses}  which of OpenAI's interfaces (default chat)
  --custom  openai: apply_patch as a custom tool with a grammar

# Audit
verify (upkeep.verify): check that the history is whole
e.g. verify / verify --expect 4f3c2a1b9d0e
  --expect ID  a commit's, noted earlier (12 digits or more), which must still be in it
export (exporting.export): print edits as patches for git am, or otherwise
e.g. export --session conv-1 -o edits.mbox / export --format diff 4f3c..HEAD
usage: stet export [options] [A..B] [PATH..]
  [what:A..B | PATH..]  commits after A up to B
  --format {mbox,diff,jsonl} =mbox  default mbox
  *whose
  --method M  by this method only, such as patch
  *when
  --no-outside  what others did in between becomes part of the commits after it
  -o, --output FILE  write to a file (-: standard output)
pin (administration.pin): name a commit, or list the names
e.g. pin before-refactoring / pin --list
  [NAME]
  [COMMIT]  default HEAD
  --move  let a name in use name another commit
  --list  print the names (so does no name)
  --delete NAME  forget a name
snapshot (upkeep.snapshot): commit the whole workspace
e.g. snapshot -m "before the agents" / snapshot --skip-large
  -m, --message WHY  why; goes into the commit
  --skip-large  leave out files over the limit
forget (upkeep.forget): rewrite the history without the contents of a path
e.g. forget .env --preview / forget .env --contents
  PATH
  --contents  and without the same contents at other paths
  --clipboards  remove clipboards that hold some of it
  -y, --yes  do not ask
  *writing
gc (upkeep.gc): pack the history tightly, drop what nothing needs
e.g. gc / gc --json

# Service
service: run the daemon as a user service of systemd
e.g. service install / service logs -f
service install (service.install): install or update the service, and start it
  --hardened  in namespaces of its own (docs/operation.md has the cost); default: as it is
service uninstall (service.uninstall): stop and remove the service
  --purge-history  remove the history as well, after asking
  -y, --yes  do not ask
service status (service.status): print what systemd knows of the service; starts nothing
service logs (service.logs): print the service's log
  -f, --follow  go on as it grows
  -n, --lines N =100  default 100
stop (administration.stop): end the daemon after the calls in work, and wait for that
e.g. stop / stop --json
doctor (doctor.doctor): check the installation, say what to mend
e.g. doctor / doctor --json
config: the daemon's options, and where each one comes from
e.g. config show / config check
config show (config.show): print every option, its value and where it comes from
config path (config.path): print where the configuration file is looked for
config check (config.check): print what is wrong with a configuration file
  [FILE]  default: your own
config reload (config.reload): let the daemon read it again

# Edit, as an agent
patch (editing.send_json): apply patches to a file
e.g. patch edit.json --path src/a.py / patch --path src/a.py --preview < edit.json
  [file] =-  JSON: the call's params, or with --path the patches
  --path PATH  the file to patch
  *writing
  *identity
patch-file (editing.send_json): search and replace in a file
e.g. patch-file edit.json --path src/a.py / patch-file call.json
  [file] =-  JSON: the call's params, or with --path the changes
  --path PATH  the file to change
  *writing
  *identity
patch-block (editing.patch_block): apply FIND/REPLACE blocks
e.g. patch-block answer.txt / patch-block answer.txt --preview
  [file] =-  the text with the blocks
  --path PATH  refuse blocks that name another file
  *writing
  *identity
apply-patch (editing.apply_patch): apply a patch in Codex's format
e.g. apply-patch fix.patch / apply-patch --preview < fix.patch
  [file] =-  a file with the patch, or the patch itself
  --overwrite  let "Add File" replace a file that exists
  --ambiguous {first}  take the first of several places, as Codex does
  *writing
  *identity
clip: list, show, set or remove clipboards of a session
e.g. clip list / clip show moved --session conv-1
clip show (editing.clip_show): print a clipboard's text
  NAME
  *identity
clip rm (editing.clip_rm): remove a clipboard
  NAME
  *identity
clip set (editing.clip_set): put a file's text into a clipboard
  NAME
  *identity
  [file] =-  standard input if left out
clip list (editing.clip_list): print names and sizes
  *identity

# Shell
help (arguments.help_): say what a command does, or which there are
e.g. help / help undo
  [COMMAND..]
completion (completion.completion): print a script that completes stet at TAB
e.g. completion bash  # eval "$(stet completion bash)" / completion fish | source
  shell:SHELL !
"""

SHARED = {
    "common": """\
  --json  print the result as JSON
  --no-pager  do not page long output
  --dates {relative,iso}  how times are shown (default: relative on a terminal)
  -C DIR =.  act as if started in DIR""",
    "writing": """\
  --preview  show it, and change nothing
  -m, --message WHY  why; goes into the commit""",
    "identity": """\
  --session S  default $STET_SESSION, else "cli"
  --agent A  default $STET_AGENT, else "cli\"""",
    "whose": """\
  --session S  of this session only
  --agent A  of this agent only""",
    "when": """\
  --since TIME  30m, 2 days ago, yesterday, monday, 2026-11-21 14:30, or seconds since 1970
  --until TIME  likewise""",
    "deciding": """\
  REQUEST  its id, or a unique beginning
  --note TEXT  a message to the agent""",
    "client": """\
  client:CLIENT !  claude-code, codex, gemini, cursor, vscode, zed, opencode, qwen-code
  --scope {user,project} =user  for all your projects (default), or in this one's directory""",
}
