/** Names in a row and how many they are: other languages inflect by it. */
export type Together = (names: string, count: number) => string;
