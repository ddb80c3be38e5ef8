/** What the fake household's checks find: one thing that is well, one to know, one that needs the owner. */
import type { Condition } from '../../generated/Condition';
import type { Finding } from '../../generated/Finding';
import type { HouseholdView } from '../../generated/HouseholdView';

export function findingsOf({ me, port, models }: HouseholdView): Finding[] {
  const found = (verdict: Finding['verdict'], subject: string, sentence: string, condition: Condition): Finding =>
    ({ verdict, subject, sentence, condition });
  return [
    found('well', 'identity', `${me.name} (${me.short_id}), key kept in ${me.key_kept_in}`,
      { kind: 'identity', name: me.name, short_id: me.short_id, key: { kind: 'keychain' } }),
    found('well', 'links', 'listening on port 4588, 3 connected', { kind: 'listening', port: 4588, connected: 3 }),
    found('problem', 'discovery',
      'This network or a firewall keeps devices from finding each other. Paired devices and typed addresses still work; allow UDP port 5353 to find new ones.',
      { kind: 'trouble', trouble: { kind: 'discovery_unheard' } }),
    found('well', 'port', port.base_url, { kind: 'port_open', base_url: port.base_url }),
    found('note', 'device',
      'Old Dell does not answer. If it is on: is it on the same network, and does its firewall allow Inglenook? Last at 192.168.1.31:4588.',
      { kind: 'device_away', device: 'Old Dell' }),
    found('well', 'models', `${String(models.length)} here`, { kind: 'models', count: models.length }),
    found('well', 'disk', '84.3 GB are free', { kind: 'disk_room', free_bytes: 84.3e9 }),
    found('well', 'computing', 'models are computed on what was measured to be faster; now on: native',
      { kind: 'computes', backend: 'auto', now: ['native'] }),
    found('well', 'computing', 'gpu:0 Intel Iris Xe Graphics (vulkan, Mesa 25.1.3): not used; measured: CPU 6.7, GPU 5.5 tokens/s of a usual reply',
      { kind: 'gpu', number: 0, name: 'Intel Iris Xe Graphics', api: 'vulkan', driver: 'Mesa 25.1.3', memory_bytes: null, used: { kind: 'measured', is_used: false, cpu: 6.7, gpu: 5.5 }, holds: null }),
  ];
}
