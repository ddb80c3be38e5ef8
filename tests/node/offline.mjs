/**
 * Programs that find nobody but this computer: what they would report is not sent, and is noticed.
 *
 * Importing it switches off what the programs are known to report. A file of tests in which one of
 * them looked for another computer fails in the end.
 */

import dns from "node:dns";

const HERE = ["127.0.0.1", "localhost", "::1"];
// A person's own variables must neither reach the node nor lead anywhere else.
const FOREIGN = /^(AI_|ANTHROPIC_|LANGCHAIN_|LANGSMITH_|OPENAI_)/;

for (const name of Object.keys(process.env)) {
  if (FOREIGN.test(name)) delete process.env[name];
}
Object.assign(process.env, { DO_NOT_TRACK: "1", LANGSMITH_TRACING: "false" });
globalThis.AI_SDK_LOG_WARNINGS = false;

const find = dns.lookup;
const sought = [];

dns.lookup = (name, options, callback) => {
  if (HERE.includes(name)) return find(name, options, callback);
  sought.push(name);
  const done = callback ?? options;
  const error = Object.assign(new Error(`${name} is not this computer`), { code: "ENOTFOUND" });
  return process.nextTick(done, error);
};

process.on("exit", () => {
  if (sought.length === 0) return;
  console.error(`a program looked for other computers: ${sought.join(", ")}`);
  process.exitCode = 1;
});
