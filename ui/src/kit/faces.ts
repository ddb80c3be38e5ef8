/** Drawings of the kinds of computers: paths on a field of 24 by 24. Pure. */
import type { DeviceKind } from '../generated/DeviceKind';
import { SHAPES } from './icons';

export const FACES: Record<DeviceKind, readonly string[]> = {
  laptop: ['M6 5.5h12a1.5 1.5 0 0 1 1.5 1.5v9H4.5V7A1.5 1.5 0 0 1 6 5.5z', 'M2.5 19h19'],
  desktop: SHAPES.computer,
  tower: ['M8 2.5h8a2 2 0 0 1 2 2v15a2 2 0 0 1-2 2H8a2 2 0 0 1-2-2v-15a2 2 0 0 1 2-2z', 'M9.5 6.2h5M9.5 9h5', 'M12 12.4a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2z'],
  mini: ['M5 8h14a2 2 0 0 1 2 2v4.5a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V10a2 2 0 0 1 2-2z', 'M6.8 12.2h.01M10 12.2h4'],
  server: ['M4 4.5h16v6H4z', 'M4 13.5h16v6H4z', 'M7.5 7.5h.01M7.5 16.5h.01M12 7.5h4.5M12 16.5h4.5'],
};
