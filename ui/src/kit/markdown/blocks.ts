/**
 * A growing Markdown text as a list of blocks.
 *
 * Finished blocks are frozen: only the tail is read again when text is added, so that the cost of
 * a token does not grow with the reply. The last two blocks stay open, because the next words can
 * still change what they are (a list goes on, a line becomes a heading).
 */
import type { Token } from 'marked';
import { tokensOf } from './extensions';
import { marksIn } from './marks';
import { place } from './places';
import { shallow } from './shallow';

/** Blocks at the end that more text may still change. */
const OPEN_BLOCKS = 2;

export interface Block {
  key: number;
  token: Token;
  /** Whether more text can no longer change it: code is coloured then. */
  finished: boolean;
}

export class Blocks {
  #text = '';
  #frozen: Block[] = [];
  #frozenEnd = 0;
  /** The number of the last mark in the frozen blocks, -1 for none. */
  #frozenMark = -1;

  /** The blocks of `text`; cheap when it continues the text of the last call. */
  of(text: string, complete: boolean): Block[] {
    const normal = shallow(text.replace(/\r\n?/g, '\n'));
    if (!normal.startsWith(this.#text.slice(0, this.#frozenEnd))) this.#forget();
    this.#text = normal;
    const tokens = read(normal.slice(this.#frozenEnd));
    place(tokens, this.#frozenMark);
    const open = complete ? 0 : lastShown(tokens, OPEN_BLOCKS);
    const closed = tokens.slice(0, tokens.length - open);
    if (!complete) this.#freeze(closed);
    const rest = complete ? tokens : tokens.slice(closed.length);
    return [
      ...this.#frozen,
      ...rest.filter(isShown).map((token, index) => ({
        key: this.#frozen.length + index,
        token,
        finished: complete,
      })),
    ];
  }

  #freeze(tokens: Token[]): void {
    for (const token of tokens) {
      this.#frozenEnd += token.raw.length;
      this.#frozenMark = marksIn(token.raw).at(-1) ?? this.#frozenMark;
      if (isShown(token)) this.#frozen.push({ key: this.#frozen.length, token, finished: true });
    }
  }

  #forget(): void {
    this.#frozen = [];
    this.#frozenEnd = 0;
    this.#frozenMark = -1;
  }
}

/** The tokens of a text; one that the lexer cannot read is one paragraph. */
function read(text: string): Token[] {
  try {
    return tokensOf(text);
  } catch {
    return [{ type: 'html', raw: text, text, block: true, pre: false }];
  }
}

function isShown(token: Token): boolean {
  return token.type !== 'space' && token.type !== 'def';
}

/** How many tokens from the end hold the last `count` that are shown. */
function lastShown(tokens: Token[], count: number): number {
  let shown = 0;
  for (let back = 1; back <= tokens.length; back += 1) {
    const token = tokens[tokens.length - back];
    if (token && isShown(token)) shown += 1;
    if (shown === count) return back;
  }
  return tokens.length;
}
