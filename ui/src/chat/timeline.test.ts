/** Promises of the timeline: each device in words and figures, unfolded on demand, nothing that axe finds. */
import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import axe from 'axe-core';
import { expect, it } from 'vitest';
import type { PartView } from '../generated/PartView';
import Timeline from './Timeline.svelte';
import { columns, rowsOf } from './timeline';

const NOTHING = { steps: 0, positions: 0, compute_ms: 0, queue_ms: 0, network_ms: 0 };

function part(values: Partial<PartView>): PartView {
  return {
    device_id: 'dad', device: 'Dad’s PC', local: false, layers: [1, 20], first_token: 1, last_token: 8,
    prompt: { steps: 2, positions: 1200, compute_ms: 1234, queue_ms: 3, network_ms: 40 },
    reply: { steps: 7, positions: 7, compute_ms: 84, queue_ms: 1, network_ms: 12.4 },
    bytes_out: 8_651_776, bytes_in: 8_651_776,
    ...values,
  };
}

it('says what a device did, for which tokens, how long, and what travelled', () => {
  const [row] = rowsOf([part({})]);
  expect(row?.device).toBe('Dad’s PC');
  expect(row?.cells).toEqual(['1–20', '1–8', '1.2 s for 1,200', '0.084 s for 7', '0.052 s', '0.004 s', '8.7 MB / 8.7 MB']);
  expect(row?.cells.length).toBe(columns().length);
});

it('leaves out what does not apply: no way to this computer, no layer, no token', () => {
  const [here] = rowsOf([part({ local: true, layers: [0, 0], reply: NOTHING, first_token: 0, last_token: 0 })]);
  expect(here?.device).toBe('This computer');
  expect(here?.cells).toEqual(['0', '–', '1.2 s for 1,200', '–', '–', '0.003 s', '–']);
  expect(rowsOf([part({ layers: null })])[0]?.cells[0]).toBe('–');
});

it('unfolds into a table that has names for its rows and columns', async () => {
  const parts = [part({}), part({ device_id: 'mum', device: 'Mum’s laptop', first_token: 8, last_token: 24 })];
  render(Timeline, { timeline: parts, totalMs: 2400, predicted: 'Predicted beforehand: 5 words/s together.' });
  expect(screen.queryAllByTestId('timeline-row')).toEqual([]);
  await userEvent.click(screen.getByText('Details'));
  const rows = await screen.findAllByTestId('timeline-row');
  expect(rows.map((row) => within(row).getByRole('rowheader').textContent)).toEqual(['Dad’s PC', 'Mum’s laptop']);
  expect(screen.getAllByRole('columnheader').length).toBe(columns().length + 1);
  expect(screen.getByTestId('timeline').textContent).toContain('The whole reply took 2.4 s.');
  expect(screen.getByTestId('predicted').textContent).toBe('Predicted beforehand: 5 words/s together.');
  const { violations } = await axe.run(document.body, { rules: { 'color-contrast': { enabled: false }, region: { enabled: false } } });
  expect(violations.map((fault) => fault.id)).toEqual([]);
});
