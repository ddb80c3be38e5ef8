// Measures what the window loads before its first picture: the page, its style sheets, its script and
// all that this imports at once, and the font of its letters. Prints both, and fails where one is more than
// is allowed.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';

/** Most bytes of the first load, compressed; one kB is 1,000 bytes. */
const BYTES_MAX = 150_000;
/** Most bytes of the font that Latin letters take; those of other scripts are loaded where a page has such letters. */
const FONT_BYTES_MAX = 50_000;
const FONT = /^inter-latin-wght-normal-.*\.woff2$/;
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
const font = readdirSync(join(DIST, 'assets')).filter((name) => FONT.test(name));
const fontBytes = font.reduce((sum, name) => sum + statSync(join(DIST, 'assets', name)).size, 0);
process.stdout.write(`Font: ${kilobytes(fontBytes)} of at most ${kilobytes(FONT_BYTES_MAX)}\n`);
if (total > BYTES_MAX || font.length !== 1 || fontBytes > FONT_BYTES_MAX) process.exitCode = 1;
