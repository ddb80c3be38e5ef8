/** The pages beside the first one. Each is loaded when it is opened, and then kept. */
import { part } from '../kit/part';
import type { PageName } from './pages';

export const PARTS = {
  devices: part(() => import('../devices/HouseholdPage.svelte')),
  models: part(() => import('../pages/ModelsPage.svelte')),
  settings: part(() => import('../pages/SettingsPage.svelte')),
  sharing: part(() => import('../pages/SharingPage.svelte')),
  privacy: part(() => import('../pages/PrivacyPage.svelte')),
  port: part(() => import('../pages/PortPage.svelte')),
  checks: part(() => import('../pages/ChecksPage.svelte')),
} satisfies Record<Exclude<PageName, 'chat'>, () => Promise<unknown>>;

/** Resolves once a page can be drawn. */
export async function loaded(page: PageName): Promise<void> {
  if (page !== 'chat') await PARTS[page]();
}
