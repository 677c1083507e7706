export const message = 'first message';
