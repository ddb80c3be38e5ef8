/** What the page's own process takes of the machine. Linux tells it under /proc; elsewhere it is 0. */
import { readFileSync } from 'node:fs';
import type { Browser } from '@playwright/test';

/** Ticks a second of /proc/<pid>/stat, on every Linux that browsers run on. */
const TICKS = 100;

/** Seconds of processor that all processes of pages have taken, all their threads together. */
export async function pagesCpuSeconds(browser: Browser): Promise<number> {
  return (await renderersOf(browser)).reduce((sum, pid) => sum + cpuSeconds(pid), 0);
}

async function renderersOf(browser: Browser): Promise<number[]> {
  const whole = await browser.newBrowserCDPSession();
  const { processInfo } = await whole.send('SystemInfo.getProcessInfo');
  await whole.detach();
  return processInfo.filter((one) => one.type === 'renderer').map((one) => one.id);
}

/** The process of the page. The browser keeps an empty one ready beside it, which has less. */
export async function rendererOf(browser: Browser): Promise<number> {
  const renderers = await renderersOf(browser);
  return renderers.reduce((most, pid) => (own(pid) > own(most) ? pid : most), renderers[0] ?? 0);
}

/** Memory that a process shares with nobody, in MB; 0 where the system does not say. */
export function own(pid: number): number {
  try {
    const kilobytes = [...readFileSync(`/proc/${String(pid)}/smaps_rollup`, 'utf8').matchAll(/^Private_\w+:\s+(\d+)/gm)];
    return kilobytes.reduce((sum, found) => sum + Number(found[1]), 0) * 1024 / 1e6;
  } catch {
    return 0;
  }
}

function cpuSeconds(pid: number): number {
  try {
    // Behind the name, which stands in brackets and may hold spaces: user and system time are 12th and 13th.
    const fields = readFileSync(`/proc/${String(pid)}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  } catch {
    return 0;
  }
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
