/**
 * What models write and Markdown does not know: formulas as `$…$`, `$$…$$`, `\(…\)` and `\[…\]`, and
 * footnotes. Markdown takes the backslashes for its own, so formulas are cut out before it looks.
 */
import { Marked, type Token, type TokensList } from 'marked';
import { withoutMarks } from './marks';

/** A formula as it comes from the lexer. */
export interface Formula {
  type: 'formula';
  raw: string;
  tex: string;
  /** Whether it stands on a line of its own. */
  display: boolean;
}

/** A sign that leads to a footnote, or begins it. */
export interface Footnote {
  type: 'footnote';
  raw: string;
  label: string;
}

/** The text of a footnote. */
export interface Note {
  type: 'note';
  raw: string;
  tokens: Token[];
}

/** Longer formulas are shown as they are written: to lay them out would stop the page. */
const CHARACTERS_MAX = 4_000;

/** What stands within, up to the signs that end it. No empty line: then the first sign was money, or code.
 *  Not the sign that begins it: from many of those in a row the end would be looked for again and again. A
 *  backslash and the character behind it belong together, so that the `\\[2pt]` of a matrix ends nothing. */
const within = (signs: string) =>
  String.raw`((?:(?!\n[ \t]*\n)(?:\\[^${signs}]|[^\\])){1,${String(CHARACTERS_MAX)}}?)`;
const DISPLAY = String.raw`(?:\$\$${within('\\n')}\$\$|\\\[${within('[\\]')}\\\])`;
const BLOCK = new RegExp(String.raw`^ {0,3}${DISPLAY}[ \t]*(?:\n+|$)`);
const BLOCK_START = /(?:^|\n) {0,3}(?:\$\$|\\\[)/;
const IN_LINE = new RegExp(String.raw`^(?:${DISPLAY}|\\\(${within('()')}\\\)|\$(?![\s$])([^$\n]{0,499}[^\s$\\])\$(?![\d$]))`);
const IN_LINE_START = /\$|\\[([]/;

/** The line that begins with a footnote's sign, and those behind it up to the next one or an empty one. */
const NOTE = /^ {0,3}\[\^[^\s\][]{1,30}\]:[^\n]*(?:\n(?! {0,3}\[\^)[ \t]*[^\s][^\n]*)*(?:\n+|$)/;
const NOTE_START = /(?:^|\n) {0,3}\[\^[^\s\][]{1,30}\]:/;
const FOOTNOTE = /^\[\^([^\s\][]{1,30})\]/;

const reader = new Marked({
  gfm: true,
  extensions: [
    {
      name: 'formula',
      level: 'block',
      start: (text) => startOf(text, BLOCK_START),
      tokenizer: (text) => formula(BLOCK.exec(text), true),
    },
    {
      name: 'formula',
      level: 'inline',
      start: (text) => startOf(text, IN_LINE_START),
      tokenizer: (text) => {
        const found = IN_LINE.exec(text);
        return formula(found, found?.[1] !== undefined || found?.[2] !== undefined);
      },
    },
    {
      // To Markdown it is an address that is nowhere shown, or goes on with the footnote after it.
      name: 'note',
      level: 'block',
      start: (text) => startOf(text, NOTE_START),
      tokenizer(text): Note | undefined {
        const found = NOTE.exec(text);
        if (found === null) return undefined;
        return { type: 'note', raw: found[0], tokens: this.lexer.inline(found[0].trim()) };
      },
    },
    {
      name: 'footnote',
      level: 'inline',
      start: (text) => startOf(text, /\[\^/),
      tokenizer: (text): Footnote | undefined => {
        const found = FOOTNOTE.exec(text);
        const label = withoutMarks(found?.[1] ?? '');
        return found === null || label === '' ? undefined : { type: 'footnote', raw: found[0], label };
      },
    },
  ],
});

/** The tokens of a text. */
export function tokensOf(text: string): Token[] | TokensList {
  return reader.lexer(text);
}

function startOf(text: string, start: RegExp): number | undefined {
  const found = start.exec(text);
  return found === null ? undefined : found.index + (found[0].startsWith('\n') ? 1 : 0);
}

function formula(found: RegExpExecArray | null, display: boolean): Formula | undefined {
  if (found === null) return undefined;
  const tex = withoutMarks(found.slice(1).find((part) => part !== undefined) ?? '').trim();
  return tex === '' ? undefined : { type: 'formula', raw: found[0], tex, display };
}
