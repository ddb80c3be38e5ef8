/** Promises of `programs.ts`: every program gets address and model, quoted so that nothing escapes. */
import { expect, it } from 'vitest';
import { PROGRAMS } from './programs';

const URL = 'http://127.0.0.1:4587/v1';
const port = { url: URL, key: 'nook-secret', model: "Mia's \"7B\"", window: 8192 };

function settings(name: string): string {
  return PROGRAMS.find((program) => program.name === name)?.settings(port) ?? '';
}

it.each(PROGRAMS.map((program) => [program.name, program] as const))('%s gets the address', (_, program) => {
  expect(program.settings(port)).toContain(URL);
  expect(program.where()).not.toBe('');
});

it('gives the key to all but Zed, which keeps keys itself', () => {
  const without = PROGRAMS.filter((program) => !program.settings(port).includes('nook-secret'));
  expect(without.map((program) => program.name)).toEqual(['Zed']);
});

it('quotes names for JSON, YAML, Python and shells', () => {
  const zed = JSON.parse(settings('Zed')) as { language_models: { openai_compatible: { Inglenook: { available_models: { name: string }[] } } } };
  expect(zed.language_models.openai_compatible.Inglenook.available_models[0]?.name).toBe(port.model);
  expect(settings('Continue')).toContain(`model: ${JSON.stringify(port.model)}`);
  expect(settings('aider')).toContain(String.raw`'openai/Mia'\''s "7B"'`);
  const body = /-d '(.*)'$/s.exec(settings('curl'))?.[1]?.replaceAll(String.raw`'\''`, "'") ?? '';
  expect((JSON.parse(body) as { model: string }).model).toBe(port.model);
});
