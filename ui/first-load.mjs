// Measures what the window loads before its first picture: the page, its style sheets, its script and
// all that this imports at once. Prints it, and fails where it is more than is allowed.
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';

/** Most bytes of the first load, compressed; one kB is 1,000 bytes. */
const BYTES_MAX = 150_000;
const DIST = new URL('./dist/', import.meta.url).pathname;

const page = readFileSync(join(DIST, 'index.html'), 'utf8');
const wanted = [...page.matchAll(/(?:src|href)="\/?([^"]+\.(?:js|css))"/g)].map(([, path]) => path);
const loaded = new Map([['index.html', gzipSync(page).length]]);
while (wanted.length > 0) {
  const path = wanted.pop();
  if (loaded.has(path)) continue;
  const text = readFileSync(join(DIST, path), 'utf8');
  loaded.set(path, gzipSync(text).length);
  // `import … from "./x.js"` and `import "./x.js"`; `import("./x.js")` comes later, on demand.
  for (const [, relative] of text.matchAll(/(?:^|[;}\s])(?:import|export)\s*(?:[\w${},*\s]+from\s*)?"(\.[^"]+)"/g)) {
    wanted.push(normalize(join(dirname(path), relative)));
  }
}
const total = [...loaded.values()].reduce((sum, bytes) => sum + bytes, 0);
const kilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
for (const [path, bytes] of loaded) process.stdout.write(`${path}: ${kilobytes(bytes)}\n`);
process.stdout.write(`First load, gzip: ${kilobytes(total)} of at most ${kilobytes(BYTES_MAX)}\n`);
if (total > BYTES_MAX) process.exitCode = 1;
