/** The words of the choices that chats and settings share, and how a kept one is read. */
import { describe, expect, it } from 'vitest';
import { AS_SETTINGS, choicesFrom, freedomName, freedoms, freedomValue } from './reply-choices';

describe('the choice of words', () => {
  it('has a name for each usual temperature, also as a machine writes it', () => {
    expect([0, 0.30000001192092896, 0.7, 1, 1.3].map(freedomName)).toEqual(['Exact', 'Careful', 'Usual', 'Free', 'Very free']);
  });

  it('shows what was set by hand among them', () => {
    expect(freedoms(0.55).map(({ name }) => name)).toEqual(['Exact', 'Careful', 'As set by hand (0.55)', 'Usual', 'Free', 'Very free']);
    expect(freedoms(0.55).some(({ value }) => value === freedomValue(0.55))).toBe(true);
    expect(freedoms(0.7)).toEqual(freedoms(null));
  });
});

it('what a page kept is read as far as it is a choice', () => {
  expect(choicesFrom({ thinking: 'on', temperature: 0.3 })).toEqual({ thinking: 'on', temperature: 0.3 });
  for (const nonsense of [null, 'on', {}, { thinking: 'perhaps', temperature: 3 }, { thinking: 1, temperature: 'hot' }]) {
    expect(choicesFrom(nonsense)).toEqual(AS_SETTINGS);
  }
});
