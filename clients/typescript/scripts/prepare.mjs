// Builds dist. npm runs this when it packs the package or links its directory into
// another project. It does not install the compiler first where it links, so this does,
// as the lock says. Installing a packed package runs nothing.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const compiler = join(here, "node_modules", "typescript", "bin", "tsc");

/** Reports whether what is built is newer than all that it is built of. */
function fresh() {
  const built = join(here, "dist", "index.js");
  if (!existsSync(built)) return false;
  const sources = readdirSync(join(here, "src")).map((name) => join(here, "src", name));
  return [...sources, join(here, "tsconfig.json")].every((file) => statSync(file).mtimeMs < statSync(built).mtimeMs);
}

/** Runs a program, and ends with its failure. */
function run(program, args, env = process.env) {
  const { status, error } = spawnSync(program, args, { cwd: here, stdio: "inherit", env, shell: process.platform === "win32" && program === "npm" });
  if (status === 0) return;
  console.error(`@haft/client: ${[program, ...args].join(" ")} failed${error ? `: ${error.message}` : ""}`);
  process.exit(1);
}

/** Installs the compiler here, whatever the npm that runs this was asked to do. */
function install() {
  const not = /^npm_config_(global|location|prefix|local_prefix|omit|only|production|dry_run|package_lock_only|workspaces?|install_links)$/i;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !not.test(name)));
  const npm = process.env.npm_execpath?.endsWith("npm-cli.js") ? [process.execPath, process.env.npm_execpath] : ["npm"];
  run(npm[0], [...npm.slice(1), "ci", "--ignore-scripts", "--include=dev", "--prefer-offline", "--no-audit", "--no-fund"], env);
}

if (!fresh()) {
  if (!existsSync(compiler)) install();
  rmSync(join(here, "dist"), { recursive: true, force: true });
  run(process.execPath, [compiler, "-p", "tsconfig.json"]);
}
