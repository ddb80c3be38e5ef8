/**
 * Text whose lists and quotations lie no deeper in each other than a page has room for.
 *
 * The lexer calls itself for each level, and takes a time that grows with the cube of the levels: a list
 * 1,000 deep took it 19 s, and 2,000 signs of quotation ended it. A model that goes round in circles
 * writes such lines. No word is lost: deeper signs are shown as they are written, and deeper lines
 * stand at the deepest level.
 */

/** Signs of lists and quotations at the start of one line that count. */
const SIGNS_MAX = 10;
/** Spaces at the start of one line that count; two of them are a level at the least. */
const INDENT_MAX = 40;

/** Spaces, and signs of quotations and lists with the space that makes them one. */
const START = /^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))*[ \t]*/;
const SIGN = />|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])/g;
const FENCE = /^(`{3,}|~{3,})/;

/** The text without what is deeper; in code nothing changes. */
export function shallow(text: string): string {
  let fence = '';
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const start = START.exec(line)?.[0] ?? '';
    const opened = FENCE.exec(line.slice(start.length))?.[1] ?? '';
    if (fence === '') {
      fence = opened;
      lines[index] = shallowStart(start) + line.slice(start.length);
    } else if (opened.startsWith(fence) && line.slice(start.length + opened.length).trim() === '') {
      fence = '';
    }
  }
  return lines.join('\n');
}

function shallowStart(start: string): string {
  const indent = start.length - start.trimStart().length;
  const kept = start.slice(Math.max(0, indent - INDENT_MAX));
  if (start.length <= SIGNS_MAX) return kept;
  const surplus = [...kept.matchAll(SIGN)][SIGNS_MAX];
  if (surplus === undefined) return kept;
  // A number begins a list by what follows it.
  const at = surplus.index + surplus[0].length - 1;
  return `${kept.slice(0, at)}\\${kept.slice(at)}`;
}
