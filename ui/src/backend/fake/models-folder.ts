/** The fake household's folder of models: it moves in tenths, wherever a path leads. */
import type { HouseholdView } from '../../generated/HouseholdView';
import type { ModelsFolderView } from '../../generated/ModelsFolderView';

const USUAL = '/data/mia/inglenook/models';

/** A move has as many pieces. */
const PIECES = 10;

export function startingFolder(): ModelsFolderView {
  return { path: USUAL, usual: true, there: true, missing: [], moving: null, problem: null };
}

/** Begins to move, or to wait until no download is there; a word where it is refused. */
export function beginMove(house: HouseholdView, to: string | null): string | null {
  const folder = house.models_folder;
  const target = to ?? USUAL;
  if (folder.moving) return 'The models are being moved.';
  if (target === folder.path) return `The models are in ${target} already.`;
  const bytes = house.models.reduce((sum, model) => sum + (model.owned && !model.built_in ? model.file_bytes : 0), 0);
  house.models_folder = { ...folder, problem: null, moving: { to: target, state: house.downloads.length > 0 ? 'waiting' : 'moving', done_bytes: 0, bytes } };
  return null;
}

/** A tenth is moved; says whether more is to come. While it waits, only whether it still has to. */
export function pieceMoves(house: HouseholdView): boolean {
  const { moving } = house.models_folder;
  if (!moving) return false;
  if (moving.state === 'waiting') {
    if (house.downloads.length === 0) house.models_folder = { ...house.models_folder, moving: { ...moving, state: 'moving' } };
    return true;
  }
  const done = moving.done_bytes + moving.bytes / PIECES;
  if (done < moving.bytes) {
    house.models_folder = { ...house.models_folder, moving: { ...moving, done_bytes: done } };
    return true;
  }
  house.models_folder = { ...startingFolder(), path: moving.to, usual: moving.to === USUAL };
  return false;
}
