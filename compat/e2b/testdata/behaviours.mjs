// What E2B's own clients for JavaScript do against Haft. Each entry is one behaviour.
import { createRequire } from 'node:module'
import assert from 'node:assert/strict'

const require = createRequire(process.env.CLIENTS + '/')
const { Sandbox, CommandExitError, FileNotFoundError, NotFoundError, TimeoutError, FilesystemEventType } = require('e2b')
const { Sandbox: Interpreter } = require('@e2b/code-interpreter')

async function until(what, seconds = 20) {
  const end = Date.now() + seconds * 1000
  while (Date.now() < end) {
    const found = await what()
    if (found) return found
    await new Promise((r) => setTimeout(r, 50))
  }
  throw new Error('it does not happen')
}

const is = (kind) => (e) => e instanceof kind

const behaviours = {
  run: async (s) => {
    const r = await s.commands.run('echo hello; echo oops >&2')
    assert.equal(r.stdout, 'hello\n')
    assert.equal(r.stderr, 'oops\n')
    assert.equal(r.exitCode, 0)
  },
  runExitCode: async (s) => {
    await assert.rejects(s.commands.run('exit 3'), (e) => e instanceof CommandExitError && e.exitCode === 3)
  },
  runCallbacks: async (s) => {
    let out = ''
    await s.commands.run('echo 1; sleep 0.1; echo 2', { onStdout: (d) => { out += d } })
    assert.equal(out, '1\n2\n')
  },
  runEnvs: async (s) => {
    assert.equal((await s.commands.run('echo $A $FROM_CREATE', { envs: { A: 'a' } })).stdout, 'a yes\n')
  },
  runCwd: async (s) => {
    assert.equal((await s.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  },
  runTimeout: async (s) => {
    await assert.rejects(s.commands.run('sleep 30', { timeoutMs: 1000 }), is(TimeoutError))
  },
  runUnicode: async (s) => {
    assert.equal((await s.commands.run("printf 'grüße 🎉'")).stdout, 'grüße 🎉')
  },
  runManyAtOnce: async (s) => {
    const all = await Promise.all([1, 2, 3, 4, 5].map((i) => s.commands.run(`sleep 0.2; echo ${i}`)))
    assert.deepEqual(all.map((r) => r.stdout), ['1\n', '2\n', '3\n', '4\n', '5\n'])
  },
  background: async (s) => {
    const h = await s.commands.run('sleep 0.2; echo done', { background: true })
    assert.ok(h.pid > 0)
    assert.equal((await h.wait()).stdout, 'done\n')
  },
  backgroundKill: async (s) => {
    const h = await s.commands.run('sleep 100', { background: true })
    assert.equal(await h.kill(), true)
    await assert.rejects(h.wait(), is(CommandExitError))
  },
  backgroundStdin: async (s) => {
    const h = await s.commands.run('read x; echo got $x; cat', { background: true, stdin: true })
    await s.commands.sendStdin(h.pid, 'this\n')
    await s.commands.closeStdin(h.pid)
    assert.equal((await h.wait()).stdout, 'got this\n')
  },
  backgroundList: async (s) => {
    const h = await s.commands.run('sleep 100', { background: true })
    assert.ok((await s.commands.list()).some((p) => p.pid === h.pid))
    await h.kill()
    await until(async () => !(await s.commands.list()).some((p) => p.pid === h.pid))
  },
  backgroundConnect: async (s) => {
    const h = await s.commands.run('sleep 1; echo later', { background: true })
    await h.disconnect()
    assert.equal((await (await s.commands.connect(h.pid)).wait()).stdout, 'later\n')
  },
  killUnknown: async (s) => { assert.equal(await s.commands.kill(999999), false) },
  filesWriteRead: async (s) => {
    const info = await s.files.write('a.txt', 'content')
    assert.equal(info.path, '/home/user/a.txt')
    assert.equal(await s.files.read('a.txt'), 'content')
  },
  filesEmpty: async (s) => {
    await s.files.write('empty', '')
    assert.equal(await s.files.read('empty'), '')
  },
  filesBytes: async (s) => {
    const data = new Uint8Array(3000).map((_, i) => i % 256)
    await s.files.write('b.bin', data.buffer)
    assert.deepEqual(Buffer.from(await s.files.read('b.bin', { format: 'bytes' })), Buffer.from(data))
  },
  filesBlob: async (s) => {
    await s.files.write('blob', new Blob(['blob text']))
    assert.equal(await (await s.files.read('blob', { format: 'blob' })).text(), 'blob text')
  },
  filesStream: async (s) => {
    await s.files.write('st', 'x'.repeat(1 << 21))
    let n = 0
    for await (const part of await s.files.read('st', { format: 'stream' })) n += part.length
    assert.equal(n, 1 << 21)
  },
  filesMany: async (s) => {
    const infos = await s.files.write([{ path: 'm/1', data: '1' }, { path: '/tmp/m2', data: '2' }])
    assert.deepEqual(infos.map((i) => i.path), ['/home/user/m/1', '/tmp/m2'])
  },
  filesMissing: async (s) => {
    await assert.rejects(s.files.read('nothing'), (e) => e instanceof FileNotFoundError || e instanceof NotFoundError)
  },
  filesExistsListInfo: async (s) => {
    await s.files.write('l/f', '12')
    assert.equal(await s.files.exists('l/f'), true)
    assert.equal(await s.files.exists('l/g'), false)
    assert.deepEqual((await s.files.list('l')).map((e) => e.name), ['f'])
    assert.equal((await s.files.getInfo('l/f')).size, 2)
  },
  filesMakeDirRenameRemove: async (s) => {
    assert.equal(await s.files.makeDir('d'), true)
    assert.equal(await s.files.makeDir('d'), false)
    await s.files.rename('d', 'e')
    await s.files.remove('e')
    assert.equal(await s.files.exists('e'), false)
  },
  watch: async (s) => {
    await s.files.makeDir('w')
    const seen = []
    const w = await s.files.watchDir('w', (e) => { seen.push(e) })
    await s.files.write('w/new', 'x')
    await until(() => seen.some((e) => e.name === 'new' && e.type === FilesystemEventType.CREATE))
    await w.stop()
  },
  pty: async (s) => {
    let out = ''
    const h = await s.pty.create({ cols: 90, rows: 20, onData: (d) => { out += new TextDecoder().decode(d) } })
    await s.pty.sendInput(h.pid, new TextEncoder().encode('stty size\n'))
    await until(() => out.includes('20 90'))
    await s.pty.resize(h.pid, { cols: 100, rows: 30 })
    await s.pty.sendInput(h.pid, new TextEncoder().encode('stty size\n'))
    await until(() => out.includes('30 100'))
    assert.equal(await s.pty.kill(h.pid), true)
  },
  signedAddress: async (s) => {
    await s.files.write('signed', 'signed')
    const url = await s.downloadUrl('signed', { useSignatureExpiration: 60 })
    assert.equal(await (await fetch(url)).text(), 'signed')
    assert.ok((await fetch(url.replace('path=signed', 'path=a.txt'))).status >= 400)
  },
  infoListConnect: async (s) => {
    assert.deepEqual((await s.getInfo()).metadata, { purpose: 'js' })
    const page = await Sandbox.list({ query: { metadata: { purpose: 'js' } } }).nextItems()
    assert.ok(page.some((i) => i.sandboxId === s.sandboxId))
    assert.equal((await (await Sandbox.connect(s.sandboxId)).commands.run('echo same')).stdout, 'same\n')
  },
  setTimeout: async (s) => {
    await s.setTimeout(500_000)
    const left = (await s.getInfo()).endAt.getTime() - Date.now()
    assert.ok(left > 400_000 && left < 600_000)
  },
  kill: async () => {
    const other = await Sandbox.create()
    assert.equal(await other.isRunning(), true)
    assert.equal(await other.kill(), true)
    assert.equal(await other.isRunning(), false)
    assert.equal(await Sandbox.kill(other.sandboxId), false)
  },
  metrics: async (s) => { assert.ok((await s.getMetrics())[0].memTotal > 0) },
  code: async (s, c) => {
    await c.runCode('x = 41')
    assert.equal((await c.runCode('x + 1')).text, '42')
  },
  codeOutput: async (s, c) => {
    const out = []
    const e = await c.runCode("print('a')\n1/0", { onStdout: (m) => { out.push(m.line) } })
    assert.deepEqual(e.logs.stdout, ['a\n'])
    assert.deepEqual(out, ['a\n'])
    assert.equal(e.error.name, 'ZeroDivisionError')
  },
  codeForms: async (s, c) => {
    const e = await c.runCode("class H:\n  def _repr_html_(self): return '<b>x</b>'\nH()")
    assert.equal(e.results[0].html, '<b>x</b>')
  },
  codeLanguages: async (s, c) => {
    assert.equal((await c.runCode('1 + 1', { language: 'js' })).text, '2')
    assert.deepEqual((await c.runCode('echo b', { language: 'bash' })).logs.stdout, ['b\n'])
  },
  pauseAndResume: async () => {
    const other = await Sandbox.create({ metadata: { k: 'paused' } })
    await other.files.write('kept.txt', 'kept')
    assert.equal(await other.pause({ keepMemory: false }), true)
    assert.equal(await other.isRunning(), false)
    assert.equal((await Sandbox.getInfo(other.sandboxId)).state, 'paused')
    assert.equal(await Sandbox.pause(other.sandboxId), false)
    const again = await Sandbox.connect(other.sandboxId)
    assert.equal(await again.files.read('kept.txt'), 'kept')
    assert.equal(await again.kill(), true)
  },
  snapshot: async (s) => {
    await s.files.write('state.json', '{}')
    const snap = await s.createSnapshot()
    assert.ok((await Sandbox.listSnapshots().nextItems()).some((x) => x.snapshotId === snap.snapshotId))
    const fresh = await Sandbox.create(snap.snapshotId)
    assert.equal(await fresh.files.read('state.json'), '{}')
    await fresh.kill()
    assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), true)
  },
  codeContexts: async (s, c) => {
    const ctx = await c.createCodeContext({ cwd: '/tmp' })
    assert.equal((await c.runCode('import os; os.getcwd()', { context: ctx })).text, '/tmp')
    assert.ok((await c.listCodeContexts()).some((x) => x.id === ctx.id))
    await c.restartCodeContext(ctx)
    await c.removeCodeContext(ctx)
  },
}

const s = await Sandbox.create({ timeoutMs: 600_000, metadata: { purpose: 'js' }, envs: { FROM_CREATE: 'yes' } })
const c = await Interpreter.create({ timeoutMs: 600_000 })
let failed = 0
for (const [name, f] of Object.entries(behaviours)) {
  if (process.argv.length > 2 && !process.argv.includes(name)) continue
  try {
    await f(s, c)
  } catch (e) {
    failed++
    console.log('FAILED', name, e)
  }
}
await s.kill()
await c.kill()
const all = Object.keys(behaviours).length
console.log(`${all - failed} of ${all}`)
process.exit(failed ? 1 : 0)
