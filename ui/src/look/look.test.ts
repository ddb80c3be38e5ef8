/** Promises of the look: what is chosen wins over the system, and is there the next time. */
import { beforeEach, expect, it } from 'vitest';
import { chosenLanguage, Look } from './look.svelte';

const root = document.documentElement;

beforeEach(() => { delete root.dataset['theme']; });

it('follows the system until something is chosen', () => {
  const look = new Look(root);
  expect(root.dataset['theme']).toBe('light');
  look.chooseTheme('contrast');
  expect(root.dataset['theme']).toBe('contrast');
  expect(new Look(root).theme).toBe('contrast');
  look.chooseTheme('system');
  expect(root.dataset['theme']).toBe('light');
});

it('makes all text larger, and the same size the next time', () => {
  new Look(root).chooseSize('huge');
  expect(root.style.fontSize).toBe('140%');
  expect(new Look(root).size).toBe('huge');
  new Look(root).chooseSize('normal');
  expect(root.style.fontSize).toBe('');
});

it('keeps the language, and takes rubbish for nothing chosen', () => {
  new Look(root).chooseLanguage('de');
  expect(chosenLanguage(localStorage)).toBe('de');
  new Look(root).chooseLanguage(null);
  expect(chosenLanguage(localStorage)).toBeNull();
  localStorage.setItem('inglenook.theme', 'pink');
  expect(new Look(root).theme).toBe('system');
});
