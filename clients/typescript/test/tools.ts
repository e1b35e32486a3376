// The tools of the tests. They run in a sandbox of the server, and here not at all.

/**
 * Adds.
 * @param a One.
 * @param b The other.
 */
export function add(a: number, b: number = 2): number {
  return a + b;
}

interface Greeting {
  /** Whom to greet. */
  name: string;
  /** How. */
  how?: "hello" | "goodbye";
}

/** Greets somebody. */
export async function greet({ name, how = "hello" }: Greeting): Promise<{ text: string; at: Date }> {
  return { text: `${how}, ${name}`, at: new Date(0) };
}

/**
 * Says who asks.
 * @param prefix What to put before it.
 */
export const whose = (prefix: string, agent_id?: string): string => prefix + String(agent_id);

/** Fails. */
export function fail(): never {
  throw new TypeError("it was to fail");
}

/**
 * Prints numbers.
 * @param count How many.
 */
export async function print(count: number): Promise<number> {
  for (let at = 1; at <= count; at++) console.log(`line ${at}`);
  return count;
}

/** Never ends by itself. */
export async function sleep(): Promise<void> {
  await new Promise((done) => setTimeout(done, 600_000));
}

/** Tells an environment variable. */
export function variable(): string {
  return String(process.env["TS_SECRET"]);
}

/**
 * Counts things in a set.
 * @param things The things.
 */
export function count(things: Set<string>): number {
  return [...things].length;
}

/** No function is no tool. */
export const answer = 42;

/** Nor is a class. */
export class Shelf {}
