/** Promises of what the program says: in the language in use, and nothing lost that only English says. */
import { afterEach, expect, it } from 'vitest';
import type { DeviceView } from '../generated/DeviceView';
import type { DownloadTrouble } from '../generated/DownloadTrouble';
import type { MessageView } from '../generated/MessageView';
import { useLanguage } from './index';
import { cutText, keptCut, refusal, unusedText } from './problems';

const root = document.documentElement;
const wrong = { code: 'trust_denied', sentence: 'The code is not the one on the other screen.', wording: { kind: 'wrong_code' as const } };
const exact = { code: 'bad_model', sentence: 'The file ends in the middle of a tensor.', wording: null };

afterEach(() => useLanguage('en', root));

it('says a refusal in English as the program does', () => {
  expect(refusal(exact)).toBe(exact.sentence);
  expect(refusal({ code: 'busy', sentence: 'Try again shortly.' })).toBe('Try again shortly.');
  expect(refusal({ code: 'never heard of', sentence: 'Something else.' })).toBe('Something else.');
});

it('says it in German, and adds what only the sentence says', async () => {
  await useLanguage('de', root);
  expect(refusal(wrong)).toBe('Der Code ist nicht der auf dem anderen Bildschirm.');
  expect(refusal({ code: 'busy', sentence: 'Try again.', wording: { kind: 'code' } })).not.toContain('Try');
  expect(refusal(exact)).toMatch(/^Die Modelldatei .* \(The file ends in the middle of a tensor\.\)$/);
  const long = { kind: 'prompt_too_long' as const, tokens: 12_000, at_least: false, model: 'Ember', window: 1024 };
  expect(refusal({ code: 'too_long', sentence: 'x', wording: long })).toContain('davor 12.000');
  expect(refusal({ code: 'too_long', sentence: 'x', wording: { ...long, at_least: true } })).toContain('davor mindestens 12.000');
  expect(refusal({ code: 'never heard of', sentence: 'Something else.' })).toBe('Something else.');
});

it('says what is wrong with a download, with what the servers said', async () => {
  const problem = (trouble: DownloadTrouble) => ({ code: 'bad_request', sentence: 'In English.', wording: { kind: 'download' as const, trouble } });
  const gaveUp = problem({ why: 'gave_up', host: 'example.org', tries: 8, last: { means: null, said: 'connection reset' } });
  const room = problem({ why: 'no_room', needed: 2.5e9, free: 1.2e9 });
  expect(refusal(gaveUp)).toContain('8 tries at example.org brought nothing new, the last ended so: connection reset.');
  expect(refusal(room)).toContain('2.5 GB are still to come, 1.2 GB are free');
  await useLanguage('de', root);
  expect(refusal(gaveUp)).toMatch(/^8 Versuche bei example\.org .* so: connection reset\. Was kam, bleibt/);
  expect(refusal(room)).toContain('2,5 GB kommen noch, 1,2 GB sind frei');
  const none = { reason: 'it is empty' };
  expect(refusal(problem({ why: 'no_model', deleted: false, ...none }))).not.toContain('gelöscht');
  expect(refusal(problem({ why: 'no_model', deleted: true, ...none }))).toContain('gelöscht');
});

it('says why a reply was cut, now and when it is read again', async () => {
  const kept = { finish: 'failed', cut_because: 'A device stopped.', cut_code: 'pipeline_stalled' } as MessageView;
  expect(cutText('pipeline_stalled', 'A device stopped.')).toBe('A device stopped.');
  await useLanguage('de', root);
  expect(cutText('pipeline_stalled', 'A device stopped.')).toBe(keptCut(kept));
  expect(keptCut(kept)).not.toContain('device');
  expect(keptCut({ ...kept, finish: 'interrupted', cut_code: null })).toContain('geschlossen');
  expect(keptCut({ ...kept, finish: 'complete', cut_because: null, cut_code: null })).toBeNull();
});

it('says why a device is not used', async () => {
  const away = { unused: 'away', unused_because: 'It does not answer.' } as DeviceView;
  expect(unusedText(away)).toBe('It does not answer.');
  expect(unusedText({ ...away, unused: null, unused_because: null })).toBe('');
  await useLanguage('de', root);
  expect(unusedText(away)).not.toContain('answer');
  const left = { ...away, unused: 'left_out' as const, unused_because: 'The last reply did without it. 40 ms more.' };
  expect(unusedText(left)).toContain('40 ms more');
});

it('says what is missing for a model that does not fit here, device by device', async () => {
  const wording = {
    kind: 'no_room' as const, model: 'Qwen3 14B', needs_bytes: 9.6e9, free_bytes: 5.5e9, only_here: false,
    others: [{ device: 'Dad’s PC', why: 'absent' as const }, { device: 'Tablet', why: 'too_little' as const }],
  };
  const said = () => cutText('shard_unavailable', 'In English.', wording);
  expect(said()).toBe('Qwen3 14B needs 9.6 GB of memory for this reply, and this computer has 5.5 GB for it. '
    + 'It cannot be divided now: Dad’s PC is not connected: start it; Tablet does not lend enough for the rest.');
  const ends = { kind: 'only_ends' as const, model: 'Qwen3 14B', only_here: false, others: wording.others };
  expect(cutText('shard_unavailable', 'In English.', ends)).toMatch(/^Only this computer’s part of Qwen3 14B .* start it; Tablet/);
  expect(cutText('bad_model', '', { kind: 'ends_on_their_way', model: 'Qwen3 14B' })).toContain('still on its way');
  expect(cutText('out_of_memory', '', { ...wording, only_here: true })).toContain('Let other devices help');
  expect(cutText('shard_unavailable', '', { ...wording, others: [] })).toContain('Pair another computer');
  await useLanguage('de', root);
  expect(said()).toMatch(/9,6 GB .* Dad’s PC .* verbunden/);
  expect(said()).not.toContain('English');
});
