/** The time zone that is chosen in Airflow's menu, as it changes. */

import { useSyncExternalStore } from "react";

import { zone } from "./format";

const listeners = new Set<() => void>();
let known: string | undefined;
let timer: ReturnType<typeof setInterval> | undefined;

const look = () => {
  const chosen = zone();
  if (chosen === known) return;
  known = chosen;
  for (const changed of listeners) changed();
};

/** One timer for every time on the page: the host writes its storage in this window, where no event says so. */
const subscribe = (changed: () => void) => {
  listeners.add(changed);
  timer ??= setInterval(look, 500);
  return () => {
    listeners.delete(changed);
    if (listeners.size) return;
    clearInterval(timer);
    timer = undefined;
  };
};

export const useZone = (): string | undefined => useSyncExternalStore(subscribe, zone);
