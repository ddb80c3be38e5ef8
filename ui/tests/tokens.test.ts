/** Every colour of text meets WCAG AA on every ground that it stands on, in every theme. */
import css from '../src/look/tokens.css?raw';
import { expect, it } from 'vitest';


function tokens(selector: string): Map<string, string> {
  const block = css.slice(css.indexOf(selector));
  return new Map([...block.slice(0, block.indexOf('}')).matchAll(/--([\w-]+):\s*(#[0-9a-f]{3,6})/g)].map(
    ([, name = '', value = '']) => [name, value],
  ));
}

function luminance(hex: string): number {
  const full = hex.length === 4 ? hex.replace(/[0-9a-f]/g, '$&$&') : hex;
  const [r = 0, g = 0, b = 0] = [1, 3, 5]
    .map((at) => parseInt(full.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const light = tokens(':root');
const themes = {
  light,
  dark: new Map([...light, ...tokens('[data-theme="dark"]')]),
  contrast: new Map([...light, ...tokens('[data-theme="contrast"]')]),
};
const PAIRS = [
  ...['ink', 'muted', 'accent', 'good', 'warn', 'bad', 'd0', 'd1', 'd2', 'd3', 'd4', 'd5'].flatMap((text) =>
    ['bg', 'surface', 'sunken'].map((ground) => [text, ground] as const)),
  ['ink', 'selected'],
  ['muted', 'selected'],
  ['ink', 'accent-soft'],
  ['accent', 'accent-soft'],
  ['accent-ink', 'accent'],
  ['surface', 'bad'],
  ['toast-ink', 'toast'],
  ['toast-accent', 'toast'],
] as const;

it.each(Object.entries(themes))('%s', (_, colours) => {
  const poor = PAIRS.filter(([text, ground]) => contrast(colours.get(text) ?? '', colours.get(ground) ?? '') < 4.5);
  expect(poor).toEqual([]);
});
