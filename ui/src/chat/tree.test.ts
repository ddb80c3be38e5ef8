/** Promises of `tree.ts`: which branch of a conversation shows. */
import { expect, it } from 'vitest';
import type { MessageView } from '../generated/MessageView';
import { branch } from './tree';

/** `1:u 2:a<1` reads: message 1 of the user at the start, message 2 of the model below it. */
function tree(text: string): MessageView[] {
  return text.split(' ').map((word) => {
    const [, id, role, parent] = /^(\d+):([ua])(?:<(\d+))?$/.exec(word) ?? [];
    return {
      id: Number(id),
      parent: parent === undefined ? null : Number(parent),
      role: role === 'u' ? 'user' : 'assistant',
      text: '',
      created: 0,
      finish: 'complete',
      reworded: false,
      summary: null,
      thought: null,
      path: null,
      cut_because: null,
      stretches: [],
      cut_code: null,
    };
  });
}

function shown(text: string, choices: [number | null, number][] = []): string {
  return branch(tree(text), new Map(choices))
    .map(({ message, siblings, index }) => `${String(message.id)}${siblings.length > 1 ? `(${String(index + 1)}/${String(siblings.length)})` : ''}`)
    .join(' ');
}

it('shows a conversation without forks as it was said', () => {
  expect(shown('1:u 2:a<1 3:u<2 4:a<3')).toBe('1 2 3 4');
});

it('shows the branch that was used last, not the newest sibling', () => {
  // Message 5 goes on below the older answer 2, so that is where the person was.
  expect(shown('1:u 2:a<1 3:a<1 4:u<2 5:a<4')).toBe('1 2(1/2) 4 5');
});

it('shows what was chosen, and the newest below it', () => {
  expect(shown('1:u 2:a<1 3:a<1 4:u<2 5:a<4', [[1, 3]])).toBe('1 3(2/2)');
  expect(shown('1:u 2:u', [[null, 1]])).toBe('1(1/2)');
});

it('ignores a choice that is gone', () => {
  expect(shown('1:u 2:a<1', [[1, 9]])).toBe('1 2');
});

it('shows nothing of an empty conversation and never walks in a circle', () => {
  expect(branch([], new Map())).toEqual([]);
  expect(shown('1:u<1')).toBe('');
});
