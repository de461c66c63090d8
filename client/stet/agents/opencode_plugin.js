//
// Tells stet what opencode's own tools edit, before and after each, and which conversation calls
// stet's. It never keeps opencode from its work: stet hook ends by itself within seconds.
import { spawn } from "node:child_process"

const HOOK = STET_HOOK_COMMAND
const WRITING = new Set(["edit", "write", "patch", "apply_patch", "multiedit", "bash"])

// The conversation that stet was told of last: the one that it takes a call of its tools for.
let told = null
// The newest telling. Calls of one turn are made at once, and none may overtake it.
let telling = null
// The conversations of subagents, each with the one that started it.
const parents = new Map()

const root = (id) => (parents.has(id) ? root(parents.get(id)) : id)

export const Stet = async ({ directory }) => {
  const tell = (event, input, args) =>
    (telling = new Promise((done) => {
      told = root(input.sessionID)
      const payload = {
        hook_event_name: event,
        session_id: told,
        agent_id: parents.has(input.sessionID) ? input.sessionID : undefined,
        cwd: directory,
        tool_name: input.tool,
        tool_input: args,
        tool_use_id: input.callID,
      }
      const hook = spawn(HOOK[0], HOOK.slice(1), { stdio: ["pipe", "ignore", "ignore"] })
      setTimeout(() => done(hook.kill("SIGKILL")), 15000).unref()
      hook.on("error", () => done())
      hook.on("close", () => done())
      hook.stdin.on("error", () => {})
      hook.stdin.end(JSON.stringify(payload))
    }).catch(() => {}))
  return {
    event: async ({ event }) => {
      const info = event.type.startsWith("session.") ? event.properties?.info : null
      if (info?.parentID) {
        parents.set(info.id, info.parentID)
      }
    },
    "tool.execute.before": async (input, output) => {
      if (WRITING.has(input.tool)) {
        await tell("PreToolUse", input, output.args)
      } else if (input.tool.startsWith("stet_")) {
        if (told !== root(input.sessionID)) tell("SessionStart", input)
        await telling
      }
    },
    "tool.execute.after": async (input) => {
      if (WRITING.has(input.tool)) {
        await tell("PostToolUse", input, input.args)
      }
    },
  }
}
