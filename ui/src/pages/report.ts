/** The report that a person can send to somebody who helps: what was found, without names and addresses. Pure. */
import type { DiagnosticsView } from '../generated/DiagnosticsView';
import type { HouseholdView } from '../generated/HouseholdView';

const ADDRESSES = [
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?/g,
  /\[?\b[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:){1,7}[0-9a-f]{0,4}(?:\]:\d{1,5}|\])?/gi,
  /\b[\w-]+\.(?:local|lan|home|fritz\.box)\b(?::\d{1,5})?/gi,
  // Whole paths name the person's account.
  /(?:\/(?:[\w.@-]+\/)+[\w.@-]+|[A-Za-z]:\\[^\s,;]+)/g,
];

/** Texts of this house that name somebody, longest first so that no name is left half. */
function names(house: HouseholdView): [string, string][] {
  const { me, devices } = house;
  const own: [string, string][] = [[me.name, 'this computer'], [me.id, 'id'], [me.short_id, 'id']];
  const others = devices.flatMap((device, index): [string, string][] => {
    const called = `device ${String(index + 1)}`;
    return [[device.name, called], [device.id, 'id'], [device.short_id, 'id']];
  });
  return [...own, ...others].filter(([name]) => name !== '').sort(([a], [b]) => b.length - a.length);
}

/** `text` without what names people, devices and places. Addresses of this machine alone stay. */
export function redacted(text: string, house: HouseholdView): string {
  const hidden = names(house).reduce((left, [name, called]) => left.replaceAll(name, `<${called}>`), text);
  return ADDRESSES.reduce(
    (left, address) => left.replace(address, (found) => (found.startsWith('127.0.0.1') ? found : '<address>')),
    hidden,
  );
}

export function report(diagnostics: DiagnosticsView, house: HouseholdView): string {
  const lines = diagnostics.findings.map(({ verdict, subject, sentence }) => `${verdict.toUpperCase()} ${subject}: ${sentence}`);
  const versions = [`Inglenook ${house.me.app_version}`, diagnostics.system, `web view ${diagnostics.web_view ?? '-'}`,
    diagnostics.safe_graphics ? 'safe graphics' : 'usual graphics', diagnostics.tray ? 'tray found' : 'no tray'];
  return redacted([versions.join(', '), ...lines, ...house.problems.map(({ sentence }) => sentence)].join('\n'), house);
}
