//
// Tells stet what opencode's own tools edit, before and after each, and which conversation calls
// stet's. It never keeps opencode from its work: stet hook ends by itself within seconds.
import { spawn } from "node:child_process"

const HOOK = STET_HOOK_COMMAND
const WRITING = new Set(["edit", "write", "patch", "apply_patch", "multiedit", "bash"])

// The conversation that stet was told of last: the one that it takes a call of its tools for.
let told = null

function tell(payload) {
  told = payload.session_id
  return new Promise((done) => {
    try {
      const hook = spawn(HOOK[0], HOOK.slice(1), { stdio: ["pipe", "ignore", "ignore"] })
      setTimeout(() => done(hook.kill("SIGKILL")), 15000).unref()
      hook.on("error", () => done())
      hook.on("close", () => done())
      hook.stdin.on("error", () => {})
      hook.stdin.end(JSON.stringify(payload))
    } catch {
      done()
    }
  })
}

export const Stet = async ({ directory }) => {
  const used = (event, input, args) =>
    tell({
      hook_event_name: event,
      session_id: input.sessionID,
      cwd: directory,
      tool_name: input.tool,
      tool_input: args,
      tool_use_id: input.callID,
    })
  return {
    "tool.execute.before": async (input, output) => {
      if (WRITING.has(input.tool)) {
        await used("PreToolUse", input, output.args)
      } else if (input.tool.startsWith("stet_") && told !== input.sessionID) {
        await tell({ hook_event_name: "SessionStart", session_id: input.sessionID, cwd: directory })
      }
    },
    "tool.execute.after": async (input) => {
      if (WRITING.has(input.tool)) {
        await used("PostToolUse", input, input.args)
      }
    },
  }
}
