/** The pages of the window, in the order of the side bar. Pure. */
import type { Page } from '../generated/Page';
import type { IconName } from '../kit/icons';
import { t } from '../strings';

export type PageName = Page;

export function pages(): { page: PageName; name: string; icon: IconName }[] {
  return [
    { page: 'chat', name: t.app.chat, icon: 'chat' },
    { page: 'devices', name: t.app.devices, icon: 'devices' },
    { page: 'models', name: t.app.models, icon: 'model' },
    { page: 'sharing', name: t.app.sharing, icon: 'share' },
    { page: 'privacy', name: t.app.privacy, icon: 'shield' },
    { page: 'port', name: t.app.port, icon: 'plug' },
    { page: 'checks', name: t.app.diagnostics, icon: 'pulse' },
    { page: 'settings', name: t.app.settings, icon: 'gear' },
  ];
}
