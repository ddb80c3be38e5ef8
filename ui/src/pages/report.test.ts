/** Promises of the report: it says what is wrong and names nobody. */
import { expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { startingHouse } from '../backend/fake/household';
import { redacted, report } from './report';

const house = startingHouse();

it.each([
  ['Old Dell does not answer at 192.168.1.31:4588.', '<device 3> does not answer at <address>.'],
  ['Mia’s laptop (thisl4pt), key kept in the file /home2/mia/key', '<this computer> (<id>), key kept in the file <address>'],
  ['http://127.0.0.1:4587/v1 is open', 'http://127.0.0.1:4587/v1 is open'],
  ['seen at [fe80::1a2b:3c4d] and mias-laptop.local', 'seen at <address> and <address>'],
  ['multicast works, 3 devices seen', 'multicast works, 3 devices seen'],
])('says %j as %j', (said, expected) => {
  expect(redacted(said, house)).toBe(expected);
});

it('holds every finding', async () => {
  const diagnostics = await new FakeBackend({ past: false }).diagnostics();
  const text = report(diagnostics, house);
  expect(text.split('\n')).toHaveLength(1 + diagnostics.findings.length);
  expect(text).toContain('PROBLEM discovery: This network or a firewall');
  for (const { name } of [house.me, ...house.devices]) expect(text).not.toContain(name);
});
