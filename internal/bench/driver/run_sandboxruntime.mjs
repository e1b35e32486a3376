// Runs the job by Anthropic's sandbox-runtime, as Claude Code uses it: its manager lives, each command is wrapped anew.
import { execFile } from 'node:child_process'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [peers, python] = process.argv.slice(2)
const main = join(peers, 'npm/node_modules/@anthropic-ai/sandbox-runtime/dist/index.js')
const { SandboxManager } = await import(pathToFileURL(main))
await SandboxManager.initialize({
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: ['.'], denyWrite: [] },
})

async function call(id) {
  try {
    const command = await SandboxManager.wrapWithSandbox(`${python} -I -S -c 'print(19 + 23)'`)
    execFile('/bin/sh', ['-c', command], (error, stdout, stderr) => {
      console.log(JSON.stringify({ id, value: stdout.trim(), error: error ? String(error) + stderr : stderr }))
    })
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error) }))
  }
}
for await (const line of createInterface({ input: process.stdin })) {
  call(Number(line))
}
await SandboxManager.reset()
process.exit(0)
