/** The time zone that is chosen in Airflow's menu, as it changes. */

import { useSyncExternalStore } from "react";

import { zone } from "./format";

const subscribe = (changed: () => void) => {
  // The host writes its storage in this window, where no event says so.
  const timer = setInterval(changed, 500);
  globalThis.addEventListener("storage", changed);
  return () => {
    clearInterval(timer);
    globalThis.removeEventListener("storage", changed);
  };
};

export const useZone = (): string | undefined => useSyncExternalStore(subscribe, zone);
