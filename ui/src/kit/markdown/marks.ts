/**
 * Hand-over marks inside a reply: put into the raw text as one private character each, so that they
 * come out of the Markdown lexer exactly where they happened.
 */

export interface Mark {
  /** Characters of the reply that had been shown before it. */
  at: number;
  /** What to say there. */
  text: string;
}

/** Start of a private-use area; models do not write these, and what they write of them is removed. */
const FIRST = 0xf600;
/** More hand-overs than this in one reply are drawn as the last one. */
const MARKS_MAX = 64;
const PRIVATE = /[\uf600-\uf63f]/g;

/** Splits a text into plain pieces and the numbers of the marks between them. */
export function pieces(text: string): (string | number)[] {
  const found: (string | number)[] = [];
  let start = 0;
  for (const hit of text.matchAll(PRIVATE)) {
    if (hit.index > start) found.push(text.slice(start, hit.index));
    found.push(hit[0].charCodeAt(0) - FIRST);
    start = hit.index + 1;
  }
  if (start < text.length || found.length === 0) found.push(text.slice(start));
  return found;
}

/** The text without marks, for places that cannot show them: code, tables' rulers, copies. */
export function withoutMarks(text: string): string {
  return text.replace(PRIVATE, '');
}

/** The numbers of the marks in a text, in order. */
export function marksIn(text: string): number[] {
  return pieces(text).filter((piece) => typeof piece === 'number');
}

/** The reply with its marks inside. */
export function withMarks(text: string, marks: readonly Mark[]): string {
  let result = '';
  let done = 0;
  for (const [index, mark] of marks.slice(0, MARKS_MAX).entries()) {
    const at = Math.max(done, snap(text, mark.at));
    result += withoutMarks(text.slice(done, at)) + String.fromCharCode(FIRST + index);
    done = at;
  }
  return result + withoutMarks(text.slice(done));
}

/** The end of the word at `at`; never inside what starts a list item, a heading or a fence. */
function snap(text: string, at: number): number {
  let end = Math.min(Math.max(at, 0), text.length);
  while (end < text.length && !/\s/.test(text.charAt(end))) end += 1;
  const lineStart = text.lastIndexOf('\n', end - 1) + 1;
  const line = text.slice(lineStart, end);
  const opensBlock = /^\s*(?:[-*+>]|#{1,6}|\d{1,9}[.)]|[`~]{3,}.*|\|.*)?$/.test(line);
  return opensBlock && lineStart > 0 ? lineStart - 1 : end;
}
