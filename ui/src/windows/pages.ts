/** The places of the window, in the order of the side bar, and the sections of its settings. Pure. */
import type { Page } from '../generated/Page';
import type { IconName } from '../kit/icons';
import { t } from '../strings';

export type PageName = Page;
/** What the side bar leads to. `settings` has sections, of which one shows at a time. */
export type PlaceName = 'chat' | 'devices' | 'models' | 'settings';
/** The section that shows first is named as its place is. */
export type SectionName = 'settings' | Exclude<PageName, PlaceName>;

interface Entry<Name extends PageName> {
  page: Name;
  name: string;
  icon: IconName;
}

export function sideBarPlaces(): Entry<PlaceName>[] {
  return [
    { page: 'chat', name: t.app.chat, icon: 'chat' },
    { page: 'devices', name: t.app.devices, icon: 'house' },
    { page: 'models', name: t.app.models, icon: 'model' },
    { page: 'settings', name: t.app.settings, icon: 'gear' },
  ];
}

export function sections(): Entry<SectionName>[] {
  return [
    { page: 'settings', name: t.settings.title, icon: 'tune' },
    { page: 'sharing', name: t.sharing.title, icon: 'share' },
    { page: 'privacy', name: t.privacy.title, icon: 'shield' },
    { page: 'port', name: t.port.title, icon: 'plug' },
    { page: 'checks', name: t.checks.title, icon: 'pulse' },
  ];
}

/** Where a page stands. */
export function placeOf(page: PageName): PlaceName {
  return page === 'chat' || page === 'devices' || page === 'models' ? page : 'settings';
}
