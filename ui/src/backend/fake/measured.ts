/** What was measured of how much a helper could read, of one model of the fake household. */
import type { HouseholdView } from '../../generated/HouseholdView';
import type { KeptPrivacyView } from '../../generated/KeptPrivacyView';

/** 27 November 2026, at noon. */
const MEASURED = 1_795_780_800;

export function measuredOf(house: HouseholdView): KeptPrivacyView {
  const of = house.models.filter((one) => one.built_in).slice(0, 1);
  const figures = {
    measured_at: MEASURED, tokens: 64, candidates: 2048, layers_before: 1, format: 'f16',
    nearest: 0.109_375, probe: 0.828_125, lens: 0.109_375, replay: 0.984_375, next: 0.093_75,
  } as const;
  return { models: of.map(({ name, digest }) => ({ model: name, digest, figures })), problem: null };
}
