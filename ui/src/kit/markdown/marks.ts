/**
 * Marks inside a reply: where another device took over, and where the words get another look because other
 * devices computed them. Each is put into the raw text as one private character, so that it comes out of
 * the Markdown lexer exactly where it happened. What the text is read as must not change by it.
 *
 * Looks are drawn in the rendered reply, not in a plain view of the source: the reader keeps lists, tables
 * and the place on the page. Only code gives up its own colours meanwhile, since a colour can mean one thing.
 */
import type { Look, Looks } from '../route/looks';

export interface Mark {
  /** Characters of the reply that had been shown before it. */
  at: number;
  /** What to say there; empty for nothing. */
  text: string;
  /** How the words behind it look. */
  look?: Look;
  /** CSS colours of the computer that left and of the one that carried on, where they are known. */
  hues?: readonly [string, string];
}

/** What is drawn into the words of a reply. */
export interface Drawing {
  /** How the words before all marks look; null while looks are not shown, and where nothing is known. */
  first: Look | null;
  marks: readonly Mark[];
}

/** Words that look alike. */
export interface Run {
  words: string;
  look: Look | null;
}

/** Start of a private-use area; models do not write these, and what they write of them is removed. */
const FIRST = 0xf600;
/** Where there are more marks, the last notes are left out, and then the last looks. */
const MARKS_MAX = 64;
const PRIVATE = /[\uf600-\uf63f]/g;

/** Hand-overs, and the looks of the words where they are wanted. */
export function drawingOf(notes: readonly Mark[], looks: Looks | null): Drawing {
  if (looks === null) return { first: null, marks: notes.slice(0, MARKS_MAX) };
  const [head] = looks.changes;
  const first = head?.at === 0 ? head.look : null;
  const changes = looks.changes.slice(first === null ? 0 : 1).map(({ at, look }) => ({ at, text: '', look }));
  const room = Math.max(0, MARKS_MAX - changes.length);
  // In one place the note comes first: sorting keeps the order of equals.
  const marks = [...notes.slice(0, room), ...changes.slice(0, MARKS_MAX)].sort((a, b) => a.at - b.at);
  return { first, marks };
}

/** A text as it came from the lexer, cut into words that look alike and the marks between them. `before`:
 *  the number of the last mark before the text, -1 for none. */
export function drawn(text: string, before: number, { first, marks }: Drawing): (Run | Mark)[] {
  let look = marks.slice(0, before + 1).findLast((mark) => mark.look)?.look ?? first;
  return pieces(text).flatMap((piece): (Run | Mark)[] => {
    if (typeof piece === 'string') return [{ words: piece, look }];
    const mark = marks[piece];
    look = mark?.look ?? look;
    return mark === undefined ? [] : [mark];
  });
}

/** The look of all words of a text, null where there are several or none. `before`: as for `drawn`. */
export function onlyLook(text: string, before: number, drawing: Drawing): Look | null {
  const [first, ...others] = drawn(text, before, drawing).flatMap((part) => ('words' in part && part.words.trim() !== '' ? [part.look] : []));
  return first && others.every((look) => look === first) ? first : null;
}

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

/** The text without marks, for places that cannot show them: languages of code, links, copies. */
export function withoutMarks(text: string): string {
  return text.replace(PRIVATE, '');
}

/** The numbers of the marks in a text, in order. */
export function marksIn(text: string): number[] {
  return pieces(text).filter((piece) => typeof piece === 'number');
}

/** The marks in `raw` that are not in what is `shown` of it. */
export function marksBeside(raw: string, shown: string, { marks }: Drawing): Mark[] {
  const inside = new Set(marksIn(shown));
  return marksIn(raw).flatMap((mark) => (inside.has(mark) ? [] : (marks[mark] ?? [])));
}

/** The marks in a text that say something. */
export function notesIn(text: string, { marks }: Drawing): Mark[] {
  return marksIn(text).flatMap((mark) => marks[mark] ?? []).filter((mark) => mark.text !== '');
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

/** What starts a list item, a heading, a fence, a rule: a mark in it or behind it would make it plain text. */
const STRUCTURE = /^[\s\-*+>_=]*(?:\[[ xX]?\]?|#{1,6}|\d{1,9}[.)]|[`~]{3,}.*)?$/;
/** The line under the head of a table, or the first bar of a row. */
const RULER = /^[\s:-]*\|[\s|:-]*$/;
/** What a link is made of that nobody marked as one. */
const ADDRESS = /:\/\/|^www\.|@/;
/** Letters of scripts without spaces between words. */
const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]$/u;
const COMBINING = /^\p{M}$/u;

/** A place for a mark: behind the word at `at`, or near it where Markdown needs the place itself. */
function snap(text: string, at: number): number {
  const end = wordEnd(text, Math.min(Math.max(at, 0), text.length));
  if (!isStructure(text, end)) return besideSigns(text, end);
  const above = text.slice(0, lineStart(text, end)).trimEnd().length;
  if (above > 0 && !isStructure(text, above)) return besideSigns(text, above);
  for (let next = end; next < text.length;) {
    next = wordEnd(text, next + text.slice(next).search(/\S|$/));
    if (!isStructure(text, next)) return besideSigns(text, next);
  }
  return end;
}

function lineStart(text: string, at: number): number {
  return text.lastIndexOf('\n', at - 1) + 1;
}

function isStructure(text: string, end: number): boolean {
  const line = text.slice(lineStart(text, end), end);
  return STRUCTURE.test(line) || RULER.test(line);
}

/** The end of the word at `at`; in scripts without spaces the end of a letter with all that belongs to it. */
function wordEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && !/\s/.test(text.charAt(end)) && !isBetweenLetters(text, end)) end += 1;
  return end;
}

function isBetweenLetters(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0x0e00 || at === 0) return false;
  const after = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const before = /[\s\S]$/u.exec(text.slice(Math.max(0, at - 2), at))?.[0] ?? '';
  return UNSPACED.test(after) && !COMBINING.test(after) && (UNSPACED.test(before) || COMBINING.test(before));
}

/** Moves a place away from signs of Markdown that mean something only where they touch nothing else. */
function besideSigns(text: string, end: number): number {
  const start = lineStart(text, end);
  // Two spaces at the end of a line break it, and those that fill a cell are not seen.
  let line = text.slice(start, end).trimEnd();
  // Behind the last bar of a table's row would be one more cell, and a mark alone in a cell has no words.
  if (line.endsWith('|')) line = withoutEnd(line, /[\s|]/);
  const wordStart = withoutEnd(line, /\S/).length;
  if (ADDRESS.test(line.slice(wordStart))) return start + wordStart;
  // Closing asterisks close nothing where a letter follows, and a private character counts as one.
  const inner = withoutEnd(line, /[*_~]/);
  return start + (/[^\s\\]$/.test(inner) ? inner.length : line.length);
}

/** A line without the `sign`s at its end. Not one pattern for all of them: its cost would grow with the
 *  square of what stands before the end. */
function withoutEnd(line: string, sign: RegExp): string {
  let end = line.length;
  while (end > 0 && sign.test(line.charAt(end - 1))) end -= 1;
  return line.slice(0, end);
}
