/** What a model is called where one is chosen among others. Pure. */
import type { ModelView } from '../generated/ModelView';

/** With its quantisation only where the same model is here twice. */
export function modelName({ title, quantisation }: ModelView, models: readonly ModelView[]): string {
  return models.filter((one) => one.title === title).length > 1 ? `${title} · ${quantisation}` : title;
}

/** Who wrote a reply, where that is not the model of the chat; empty where it is, or is not known. */
export function otherAuthor(author: string | null, ofChat: string | null, models: readonly ModelView[]): string {
  if (author === null || author === ofChat) return '';
  const model = models.find(({ name }) => name === author);
  return model === undefined ? author : modelName(model, models);
}
