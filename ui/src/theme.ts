/** Whether Airflow's page is dark now; the host puts the class `dark` on the root element. */

import { useSyncExternalStore } from "react";

const subscribe = (changed: () => void) => {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributeFilter: ["class", "data-theme"] });
  return () => observer.disconnect();
};

const isDark = () => document.documentElement.classList.contains("dark");

export const useDark = (): boolean => useSyncExternalStore(subscribe, isDark);

